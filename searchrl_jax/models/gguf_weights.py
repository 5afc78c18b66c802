# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A GGUF file as a decoder: its config, its weights under published names.

Files of the llama architecture hold the rows of q and k in another order, for
rotary positions that turn neighbouring rows; here halves of a head are paired,
as in published weights. For a head of 8 rows:

  published     0 1 2 3 4 5 6 7     pair i is rows (i, i + H / 2)
  in the file   0 4 1 5 2 6 3 7     pair i is rows (2 i, 2 i + 1)

Files of the Qwen architectures keep the published order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np

from searchrl_jax.gguf_file import GgufFile
from searchrl_jax.models import hf_names
from searchrl_jax.models.config import (
  DecoderConfig,
  LinearScaling,
  Llama3Scaling,
  YarnScaling,
)
from searchrl_jax.models.rope import inverse_frequencies

_ARCHITECTURES = ('llama', 'qwen2', 'qwen3')
_PERMUTED = 'llama'

_EMBEDDING, _HEAD = 'token_embd.weight', 'output.weight'
# What each rotary frequency is divided by: part of the config, no weight.
_ROPE_FACTORS = 'rope_freqs.weight'
# Llama 3.1 and 3.2, the only published models with such a tensor.
_LLAMA3 = tuple(Llama3Scaling(factor, 1.0, 4.0, 8192) for factor in (8.0, 32.0))

_NAMES = {
  _EMBEDDING: hf_names.EMBEDDING,
  'output_norm.weight': hf_names.FINAL_NORM,
  _HEAD: hf_names.HEAD,
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
# Values other than these make another model of it.
_REQUIRED = {
  'expert_count': 0,
  'attention.causal': True,
  'attention.sliding_window': 0,
  'rope.scaling.yarn_ext_factor': 1,
  'rope.scaling.yarn_log_multiplier': 0,
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
      if stored == _ROPE_FACTORS:
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


def config_of(file: GgufFile) -> DecoderConfig:
  """The decoder that a file declares, for the families Llama, Qwen2, Qwen3.

  Raises:
    ValueError: another architecture, a missing key, or something the decoder
      does not do, such as experts or rotary factors of no published model.
  """
  keys = _Keys(file)
  tensors = file.tensors
  if _EMBEDDING not in tensors:
    raise ValueError(
      f'{file.path} holds no {_EMBEDDING}; give the file of a whole model.'
    )
  for key, value in _REQUIRED.items():
    if keys.get(key, value) != value:
      raise ValueError(
        f'{file.path} sets {key} to {keys.get(key, value)}, which this '
        'decoder does not do; choose another model.'
      )
  width, heads = keys.number('embedding_length'), _heads(keys, 'head_count')
  head_width = keys.number('attention.key_length', width // max(heads, 1))
  for key in ('attention.value_length', 'rope.dimension_count'):
    if keys.number(key, head_width) != head_width:
      raise ValueError(
        f'{file.path} sets {key} to {keys.number(key)} where a head is '
        f'{head_width} wide: this decoder does not do that.'
      )
  base = keys.number('rope.freq_base', 10000.0)
  return DecoderConfig(
    vocabulary=tensors[_EMBEDDING].shape[0],
    width=width,
    layers=keys.number('block_count'),
    heads=heads,
    kv_heads=_heads(keys, 'head_count_kv', heads),
    head_width=head_width,
    mlp_width=keys.number('feed_forward_length'),
    rope_base=base,
    norm_eps=keys.number('attention.layer_norm_rms_epsilon'),
    rope_scaling=_scaling(file, keys, head_width, base),
    context=keys.number('context_length', 0),
    qk_norm=keys.architecture == 'qwen3',
    attention_bias='blk.0.attn_q.bias' in tensors,
    output_bias='blk.0.attn_output.bias' in tensors,
    mlp_bias='blk.0.ffn_gate.bias' in tensors,
    tied=_HEAD not in tensors,
  )


class _Keys:
  """Metadata of the architecture of a file."""

  def __init__(self, file):
    self._file = file
    self.architecture = file.metadata.get('general.architecture')
    if self.architecture not in _ARCHITECTURES:
      known = ', '.join(_ARCHITECTURES)
      raise ValueError(
        f'{file.path} holds a model of architecture {self.architecture}; '
        f'give one of {known}.'
      )

  def get(self, key, default=None):
    return self._file.metadata.get(f'{self.architecture}.{key}', default)

  def number(self, key, default=None):
    value = self.get(key, default)
    if not isinstance(value, int | float):
      problem = 'lacks the key' if value is None else 'has no number at'
      raise ValueError(
        f'{self._file.path} {problem} {self.architecture}.{key}; take '
        'another file of the model.'
      )
    return value


def _heads(keys, key, default=None):
  """A number of heads; some files repeat it for each layer."""
  value = keys.get(f'attention.{key}')
  if isinstance(value, list) and len(set(value)) == 1:
    return value[0]
  return keys.number(f'attention.{key}', default)


def _scaling(file, keys, head_width, base):
  """How rotary positions are stretched: by keys, or by a tensor of factors."""
  kind = keys.get('rope.scaling.type', 'linear')
  factor = keys.number('rope.scaling.factor', 1.0)
  if kind not in ('none', 'linear', 'yarn'):
    raise ValueError(
      f'{file.path} scales rotary positions by {kind!r}; this decoder knows '
      'linear, yarn and the factors of Llama 3.'
    )
  stretched = kind != 'none' and factor != 1
  if _ROPE_FACTORS in file.tensors:
    if stretched:
      raise ValueError(
        f'{file.path} has both {_ROPE_FACTORS} and rope.scaling.factor '
        f'{factor}; this decoder does one or the other.'
      )
    return _llama3(file, head_width, base)
  if not stretched:
    return None
  if kind == 'linear':
    return LinearScaling(factor)
  # A stated factor is the published config's, and replaces the formula's.
  formula = 0.1 * math.log(factor) + 1.0
  attention = keys.number('rope.scaling.yarn_attn_factor', formula)
  return YarnScaling(
    factor=factor,
    original_context=keys.number('rope.scaling.original_context_length'),
    attention_factor=attention * keys.number('rope.scaling.attn_factor', 1.0),
    beta_fast=keys.number('rope.scaling.yarn_beta_fast', 32.0),
    beta_slow=keys.number('rope.scaling.yarn_beta_slow', 1.0),
  )


def _llama3(file, head_width, base):
  """The published scaling that gives a file's factors."""
  found = file.tensors[_ROPE_FACTORS].read()
  plain = inverse_frequencies(head_width, base, None)
  for scaling in (None, *_LLAMA3):
    factors = plain / inverse_frequencies(head_width, base, scaling)
    if found.shape == factors.shape and np.allclose(found, factors, rtol=1e-4):
      return scaling
  raise ValueError(
    f'the factors of {_ROPE_FACTORS} in {file.path} are those of no published '
    'Llama 3; choose another model.'
  )


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
