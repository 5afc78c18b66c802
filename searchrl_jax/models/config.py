# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a decoder looks like: sizes and switches, no behaviour.

Model families differ by these fields only. `head_width` is a field of its own
because some families do not have head_width = width / heads.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import jax.numpy as jnp


class Remat(enum.Enum):
  """What the backward pass makes again instead of keeping it.

  Kept per token and layer, beside the residual stream: with LAYER nothing,
  with PRODUCTS the results of matrix products, with NOTHING everything.
  """

  LAYER = 'layer'
  PRODUCTS = 'products'
  NOTHING = 'nothing'


@dataclasses.dataclass(frozen=True)
class LinearScaling:
  """Positions divided by `factor` (arXiv:2306.15595)."""

  factor: float


@dataclasses.dataclass(frozen=True)
class Llama3Scaling:
  """Llama 3.1's: long wavelengths divided, short ones kept, a ramp between.

  Attributes:
    factor: by which the frequency of a long wavelength is divided.
    low_freq_factor: wavelengths above original_context / this are long.
    high_freq_factor: wavelengths below original_context / this are short.
    original_context: positions before the extension.
  """

  factor: float
  low_freq_factor: float
  high_freq_factor: float
  original_context: int


@dataclasses.dataclass(frozen=True)
class YarnScaling:
  """YaRN (arXiv:2309.00071): a ramp over dimensions, and warmer attention.

  Attributes:
    factor: by which positions are stretched.
    original_context: positions before the extension.
    beta_fast: dimensions that turn this often within it keep their frequency.
    beta_slow: dimensions that turn less often are divided by the factor.
    attention_factor: multiplies cosines and sines.
    truncate: whether the ends of the ramp are rounded to whole dimensions.
  """

  factor: float
  original_context: int
  attention_factor: float
  beta_fast: float = 32.0
  beta_slow: float = 1.0
  truncate: bool = True


RopeScaling = LinearScaling | Llama3Scaling | YarnScaling

# Beyond any published model: a misprint, which would take for ever to trace.
_MOST_LAYERS = 1024

# The matrices of a layer that an adapter may change.
ADAPTABLE = ('q', 'k', 'v', 'o', 'gate', 'up', 'down')


@dataclasses.dataclass(frozen=True)
class Lora:
  """Low-rank adapters (arXiv:2106.09685): W + (alpha / rank) A B.

  Attributes:
    rank: columns of A and rows of B.
    alpha: the scale, times the rank.
    targets: which matrices of every layer have one, of `ADAPTABLE`.
  """

  rank: int = 16
  alpha: float = 32.0
  targets: tuple[str, ...] = ADAPTABLE

  def __post_init__(self):
    if self.rank < 1 or not 0 < self.alpha < float('inf'):
      raise ValueError(
        f'lora.rank is {self.rank} and alpha {self.alpha}: set the rank to 1 '
        'or more and alpha above 0'
      )
    unknown = set(self.targets) - set(ADAPTABLE)
    if (
      unknown or not self.targets or len(set(self.targets)) < len(self.targets)
    ):
      raise ValueError(
        f'lora.targets is {self.targets}: name some of '
        f'{", ".join(ADAPTABLE)}, each once'
      )

  @property
  def scale(self) -> float:
    """What A B is multiplied by."""
    return self.alpha / self.rank


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
  rope_scaling: RopeScaling | None = None  # for contexts beyond the base's
  context: int = 0  # positions the weights were made for; 0 where unknown
  qk_norm: bool = False  # RMSNorm over each query and key head (Qwen3)
  attention_bias: bool = False  # bias on q, k and v (Qwen2)
  output_bias: bool = False  # bias on o, of some Llama and Qwen3 variants
  mlp_bias: bool = False  # bias on gate, up and down, of some Llama variants
  tied: bool = True  # the head is the embedding
  lora: Lora | None = None  # adapters beside the matrices
  embedding_std: float = 0.02  # of fresh weights
  remat: Remat = Remat.LAYER
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
    if self.layers > _MOST_LAYERS:
      raise ValueError(
        f'layers is {self.layers}: no decoder here has more than {_MOST_LAYERS}'
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
      if not 0 < getattr(self, name) < float('inf'):
        raise ValueError(
          f'{name} is {getattr(self, name)}: set it to a number above 0'
        )
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
  )
