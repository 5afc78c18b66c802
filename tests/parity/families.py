# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Every model family as small random configs, in the words of `transformers`.

Sizes are drawn so that no two axes of a family can be swapped unnoticed and
that every branch of a RoPE scaling is taken: with heads of 8 or more, some
wavelengths are short, some long, some between.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Family:
  """What makes a config one of this family.

  Attributes:
    model_type: the key of `transformers`.
    fields: of the config, fixed.
    names_head_width: its head width is a field, not hidden_size / heads.
  """

  model_type: str
  fields: Mapping[str, Any]
  names_head_width: bool = False


def _rope(base, **scaling):
  scaling = scaling or {'rope_type': 'default'}
  return {'rope_parameters': {'rope_theta': base, **scaling}}


FAMILIES = {
  'qwen2': Family('qwen2', _rope(1e6) | {'tie_word_embeddings': True}),
  'qwen2-untied': Family('qwen2', _rope(1e6)),
  'qwen2-yarn': Family(
    'qwen2',
    _rope(
      1e6,
      rope_type='yarn',
      factor=4.0,
      original_max_position_embeddings=4096,
    )
    | {'max_position_embeddings': 16384},
  ),
  'qwen3': Family(
    'qwen3',
    _rope(1e6) | {'tie_word_embeddings': True},
    names_head_width=True,
  ),
  'qwen3-bias': Family(
    'qwen3', _rope(1e6) | {'attention_bias': True}, names_head_width=True
  ),
  'llama3': Family(
    'llama',
    _rope(
      5e5,
      rope_type='llama3',
      factor=8.0,
      low_freq_factor=1.0,
      high_freq_factor=4.0,
      original_max_position_embeddings=8192,
    )
    | {'max_position_embeddings': 131072, 'rms_norm_eps': 1e-5},
  ),
  'llama-bias': Family(
    'llama', _rope(1e4) | {'attention_bias': True, 'mlp_bias': True}
  ),
  'llama-linear': Family('llama', _rope(1e4, rope_type='linear', factor=4.0)),
  'llama-yarn': Family(
    'llama',
    _rope(
      1e4,
      rope_type='yarn',
      factor=8.0,
      original_max_position_embeddings=2048,
      attention_factor=0.7,
      beta_fast=16.0,
      beta_slow=2.0,
      truncate=False,
    )
    | {'max_position_embeddings': 16384},
    names_head_width=True,
  ),
  'smollm2': Family(
    'llama', _rope(1e5) | {'tie_word_embeddings': True, 'rms_norm_eps': 1e-5}
  ),
}


_HEADS = ((1, 2), (1, 3), (2, 2), (2, 4), (3, 3))


def draw(name: str, seed: int) -> dict[str, Any]:
  """A small config of a family: keyword arguments of `AutoConfig.for_model`.

  Args:
    name: of `FAMILIES`.
    seed: draws the sizes.
  """
  rng = np.random.default_rng([seed, *name.encode()])
  kv_heads, heads = _HEADS[rng.integers(len(_HEADS))]
  return _fields(
    FAMILIES[name],
    vocabulary=int(rng.integers(40, 80)),
    layers=int(rng.integers(2, 4)),
    heads=heads,
    kv_heads=kv_heads,
    head_width=int(rng.choice([8, 12, 16])),
    per_head=int(rng.choice([5, 7, 9])),
    inner=int(rng.integers(17, 60)),
  )


def smallest(name: str) -> dict[str, Any]:
  """A config whose weights are to be kept in a file."""
  return _fields(
    FAMILIES[name],
    vocabulary=41,
    layers=2,
    heads=4,
    kv_heads=2,
    head_width=8,
    per_head=5,
    inner=29,
  )


def _fields(
  family, *, vocabulary, layers, heads, kv_heads, head_width, per_head, inner
):
  """`per_head` times heads is the width where a head's is a field of its own;
  a Llama's width must be a multiple of its heads all the same."""
  sizes = {
    'vocab_size': vocabulary,
    'hidden_size': heads * head_width,
    'num_hidden_layers': layers,
    'num_attention_heads': heads,
    'num_key_value_heads': kv_heads,
    'intermediate_size': inner,
  }
  if family.names_head_width:
    sizes |= {'head_dim': head_width, 'hidden_size': heads * per_head}
  return {'model_type': family.model_type, **sizes, **family.fields}
