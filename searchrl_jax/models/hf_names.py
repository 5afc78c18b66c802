# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Names of published weights, and where each one stands among our parameters.

The names are those of the Llama and Qwen classes of `transformers`; GGUF files
are brought to them before they are loaded. Two things differ from ours: a
matrix is stored `[fan_out, fan_in]`, and every layer has arrays of its own.

  model.layers.7.self_attn.q_proj.weight [Q H, D]
                │
                └─ transposed ─▶ layers/attention/q[7] [D, Q H]
"""

from __future__ import annotations

import dataclasses

from searchrl_jax.models.config import DecoderConfig

EMBEDDING = 'model.embed_tokens.weight'
HEAD = 'lm_head.weight'
FINAL_NORM = 'model.norm.weight'

_NAME_OF = {
  'q': 'self_attn.q_proj',
  'k': 'self_attn.k_proj',
  'v': 'self_attn.v_proj',
  'o': 'self_attn.o_proj',
  'gate': 'mlp.gate_proj',
  'up': 'mlp.up_proj',
  'down': 'mlp.down_proj',
}


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a published weight goes.

  Attributes:
    path: keys of the nested parameters.
    layer: index on the first axis of the parameter, None where it has none.
    transposed: whether our matrix is the transpose of the published one.
    shape: of the published weight.
  """

  path: tuple[str, ...]
  layer: int | None
  transposed: bool
  shape: tuple[int, ...]

  @property
  def held_shape(self) -> tuple[int, ...]:
    """Shape in our orientation, without the axis of layers."""
    return self.shape[::-1] if self.transposed else self.shape


def places(config: DecoderConfig) -> dict[str, Place]:
  """Every published weight of a decoder, in the order models are written in.

  Adapters have no published names; those of `config.lora` are not in it.

  Returns:
    Published name -> place. No two names share one.
  """
  table = (config.vocabulary, config.width)
  found = {EMBEDDING: Place(('embed',), None, False, table)}
  for layer in range(config.layers):
    found |= _layer(config, layer)
  found[FINAL_NORM] = Place(('norm',), None, False, (config.width,))
  if not config.tied:
    found[HEAD] = Place(('head',), None, False, table)
  return found


def _layer(config, layer):
  found = {}

  def put(name, part, key, shape, transposed=False):
    place = Place(('layers', part, key), layer, transposed, shape)
    found[f'model.layers.{layer}.{name}'] = place

  def project(part, key, fan_in, fan_out, bias):
    name = _NAME_OF[key]
    put(f'{name}.weight', part, key, (fan_out, fan_in), transposed=True)
    if bias:
      put(f'{name}.bias', part, f'{key}_bias', (fan_out,))

  width, inner = config.width, config.mlp_width
  q_width = config.heads * config.head_width
  k_width = config.kv_heads * config.head_width
  put('input_layernorm.weight', 'attention', 'norm', (width,))
  project('attention', 'q', width, q_width, config.attention_bias)
  project('attention', 'k', width, k_width, config.attention_bias)
  project('attention', 'v', width, k_width, config.attention_bias)
  project('attention', 'o', q_width, width, config.output_bias)
  if config.qk_norm:
    head = (config.head_width,)
    put('self_attn.q_norm.weight', 'attention', 'q_norm', head)
    put('self_attn.k_norm.weight', 'attention', 'k_norm', head)
  put('post_attention_layernorm.weight', 'mlp', 'norm', (width,))
  project('mlp', 'gate', width, inner, config.mlp_bias)
  project('mlp', 'up', width, inner, config.mlp_bias)
  project('mlp', 'down', inner, width, config.mlp_bias)
  return found
