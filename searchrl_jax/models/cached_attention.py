# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Attention to a living cache: new tokens are written and look back.

Two roads to one result: any number of new tokens a row (`mix_many`), and one
token a row on CPU, by a kernel of our own that works on rows where they lie
(`mix_one`).
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from searchrl_jax.models import cache as caches
from searchrl_jax.models import cpu_attention
from searchrl_jax.models.attention import HIDDEN, by_group
from searchrl_jax.models.products import matmul, matmul_transposed

# Columns of a cache that are read at a time.
COLUMNS = 256


def mix_many(length_A, count_A, rows_A):
  """Writes and attends to any number of new tokens of each row."""

  def mix(q, new_k, new_v, k, v, index):
    new_k, new_v = new_k.transpose(0, 2, 1, 3), new_v.transpose(0, 2, 1, 3)
    write = (rows_A, length_A, count_A)
    k = caches.append(k, new_k, *write, layer=index)
    v = caches.append(v, new_v, *write, layer=index)

    def read(start, width):
      start_A = jnp.full_like(rows_A, start)
      return tuple(
        caches.columns(buffer, rows_A, start_A, width, layer=index)
        for buffer in (k, v)
      )

    mixed = attend_cache(q, read, length_A, count_A, k.shape[3])
    return mixed, (k, v)

  return mix


def mix_one(length_R, count_A, rows_A):
  """As `mix_many` for one new token of each row, on CPU."""

  def mix(q, new_k, new_v, k, v, index):
    del index  # every layer has arrays of its own
    scaled = q * q.shape[-1] ** -0.5
    mixed, k, v = cpu_attention.attend_append(
      *(_widened(x[:, 0], k.dtype) for x in (scaled, new_k, new_v)),
      k,
      v,
      length_R,
      count_A,
      rows_A,
      rounded=q.dtype == jnp.bfloat16,
    )
    mixed = mixed.reshape(q.shape[0], 1, -1)
    return mixed.astype(q.dtype), (k, v)

  return mix


def _widened(x, dtype):
  """x in a wider dtype, rounded as its own: the compiler may otherwise leave
  out the rounding, and what is drawn would differ from what is trained on."""
  if x.dtype == dtype:
    return x
  info = jnp.finfo(x.dtype)
  return lax.reduce_precision(x.astype(dtype), info.nexp, info.nmant)


def attend_cache(q, read, length_A, count_A, capacity: int):
  """Attention of T new tokens of each row to the row's cache, themselves in it.

  Columns are read in blocks, up to the longest row and no further; sums are
  kept relative to the largest score so far (arXiv:2205.14135). A block that a
  row does not see changes nothing of the row's sums, bit for bit: what a row
  gets does not depend on how long the others are.

    C = 1024    [ block 0 ][ block 1 ][ block 2  ][  not read  ]
    row 0        k k k k k   k k k k    k k q
    row 1        k k k k k   k k q
                  unmasked |      masked         |

  Args:
    q: `[A, T, Q, H]`.
    read: (start, width) -> keys and values `[A, K, width, H]` of the columns
      [start, start + width), those of the new tokens already written. They
      may be wider than q and hold its numbers; products are in their dtype
      then.
    length_A: columns before the new tokens; query t sees t + 1 more.
    count_A: how many of the T tokens are real; rows without any do not count.
    capacity: C.

  Returns:
    `[A, T, Q * H]`.
  """
  rows, length, heads, head_width = q.shape
  dtype, width = q.dtype, min(COLUMNS, capacity)
  k, _ = jax.eval_shape(lambda: read(0, width))
  kv_heads = k.shape[1]
  q = by_group(q, kv_heads).astype(k.dtype)
  # Queries of a group one after another, T the faster.
  positions_AT = length_A[:, None] + jnp.arange(length, dtype=jnp.int32)[None]
  limits = jnp.tile(positions_AT, (1, heads // kv_heads))[:, None, :, None]

  def add(block, carry, masked):
    peak, total, mixed = carry
    # The last block is moved back where it would leave the cache, and what it
    # shares with the one before is seen there only.
    first = block * width
    start = jnp.minimum(first, capacity - width)
    k, v = read(start, width)
    scores = matmul_transposed(q, k)
    if masked:
      column = (start + jnp.arange(width, dtype=jnp.int32))[None, None, None]
      seen = (column <= limits) & (column >= first)
      scores = jnp.where(seen, scores, HIDDEN)
    # Every query sees column 0, so that the peak is a score from block 0 on.
    higher = jnp.maximum(peak, scores.max(axis=-1, keepdims=True))
    weights = jnp.exp(scores - higher)
    scale = jnp.exp(peak - higher)
    total = total * scale + weights.sum(axis=-1, keepdims=True)
    # Rounded as the activations, also where the cache is wider than they are.
    added = matmul(weights.astype(dtype).astype(v.dtype), v)
    return higher, total, mixed * scale + added

  shape = (rows, kv_heads, q.shape[2], 1)
  carry = (
    jnp.full(shape, HIDDEN, jnp.float32),
    jnp.zeros(shape, jnp.float32),
    jnp.zeros((*shape[:-1], head_width), jnp.float32),
  )
  real_A = count_A > 0
  shortest = jnp.where(real_A, length_A, capacity).min()
  longest = jnp.where(real_A, length_A + count_A, 0).max()
  whole = jnp.minimum(shortest, capacity) // width
  blocks = (jnp.minimum(longest, capacity) + width - 1) // width
  carry = lax.fori_loop(
    0, jnp.minimum(whole, blocks), functools.partial(add, masked=False), carry
  )
  _, total, mixed = lax.fori_loop(
    jnp.minimum(whole, blocks),
    blocks,
    functools.partial(add, masked=True),
    carry,
  )
  mixed = mixed / jnp.maximum(total, jnp.finfo(jnp.float32).tiny)
  grouped = (rows, kv_heads, heads // kv_heads, length, head_width)
  mixed = mixed.reshape(grouped).transpose(0, 3, 1, 2, 4)
  return mixed.reshape(rows, length, -1).astype(dtype)
