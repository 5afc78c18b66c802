# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The decoder that a GGUF file declares, by its keys and by what it holds.

Keys carry the name of the architecture, `llama.block_count`. Switches have
none: a tensor that is there or not says whether there are biases, or a head
besides the embedding, or factors for rotary frequencies.
"""

from __future__ import annotations

import numpy as np

from searchrl_jax.gguf_file import GgufFile
from searchrl_jax.models.config import (
  DecoderConfig,
  LinearScaling,
  Llama3Scaling,
  YarnScaling,
)
from searchrl_jax.models.rope import inverse_frequencies, yarn_attention_factor

EMBEDDING, HEAD = 'token_embd.weight', 'output.weight'
# What each rotary frequency is divided by: part of the config, no weight.
ROPE_FACTORS = 'rope_freqs.weight'

_ARCHITECTURES = ('llama', 'qwen2', 'qwen3')
# Llama 3.1 and 3.2, the only published models with such factors.
_LLAMA3 = tuple(Llama3Scaling(factor, 1.0, 4.0, 8192) for factor in (8.0, 32.0))
# Values other than these make another model of it.
_REQUIRED = {
  'expert_count': 0,
  'attention.causal': True,
  'attention.sliding_window': 0,
  'rope.scaling.yarn_ext_factor': 1,
  'rope.scaling.yarn_log_multiplier': 0,
}


def config_of(file: GgufFile) -> DecoderConfig:
  """The decoder that a file declares, for the families Llama, Qwen2, Qwen3.

  Raises:
    ValueError: another architecture, a missing key, or something the decoder
      does not do, such as experts or rotary factors of no published model.
  """
  keys = _Keys(file)
  tensors = file.tensors
  if EMBEDDING not in tensors:
    raise ValueError(
      f'{file.path} holds no {EMBEDDING}; give the file of a whole model.'
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
    vocabulary=tensors[EMBEDDING].shape[0],
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
    tied=HEAD not in tensors,
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
  if keys.number('rope.scale_linear', 1.0) != 1:
    raise ValueError(
      f'{file.path} stretches positions by the old key rope.scale_linear; '
      'convert the model again.'
    )
  kind = keys.get('rope.scaling.type', 'linear')
  factor = keys.number('rope.scaling.factor', 1.0)
  if kind not in ('none', 'linear', 'yarn'):
    raise ValueError(
      f'{file.path} scales rotary positions by {kind!r}; this decoder knows '
      'linear, yarn and the factors of Llama 3.'
    )
  stretched = kind != 'none' and factor != 1
  if ROPE_FACTORS in file.tensors:
    if stretched:
      raise ValueError(
        f'{file.path} has both {ROPE_FACTORS} and rope.scaling.factor '
        f'{factor}; this decoder does one or the other.'
      )
    return _llama3(file, head_width, base)
  if not stretched:
    return None
  if kind == 'linear':
    return LinearScaling(factor)
  # A stated factor is the published config's, and replaces the formula's.
  attention = keys.number(
    'rope.scaling.yarn_attn_factor', yarn_attention_factor(factor)
  )
  return YarnScaling(
    factor=factor,
    original_context=keys.number('rope.scaling.original_context_length'),
    attention_factor=attention * keys.number('rope.scaling.attn_factor', 1.0),
    beta_fast=keys.number('rope.scaling.yarn_beta_fast', YarnScaling.beta_fast),
    beta_slow=keys.number('rope.scaling.yarn_beta_slow', YarnScaling.beta_slow),
  )


def _llama3(file, head_width, base):
  """The published scaling that gives a file's factors."""
  found = file.tensors[ROPE_FACTORS].read()
  plain = inverse_frequencies(head_width, base, None)
  for scaling in (None, *_LLAMA3):
    factors = plain / inverse_frequencies(head_width, base, scaling)
    if found.shape == factors.shape and np.allclose(found, factors, rtol=1e-4):
      return scaling
  raise ValueError(
    f'the factors of {ROPE_FACTORS} in {file.path} are those of no published '
    'Llama 3; choose another model.'
  )
