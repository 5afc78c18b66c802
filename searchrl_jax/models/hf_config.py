# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A published config.json -> DecoderConfig, and back.

Three families of `transformers` differ in what our config has as fields:

  model_type   bias on q k v    bias on o   on gate up down   q and k norm
  llama        attention_bias   as q k v    mlp_bias          no
  qwen2        always           never       never             no
  qwen3        attention_bias   as q k v    never             yes

A key that would change what the model computes and that the decoder does not
do is refused by name; a silent key means what `transformers` takes it for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from searchrl_jax.models import hf_rope
from searchrl_jax.models.config import DecoderConfig

_CLASSES = {
  'llama': 'LlamaForCausalLM',
  'qwen2': 'Qwen2ForCausalLM',
  'qwen3': 'Qwen3ForCausalLM',
}
_SILU = ('silu', 'swish')  # two names of one function


def from_hf(raw: Mapping[str, Any]) -> DecoderConfig:
  """Reads the config of a published model.

  How a model is held and run is no part of it: dtypes, rematerialisation and
  adapters stay at their defaults, whatever the file says of its dtype.

  Args:
    raw: the parsed config.json.

  Raises:
    ValueError: another family, a missing or odd value, or something that the
      decoder does not do.
  """
  family = raw.get('model_type') if isinstance(raw, Mapping) else None
  if family not in _CLASSES:
    raise ValueError(
      f'model_type of config.json is {family!r}: this decoder does '
      f'{", ".join(_CLASSES)}'
    )
  layers = _size(raw, 'num_hidden_layers')
  _refuse(raw, family, layers)
  base, scaling = hf_rope.read(raw)
  width, heads = _size(raw, 'hidden_size'), _size(raw, 'num_attention_heads')
  bias = family == 'qwen2' or _flag(raw, 'attention_bias')
  # Only Qwen3 has a head width of its own where nothing is said.
  derived = None if family == 'qwen3' else width // heads
  # Qwen derives these heads only where the file says null, Llama always.
  named = family == 'llama' or 'num_key_value_heads' in raw
  return DecoderConfig(
    vocabulary=_size(raw, 'vocab_size'),
    width=width,
    layers=layers,
    heads=heads,
    kv_heads=_size(raw, 'num_key_value_heads', heads if named else None),
    head_width=_size(raw, 'head_dim', derived),
    mlp_width=_size(raw, 'intermediate_size'),
    rope_base=base,
    norm_eps=_positive(raw, 'rms_norm_eps', 1e-6),
    rope_scaling=scaling,
    context=_size(raw, 'max_position_embeddings', 0),
    qk_norm=family == 'qwen3',
    attention_bias=bias,
    output_bias=bias and family != 'qwen2',
    mlp_bias=family == 'llama' and _flag(raw, 'mlp_bias'),
    tied=_flag(raw, 'tie_word_embeddings'),
    embedding_std=_positive(raw, 'initializer_range', 0.02),
  )


def to_hf(config: DecoderConfig) -> dict[str, Any]:
  """Writes a config.json from which `transformers` builds the same model.

  Adapters are no part of it: they are merged before a model is published. The
  ids of special tokens are the tokenizer's to say, hence null here.

  Raises:
    ValueError: no family has this combination of options.
  """
  family = _family(config)
  raw = {
    'architectures': [_CLASSES[family]],
    'model_type': family,
    'vocab_size': config.vocabulary,
    'hidden_size': config.width,
    'intermediate_size': config.mlp_width,
    'num_hidden_layers': config.layers,
    'num_attention_heads': config.heads,
    'num_key_value_heads': config.kv_heads,
    'head_dim': config.head_width,
    'hidden_act': 'silu',
    'rms_norm_eps': config.norm_eps,
    'initializer_range': config.embedding_std,
    'tie_word_embeddings': config.tied,
    'bos_token_id': None,
    'eos_token_id': None,
    'pad_token_id': None,
    'torch_dtype': jnp.dtype(config.param_dtype).name,  # before version 5
    'dtype': jnp.dtype(config.param_dtype).name,
  }
  if config.context:
    raw['max_position_embeddings'] = config.context
  if family != 'qwen2':
    raw['attention_bias'] = config.attention_bias
  if family == 'llama':
    raw['mlp_bias'] = config.mlp_bias
  return raw | hf_rope.write(config.rope_base, config.rope_scaling)


def _family(config):
  """The family that has these options; see the table of the module."""
  if config.qk_norm:
    family = 'qwen3'
    fits = config.attention_bias == config.output_bias and not config.mlp_bias
  elif config.attention_bias and not config.output_bias:
    family, fits = 'qwen2', not config.mlp_bias
  else:
    family, fits = 'llama', config.attention_bias == config.output_bias
  if not fits:
    options = ('qk_norm', 'attention_bias', 'output_bias', 'mlp_bias')
    said = ', '.join(f'{name}={getattr(config, name)}' for name in options)
    raise ValueError(
      f'no published family has {said}: such a model cannot be exported'
    )
  if family == 'llama' and config.width % config.heads:
    raise ValueError(
      f'width {config.width} is no multiple of heads {config.heads}, which '
      'transformers asks of a Llama: such a model cannot be exported'
    )
  return family


def _refuse(raw, family, layers):
  """Raises a line that names what the decoder does not do."""

  def refuse(key, why):
    raise ValueError(f'{key} of config.json is {raw[key]!r}: {why}')

  if raw.get('quantization_config') is not None:
    raise ValueError(
      'config.json has a quantization_config: quantised weights are not read, '
      'choose a bfloat16, float16 or float32 version of the model'
    )
  if raw.get('hidden_act', 'silu') not in _SILU:
    refuse('hidden_act', 'this decoder does silu')
  if raw.get('partial_rotary_factor', 1.0) not in (1.0, None):
    refuse('partial_rotary_factor', 'this decoder turns whole heads')
  if raw.get('pretraining_tp', 1) not in (1, None):
    refuse('pretraining_tp', 'this decoder multiplies whole matrices; set it 1')
  if raw.get('is_causal', True) is False:
    refuse('is_causal', 'this decoder looks back only')
  if raw.get('per_layer_config'):
    refuse('per_layer_config', 'all layers of this decoder are alike')
  if family != 'llama':
    _refuse_windows(raw, layers, refuse)


def _refuse_windows(raw, layers, refuse):
  """Sliding windows: in the file of every Qwen, in use in hardly any.

  Listed kinds of layers decide; where there is no list, a window that is
  switched on holds from layer `max_window_layers` on.
  """
  why = 'this decoder attends to everything before, it has no sliding window'
  if raw.get('layer_types') is not None:
    if set(raw['layer_types']) - {'full_attention'}:
      refuse('layer_types', why)
    return
  window = raw.get('use_sliding_window') and raw.get('sliding_window', 1)
  if window and raw.get('max_window_layers', 28) < layers:
    refuse('use_sliding_window', why)


def _size(raw, key, default=None):
  """A whole number above 0; where it is missing or null, the default."""
  value = raw.get(key)
  if value is None:
    if default is None:
      raise ValueError(
        f'config.json has no {key}: take the one that came with the weights'
      )
    return default
  if isinstance(value, bool) or not isinstance(value, int) or value < 1:
    raise ValueError(
      f'{key} of config.json is {value!r}: it must be a whole number above 0'
    )
  return value


def _positive(raw, key, default):
  value = raw.get(key)
  if value is None:
    return default
  number = isinstance(value, int | float) and not isinstance(value, bool)
  if not number or not 0 < value < math.inf:
    raise ValueError(
      f'{key} of config.json is {value!r}: it must be a number above 0'
    )
  return float(value)


def _flag(raw, key):
  value = raw.get(key)
  if value not in (True, False, None):
    raise ValueError(f'{key} of config.json is {value!r}: it must be a boolean')
  return bool(value)
