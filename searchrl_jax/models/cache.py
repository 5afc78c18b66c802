# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The key-value cache of a batch of rollouts: a length per row.

Column c of a row holds the token at position c. Rows grow by unequal numbers
of tokens:

  row 0   k k k k k k . . . .     length 6
  row 1   k k k x x . . . . .     length 3: x is stale, left by `truncate`

Nothing at or beyond a row's length is ever attended to, and an append writes
exactly the columns [length, length + count): a row that appends nothing stays
as it is, bit for bit.

Keys are stored `[R, layers, K, H, C]` and values `[R, layers, K, C, H]`, the
fastest order of columns measured on CPU for one query at a time. There is one
such array for all layers where layers are scanned, and one for each layer
(`layers` is 1 then) where they run one after the other.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from searchrl_jax.models.config import DecoderConfig


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cache:
  """Keys, values and how many columns of each row are filled.

  `length_R` counts every token that was asked for. It exceeds `capacity`
  where tokens did not fit: those were dropped, nothing was overwritten, and
  the row is of no further use. Device code cannot raise, so the host checks
  before it appends, or calls `check` after.
  """

  k: tuple[jax.Array, ...]  # each [R, layers or 1, K, H, C]
  v: tuple[jax.Array, ...]  # each [R, layers or 1, K, C, H]
  length_R: jax.Array  # [R] int32

  @property
  def capacity(self) -> int:
    """Columns of a row."""
    return self.k[0].shape[-1]


def empty(
  config: DecoderConfig, rows: int, capacity: int, *, unrolled: bool
) -> Cache:
  """A cache without tokens.

  Args:
    config: sizes of the decoder.
    rows: R.
    capacity: C; a multiple of 16 keeps vector loads aligned.
    unrolled: one array per layer (CPU) instead of one for all.

  Raises:
    ValueError: rows or capacity below 1.
  """
  if rows < 1 or capacity < 1:
    raise ValueError(
      f'a cache of {rows} rows and {capacity} columns: both must be 1 or more'
    )
  arrays, depth = (config.layers, 1) if unrolled else (1, config.layers)
  head = (rows, depth, config.kv_heads)
  k_shape = (*head, config.head_width, capacity)
  v_shape = (*head, capacity, config.head_width)
  dtype = config.compute_dtype
  return Cache(
    k=tuple(jnp.zeros(k_shape, dtype) for _ in range(arrays)),
    v=tuple(jnp.zeros(v_shape, dtype) for _ in range(arrays)),
    length_R=jnp.zeros(rows, jnp.int32),
  )


def append(buffer, new, length_R, count_R, *, layer, axis: int):
  """Writes the first `count` of T new columns of each row at its length.

  A slice written in place must not leave the buffer: XLA would move its start
  back, onto valid columns. So the window of T columns is moved back on
  purpose, read, and only the columns that are new replaced in it:

    C = 8, T = 4, length 6, count 2       columns  0 1 2 3 4 5 6 7
    window starts at min(6, 8 - 4) = 4                     [k k n n]

  Args:
    buffer: `[R, layers or 1, ...]`, keys or values.
    new: `[R, ...]` with T columns on `axis`.
    length_R: columns filled so far.
    count_R: how many of the T columns are real; 0 writes nothing.
    layer: index into the layers axis.
    axis: the column axis, counted from the end.

  Returns:
    The buffer after the write. Where length + count exceeds the capacity, the
    columns that do not fit are dropped.
  """
  width, capacity = new.shape[axis], buffer.shape[axis]
  column_shape = [1] * (new.ndim - 1)
  column_shape[axis] = width

  def write_row(row, new, length, count):
    start = jnp.minimum(length, capacity - width)
    shift = length - start
    starts = [0] * row.ndim
    starts[0], starts[axis] = layer, start
    shape = (1, *new.shape)
    old = lax.dynamic_slice(row, starts, shape)[0]
    column = jnp.arange(width).reshape(column_shape)
    fresh = (column >= shift) & (column < shift + count)
    if width > 1:  # a single column has nowhere to move
      new = jnp.roll(new, shift, axis)
    window = jnp.where(fresh, new, old)
    return lax.dynamic_update_slice(row, window[None], starts)

  new = new.astype(buffer.dtype)
  return jax.vmap(write_row)(buffer, new, length_R, count_R)


def repeat(cache: Cache, times: int) -> Cache:
  """Shares each prefilled row: row b becomes rows b * times ... + times - 1."""
  return Cache(
    k=tuple(jnp.repeat(k, times, axis=0) for k in cache.k),
    v=tuple(jnp.repeat(v, times, axis=0) for v in cache.v),
    length_R=jnp.repeat(cache.length_R, times),
  )


def truncate(cache: Cache, length_R) -> Cache:
  """Forgets the columns of each row from `length_R` on; never lengthens."""
  shorter = jnp.minimum(cache.length_R, length_R)
  return dataclasses.replace(cache, length_R=shorter.astype(jnp.int32))


def check(cache: Cache) -> None:
  """Raises ValueError where a row was asked to hold more than fits (host)."""
  longest = int(jnp.max(cache.length_R))
  if longest > cache.capacity:
    raise ValueError(
      f'{longest} tokens do not fit into a cache of {cache.capacity}: raise '
      'its capacity or end the trajectory earlier'
    )
