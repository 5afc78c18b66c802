# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Grouped-query attention within packed segments; `cached_attention` has the
other kind.

Query head j reads key-value head j // (Q / K) (arXiv:2305.13245). Scores and
their softmax are float32 whatever the dtype of the activations.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from searchrl_jax.models.products import matmul

# Finite, so that a query that may see nothing still yields finite numbers; its
# exponential is exactly 0, so nothing leaks from a hidden key.
HIDDEN = -1e30


# Queries of a packed row are taken in this many blocks, none shorter than
# _SHORTEST: a block skips the keys behind it, three eighths of the work.
_BLOCKS = 4
_SHORTEST = 64


def segment_mask(segment_ids_NL):
  """Who may see whom in packed rows, `[N, 1, 1, L, L]` bool, query first.

  Causal, and only within a segment:

    segment_ids  1 1 2 2 0        query 3 (second of segment 2)
    visible      . . x x .        padding sees padding; nobody reads it
  """
  length = segment_ids_NL.shape[1]
  same = segment_ids_NL[:, :, None] == segment_ids_NL[:, None, :]
  causal = jnp.tril(jnp.ones((1, length, length), bool))
  return (same & causal)[:, None, None]


def attend_segments(q, k, v, mask):
  """Attention of packed rows to themselves.

  The weights of a block of queries are made again in the backward pass:
  storing them takes longer, and `[N, Q, L, L]` floats.

  Args:
    q: `[N, L, Q, H]`.
    k: `[N, L, K, H]`.
    v: `[N, L, K, H]`.
    mask: `segment_mask`, computed once for all layers.

  Returns:
    `[N, L, Q * H]`.
  """
  length = q.shape[1]
  k, v = k.transpose(0, 2, 3, 1), v.transpose(0, 2, 1, 3)
  attend = jax.checkpoint(_attend, prevent_cse=False)
  size = max(_SHORTEST, -(-length // _BLOCKS))
  blocks = []
  for start in range(0, length, size):
    stop = min(start + size, length)
    seen = mask[..., start:stop, :stop]
    blocks.append(attend(q[:, start:stop], k[..., :stop], v[:, :, :stop], seen))
  return jnp.concatenate(blocks, axis=1)


def by_group(q, kv_heads: int):
  """`[N, T, Q, H]` -> `[N, K, Q / K * T, H]`, divided by sqrt(H).

  Queries of a group form one matrix against their shared keys, those of one
  head after those of another.
  """
  rows, width, _, head_width = q.shape
  q = q.reshape(rows, width, kv_heads, -1, head_width).transpose(0, 2, 3, 1, 4)
  return (q * head_width**-0.5).reshape(rows, kv_heads, -1, head_width)


def _attend(q, k, v, mask):
  """softmax(q k / sqrt(H)) v; k `[N, K, H, C]`, v `[N, K, C, H]`.

  Dividing by the softmax's sum after the product with v saves a pass over the
  weights.
  """
  rows, width, heads, _ = q.shape
  kv_heads, columns = k.shape[1], k.shape[-1]
  grouped = (rows, kv_heads, heads // kv_heads, width)
  scores = matmul(by_group(q, kv_heads).astype(k.dtype), k)
  scores = jnp.where(mask, scores.reshape(*grouped, columns), HIDDEN)
  # The maximum only shifts: its gradient is zero.
  peak = jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True))
  weights = jnp.exp(scores - peak)
  # Rounded as the activations, also where the cache is wider than they are.
  mixed = _matmul(weights.astype(q.dtype).astype(v.dtype), v)
  mixed = mixed / weights.sum(axis=-1, keepdims=True)
  mixed = mixed.transpose(0, 3, 1, 2, 4).reshape(rows, width, -1)
  return mixed.astype(q.dtype)


def _matmul(weights, v):
  """`[N, K, G, T, C]` x `[N, K, C, H]` -> `[N, K, G, T, H]`, float32."""
  shape = weights.shape
  flat = weights.reshape(*shape[:2], -1, shape[-1])
  mixed = matmul(flat, v)
  return mixed.reshape(*shape[:-1], -1)
