# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The weights of a GGUF file under their published names.

Files of the llama architecture hold the rows of q and k in another order, for
rotary positions that turn neighbouring rows; here halves of a head are paired,
as in published weights. For a head of 8 rows:

  published     0 1 2 3 4 5 6 7     pair i is rows (i, i + H / 2)
  in the file   0 4 1 5 2 6 3 7     pair i is rows (2 i, 2 i + 1)

Files of the Qwen architectures keep the published order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from searchrl_jax.gguf_file import GgufFile
from searchrl_jax.models import hf_names
from searchrl_jax.models.gguf_config import (
  EMBEDDING,
  HEAD,
  ROPE_FACTORS,
  config_of,
)

_PERMUTED = 'llama'
_NAMES = {
  EMBEDDING: hf_names.EMBEDDING,
  'output_norm.weight': hf_names.FINAL_NORM,
  HEAD: hf_names.HEAD,
}
_NORMS = {
  'attn_norm': 'input_layernorm',
  'attn_q_norm': 'self_attn.q_norm',
  'attn_k_norm': 'self_attn.k_norm',
  'ffn_norm': 'post_attention_layernorm',
}
_PROJECTIONS = {
  'attn_q': 'self_attn.q_proj',
  'attn_k': 'self_attn.k_proj',
  'attn_v': 'self_attn.v_proj',
  'attn_output': 'self_attn.o_proj',
  'ffn_gate': 'mlp.gate_proj',
  'ffn_up': 'mlp.up_proj',
  'ffn_down': 'mlp.down_proj',
}


class GgufWeights:
  """The weights of a GGUF file in the names and the orientation of published
  ones; a source for `loading.load`.

  Tensors that have no published name keep their own, for the loader to name.
  """

  def __init__(self, file: GgufFile):
    """Looks at names and sizes; reads no weight.

    Raises:
      ValueError: as `config_of`, or two tensors have one published name.
    """
    config = config_of(file)
    self._file = file
    self._stored = {}
    for stored in file.tensors:
      if stored == ROPE_FACTORS:
        continue
      name = _published(stored)
      if name in self._stored:
        raise ValueError(
          f'{file.path} holds {name} twice, as {self._stored[name]} and as '
          f'{stored}; take another file of the model.'
        )
      self._stored[name] = stored
    self._heads = {}
    if file.metadata['general.architecture'] == _PERMUTED:
      for layer in range(config.layers):
        prefix = f'model.layers.{layer}.self_attn'
        for part in ('weight', 'bias'):
          self._heads[f'{prefix}.q_proj.{part}'] = config.heads
          self._heads[f'{prefix}.k_proj.{part}'] = config.kv_heads

  def __str__(self):
    return str(self._file.path)

  @property
  def shapes(self) -> dict[str, tuple[int, ...]]:
    """Published name -> shape, `[fan_out, fan_in]` for matrices."""
    tensors = self._file.tensors
    return {name: tensors[key].shape for name, key in self._stored.items()}

  def names_in_order(self) -> Iterable[str]:
    """Published names in the order of the file."""
    return tuple(self._stored)

  def read(self, name: str) -> np.ndarray:
    """One weight, dequantised, float32, rows in the published order."""
    values = self._file.tensors[self._stored[name]].read()
    if name in self._heads:
      return _unpermuted(values, self._heads[name])
    return values


def _published(stored):
  """The published name of a tensor, or its own where it has none."""
  match = re.fullmatch(r'blk\.(\d+)\.(\w+)\.(weight|bias)', stored)
  if match is None:
    return _NAMES.get(stored, stored)
  layer, key, part = match.groups()
  named = _PROJECTIONS if part == 'bias' else _PROJECTIONS | _NORMS
  if key not in named:
    return stored
  return f'model.layers.{layer}.{named[key]}.{part}'


def _unpermuted(values, heads):
  """Rows of neighbouring pairs back in halves, `[heads H, ...]`."""
  pairs = values.reshape(heads, -1, 2, *values.shape[1:])
  return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)
