# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rotary positions and the ways published weights stretch them.

RoPE (arXiv:2104.09864): pair i of a head at position p turns by the angle
p * f_i, f_i = base^(-2i / H). Weights made for longer contexts change some of
the f_i. Which frequencies were used is part of the weights: at position
100,000 one bit of f_0 moves an angle by .006. So they are computed on the
host, in the precision and the order in which the weights were trained with.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from searchrl_jax.models.config import (
  Llama3Scaling,
  RopeScaling,
  YarnScaling,
)


def inverse_frequencies(
  head_width: int, base: float, scaling: RopeScaling | None
) -> np.ndarray:
  """Radians a position by which each pair of a head turns, `[H / 2]`, float32.

  Args:
    head_width: H.
    base: f_i = base^(-2i / H) before scaling.
    scaling: how the weights stretch it, None for not at all.
  """
  wavelengths = _wavelengths(head_width, base)
  frequencies = np.float32(1) / wavelengths
  match scaling:
    case None:
      return frequencies
    case Llama3Scaling():
      return _llama3(frequencies, scaling)
    case YarnScaling():
      return _yarn(wavelengths, head_width, base, scaling)
    case _:
      return frequencies / np.float32(scaling.factor)


def attention_factor(scaling: RopeScaling | None) -> float:
  """What cosines and sines are multiplied by; 1 for all but YaRN."""
  match scaling:
    case YarnScaling():
      return scaling.attention_factor
    case _:
      return 1.0


def yarn_attention_factor(factor: float, scale: float = 1.0) -> float:
  """sqrt(1 / t) = .1 scale ln(factor) + 1 (arXiv:2309.00071, eq. 22)."""
  return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0


def rotation(positions, frequencies, factor: float):
  """Cosines and sines of the rotary angles, `[..., H / 2]`, float32.

  Args:
    positions: `[...]` int; rows of a packed batch carry their own.
    frequencies: `inverse_frequencies`.
    factor: `attention_factor`.
  """
  shape = (1,) * positions.ndim + frequencies.shape
  angles = positions.astype(jnp.float32)[..., None] * frequencies.reshape(shape)
  return factor * jnp.cos(angles), factor * jnp.sin(angles)


def rotate(x, turn):
  """Rotates `x [..., T, heads, H]`; pair i is (x[i], x[i + H / 2]).

  The half-split pairing of published Llama and Qwen weights. Weights stored
  for neighbouring pairs (x[2i], x[2i + 1]) must be permuted on import.
  """
  cos, sin = (angle[..., None, :] for angle in turn)
  first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  turned = (first * cos - second * sin, second * cos + first * sin)
  return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def _wavelengths(head_width, base):
  """base^(2i / H), in positions a radian.

  The exponent is rounded to float32, its power to float32: what a float32
  power that is exact to its last bit gives. NumPy's own float32 power is not.
  """
  exponents = np.arange(0, head_width, 2, dtype=np.float32)
  exponents /= np.float32(head_width)
  return (float(base) ** exponents.astype(np.float64)).astype(np.float32)


def _llama3(frequencies, scaling):
  """Long wavelengths divided, short ones kept, a ramp between the two.

  turns within the original context   low_freq_factor    high_freq_factor
  frequency               f / factor  |       ramp       |  f
  """
  factor = np.float32(scaling.factor)
  low = np.float32(scaling.low_freq_factor)
  span = np.float32(scaling.high_freq_factor - scaling.low_freq_factor)
  wavelengths = np.float32(2 * math.pi) / frequencies
  longest = np.float32(scaling.original_context / scaling.low_freq_factor)
  shortest = np.float32(scaling.original_context / scaling.high_freq_factor)
  is_long, is_short = wavelengths > longest, wavelengths < shortest
  scaled = np.where(is_long, frequencies / factor, frequencies)
  share = (np.float32(scaling.original_context) / wavelengths - low) / span
  ramp = (np.float32(1) - share) * scaled / factor + share * scaled
  return np.where(is_long | is_short, scaled, ramp)


def _yarn(wavelengths, head_width, base, scaling):
  """Fast dimensions kept, slow ones divided, a ramp over dimensions between.

  dimension      0 ...  first  ...  last  ... H / 2 - 1
  turns          beta_fast |  ramp  | beta_slow
  """

  def dimension(turns):
    """The dimension that turns this often within the original context."""
    wavelength = scaling.original_context / (turns * 2 * math.pi)
    return head_width * math.log(wavelength) / (2 * math.log(base))

  first, last = dimension(scaling.beta_fast), dimension(scaling.beta_slow)
  if scaling.truncate:
    first, last = math.floor(first), math.ceil(last)
  first, last = max(first, 0), min(last, head_width - 1)
  span = last - first if last != first else 1e-3
  ramp = np.arange(head_width // 2, dtype=np.float32) - np.float32(first)
  ramp = np.clip(ramp / np.float32(span), np.float32(0), np.float32(1))
  kept = np.float32(1) - ramp
  fast = np.float32(1) / wavelengths
  slow = np.float32(1) / (np.float32(scaling.factor) * wavelengths)
  return slow * (np.float32(1) - kept) + fast * kept
