# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Published models: their config and their weights, whatever holds them."""

import json

from searchrl_jax.gguf_file import GgufFile
from searchrl_jax.model_files import CONFIG, Kind, ModelFiles
from searchrl_jax.models import gguf_config, gguf_weights, hf_config
from searchrl_jax.models.config import DecoderConfig
from searchrl_jax.models.loading import WeightSource
from searchrl_jax.models.safetensors_files import SafetensorsFiles


def read_config(files: ModelFiles) -> DecoderConfig:
  """The sizes of a model; its weights are not read.

  Raises:
    ValueError: no config, or one of no known family.
  """
  if files.kind is Kind.GGUF:
    return gguf_config.config_of(GgufFile(files.path))
  path = files.path / CONFIG
  try:
    raw = json.loads(path.read_text(encoding='utf-8'))
  except FileNotFoundError:
    raise ValueError(
      f'{files.path} has no {CONFIG}; give the directory of a model.'
    ) from None
  except ValueError as error:
    raise ValueError(f'{path} is not JSON: {error}') from None
  return hf_config.from_hf(raw)


def open_weights(files: ModelFiles) -> WeightSource:
  """The weights of a model, for `loading.load`; nothing is read yet.

  Raises:
    ValueError: files are missing or broken.
  """
  if files.kind is Kind.GGUF:
    return gguf_weights.GgufWeights(GgufFile(files.path))
  return SafetensorsFiles(files.path)
