# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent with Qwen2.5-7B-Instruct; all else is `factagent_qwen25_3b.py`."""

from experiments.configs import factagent_qwen25_3b

RUNS_ON_CPU = False


def get_config():
  config = factagent_qwen25_3b.get_config()
  with config.unlocked():
    config.model.name = 'Qwen/Qwen2.5-7B-Instruct'
  return config
