# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Whose weights play: a checksum that follows the sampler in the metrics."""

import jax
import jax.numpy as jnp
import numpy as np

# 2^32 / golden ratio: neighbouring places differ in many bits.
_ODD = np.uint32(0x9E3779B1)


@jax.jit
def fingerprint(params):
  """A 32-bit checksum of weights.

  Equal where every bit is equal. Different where a single weight changed, and
  after any other change but for one chance in four billion.
  """
  total = jnp.uint32(0)
  for leaf in jax.tree.leaves(params):
    bits = jax.lax.bitcast_convert_type(leaf.astype(jnp.float32), jnp.uint32)
    flat = bits.reshape(-1)
    # A weight is mixed with its place, so that swaps are seen too: the low
    # bits of round or bfloat16 weights are 0, and a sum alone would miss them.
    # Every step is a bijection of 32 bits (the mixer of MurmurHash3).
    mixed = flat ^ (jnp.arange(flat.size, dtype=jnp.uint32) * _ODD)
    mixed = (mixed ^ (mixed >> 16)) * jnp.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> 13)) * jnp.uint32(0xC2B2AE35)
    mixed = mixed ^ (mixed >> 16)
    total = total * jnp.uint32(16777619) + mixed.sum(dtype=jnp.uint32)
  return total
