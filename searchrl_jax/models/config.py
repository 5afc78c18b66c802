# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a decoder looks like: sizes and switches, no behaviour.

Model families differ by these fields only. `head_width` is a field of its own
because some families do not have head_width = width / heads.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
  """Sizes and switches of a decoder of the Llama and Qwen families.

  Raises ValueError, in one line, where the sizes do not fit together.
  """

  vocabulary: int  # V, rows of the embedding
  width: int  # D
  layers: int
  heads: int  # Q, query heads
  kv_heads: int  # K, key-value heads; each serves heads / kv_heads queries
  head_width: int  # H
  mlp_width: int
  rope_base: float  # the longest wavelength is about 2 pi rope_base tokens
  norm_eps: float = 1e-6
  qk_norm: bool = False  # RMSNorm over each query and key head (Qwen3)
  attention_bias: bool = False  # bias on q, k and v (Qwen2)
  tied: bool = True  # the head is the embedding
  embedding_std: float = 0.02  # of fresh weights
  remat: bool = True  # training recomputes a layer instead of storing it
  param_dtype: Any = jnp.float32
  compute_dtype: Any = jnp.float32  # of activations and matrix products

  def __post_init__(self):
    sizes = (
      'vocabulary',
      'width',
      'layers',
      'heads',
      'kv_heads',
      'head_width',
      'mlp_width',
    )
    for name in sizes:
      if getattr(self, name) < 1:
        raise ValueError(
          f'{name} is {getattr(self, name)}: set it to 1 or more'
        )
    if self.heads % self.kv_heads:
      raise ValueError(
        f'heads {self.heads} is no multiple of kv_heads {self.kv_heads}: '
        'every key-value head must serve equally many query heads'
      )
    if self.head_width % 2:
      raise ValueError(
        f'head_width {self.head_width} is odd: rotary positions turn pairs, '
        'choose an even one'
      )
    for name in ('rope_base', 'norm_eps', 'embedding_std'):
      if getattr(self, name) <= 0:
        raise ValueError(f'{name} is {getattr(self, name)}: set it above 0')
    for name in ('param_dtype', 'compute_dtype'):
      if not jnp.issubdtype(getattr(self, name), jnp.floating):
        raise ValueError(
          f'{name} is {getattr(self, name)}: choose a floating-point type'
        )

  @property
  def group(self) -> int:
    """Query heads that share one key-value head."""
    return self.heads // self.kv_heads


def tiny(vocabulary: int) -> DecoderConfig:
  """The smallest decoder found to learn search: 146k parameters at V = 543.

  Two layers were too few. Contexts are a few hundred tokens, hence the short
  rotary base. Recomputing layers is faster here than storing them: on CPU
  fresh pages of memory cost more than such small products.
  """
  return DecoderConfig(
    vocabulary=vocabulary,
    width=64,
    layers=3,
    heads=4,
    kv_heads=2,
    head_width=16,
    mlp_width=128,
    rope_base=1000.0,
    qk_norm=True,
    tied=True,
    remat=True,
  )
