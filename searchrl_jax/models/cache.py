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

Keys and values are stored `[R, layers, K, C, H]`: a new token writes one
contiguous piece for each head, and a prefix is copied as it lies. There is one
such array for all layers where layers are scanned, and one for each layer
(`layers` is 1 then) where they run one after the other.

Work may be done on some rows only, in any order: `rows_A` names them.
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

  k: tuple[jax.Array, ...]  # each [R, layers or 1, K, C, H]
  v: tuple[jax.Array, ...]  # likewise
  length_R: jax.Array  # [R] int32

  @property
  def capacity(self) -> int:
    """Columns of a row."""
    return self.k[0].shape[-2]


def empty(
  config: DecoderConfig, rows: int, capacity: int, *, unrolled: bool
) -> Cache:
  """A cache without tokens.

  Args:
    config: sizes of the decoder.
    rows: R.
    capacity: C.
    unrolled: one array per layer (CPU) instead of one for all.

  Raises:
    ValueError: rows or capacity below 1.
  """
  if rows < 1 or capacity < 1:
    raise ValueError(
      f'a cache of {rows} rows and {capacity} columns: both must be 1 or more'
    )
  arrays, depth = (config.layers, 1) if unrolled else (1, config.layers)
  shape = (rows, depth, config.kv_heads, capacity, config.head_width)
  return Cache(
    k=tuple(jnp.zeros(shape, config.compute_dtype) for _ in range(arrays)),
    v=tuple(jnp.zeros(shape, config.compute_dtype) for _ in range(arrays)),
    length_R=jnp.zeros(rows, jnp.int32),
  )


def append(buffer, new, rows_A, length_A, count_A, *, layer):
  """Writes the first `count` of T new columns of each row at its length.

  A slice written in place must not leave the buffer: XLA would move its start
  back, onto valid columns. So the window of T columns is moved back on
  purpose, read, and only the columns that are new replaced in it:

    C = 8, T = 4, length 6, count 2       columns  0 1 2 3 4 5 6 7
    window starts at min(6, 8 - 4) = 4                     [k k n n]

  Args:
    buffer: `[R, layers or 1, K, C, H]`, keys or values.
    new: `[A, K, T, H]`.
    rows_A: rows of the buffer, each once; those that are none are dropped.
    length_A: columns of these rows that are filled so far.
    count_A: how many of the T columns are real; 0 writes nothing.
    layer: index into the layers axis.

  Returns:
    The buffer after the write. Where length + count exceeds the capacity, the
    columns that do not fit are dropped.
  """
  width, capacity = new.shape[2], buffer.shape[3]
  start_A = jnp.minimum(length_A, capacity - width)
  shift_A = length_A - start_A
  old = columns(buffer, rows_A, start_A, width, layer=layer)

  def window(old, new, shift, count):
    column = jnp.arange(width)[None, :, None]
    fresh = (column >= shift) & (column < shift + count)
    if width > 1:  # a single column has nowhere to move
      new = jnp.roll(new, shift, axis=1)
    return jnp.where(fresh, new, old)

  new = new.astype(buffer.dtype)
  windows = jax.vmap(window)(old, new, shift_A, count_A)
  return lax.scatter(
    buffer,
    _places(rows_A, layer, start_A),
    windows,
    lax.ScatterDimensionNumbers(
      update_window_dims=(1, 2, 3),
      inserted_window_dims=(0, 1),
      scatter_dims_to_operand_dims=(0, 1, 3),
    ),
    mode=lax.GatherScatterMode.FILL_OR_DROP,
  )


def columns(buffer, rows_A, start_A, width: int, *, layer):
  """`[A, K, width, H]`: the columns [start, start + width) of each row.

  A start beyond C - width reads the last columns; a row that is none reads
  the last row.
  """
  _, _, heads, _, head_width = buffer.shape
  return lax.gather(
    buffer,
    _places(rows_A, layer, start_A),
    lax.GatherDimensionNumbers(
      offset_dims=(1, 2, 3),
      collapsed_slice_dims=(0, 1),
      start_index_map=(0, 1, 3),
    ),
    slice_sizes=(1, 1, heads, width, head_width),
    mode=lax.GatherScatterMode.CLIP,
  )


def _places(rows_A, layer, start_A):
  layer_A = jnp.full_like(rows_A, layer)
  return jnp.stack([rows_A, layer_A, start_A.astype(rows_A.dtype)], axis=-1)


def take(cache: Cache, rows_A) -> Cache:
  """A cache of these rows; a row that is none is a copy of the last."""

  def of(buffer):
    return buffer.at[rows_A].get(mode='clip')

  return jax.tree.map(of, cache)


def put(cache: Cache, rows_A, part: Cache) -> Cache:
  """The rows of `part` in these places; rows that are none are dropped."""

  def of(buffer, new):
    return buffer.at[rows_A].set(new, mode='drop')

  return jax.tree.map(of, cache, part)


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
