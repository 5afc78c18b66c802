# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Installs searchrl_jax and what it needs; versions are in constraints.txt."""

import setuptools

setuptools.setup(
  name='searchrl_jax',
  version='0.1.0',
  description=(
    'Reinforcement learning of language-model search agents in JAX, with '
    'credit per turn'
  ),
  license='Apache-2.0',
  python_requires='>=3.11',
  packages=setuptools.find_packages(
    include=['searchrl_jax*', 'experiments*', 'launch_scripts*', 'benchmarks*']
  ),
  package_data={'searchrl_jax.models': ['*.cc']},  # compiled where it is used
  install_requires=[
    'jax>=0.10',
    'flax',
    'optax',
    'orbax-checkpoint',
    'transformers',  # tokenizers and their chat templates; no PyTorch
    'tokenizers',
    'huggingface_hub',
    'safetensors',
    'gguf',
    'tensorflow-datasets',
    'grain',
    'numpy',
    'absl-py',
    'ml_collections',
    'chex',
    'bm25s',
    'PyStemmer',
    'rich',
    'matplotlib',
    'tensorboardX',  # a TensorBoard writer that needs no TensorFlow
    'jinja2',
    'pyarrow',  # question sets in parquet
  ],
  extras_require={
    'dev': ['pytest', 'pytest-xdist', 'hypothesis', 'ruff'],
    'gpu': ['jax[cuda12]'],
    'tpu': ['jax[tpu]'],
    'serve': ['starlette', 'uvicorn'],
    # accelerate: transformers reads GGUF files for PyTorch with it.
    'parity': ['torch==2.13.0', 'accelerate'],
  },
)
