# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Trajectories become packed token rows.

  trajectory 3  p p p t t r r t        row 0  3 3 3 3 3 3 3 3 4 4 4 4 4 . .
  trajectory 4  p p t t t         ->   row 1  5 5 5 5 5 5 5 5 5 5 5 5 . . .
  trajectory 5  p p p t t r r r t t t t

A segment is one token row of a trajectory and is never split.
"""

from collections.abc import Sequence

import numpy as np

from searchrl_jax.types import Batch, Groups


def _first_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
  """Puts each item into the first row with room, in order."""
  rows: list[list[int]] = []
  room: list[int] = []
  for i, length in enumerate(lengths):
    fitting = (r for r, free in enumerate(room) if length <= free)
    r = next(fitting, len(rows))
    if r == len(rows):
      rows.append([])
      room.append(capacity)
    rows[r].append(i)
    room[r] -= length
  return rows


def empty(rows: int, length: int) -> Batch:
  """A batch of padding."""
  shape = (rows, length)
  return Batch(
    tokens=np.zeros(shape, np.int32),
    positions=np.zeros(shape, np.int32),
    segment_ids=np.zeros(shape, np.int32),
    sampled=np.zeros(shape, bool),
    turn_id=np.full(shape, -1, np.int32),
    trajectory_id=np.full(shape, -1, np.int32),
    sampler_logps=np.zeros(shape, np.float32),
  )


def pack(groups: Groups, *, length: int, multiple: int = 1, keep=None) -> Batch:
  """Packs token rows in the order of (question, rollout, row).

  Args:
    groups: B groups of G trajectories.
    length: L, tokens of a packed row.
    multiple: N is rounded up to a multiple of it with rows of padding, so
      that few distinct shapes occur.
    keep: [B, G] bool, trajectories to pack; all where None.

  Returns:
    A `Batch` of numpy arrays [N, L], N as small as first fit makes it and at
    least `multiple`. `trajectory_id` is b * G + g whatever was left out.

  Raises:
    ValueError: a token row is longer than L.
  """
  segments = []
  for b, members in enumerate(groups):
    for g, trajectory in enumerate(members):
      if keep is None or keep[b][g]:
        number = b * len(members) + g
        segments += [(number, row) for row in trajectory.rows]
  lengths = [len(row.tokens) for _, row in segments]
  if lengths and max(lengths) > length:
    raise ValueError(
      f'a token row has {max(lengths)} tokens and packed rows {length}; raise '
      'the packing length to the context.'
    )
  placed = _first_fit(lengths, length)
  batch = empty(multiple * max(1, -(-len(placed) // multiple)), length)
  for n, members in enumerate(placed):
    start = 0
    for order, i in enumerate(members):
      number, row = segments[i]
      at = (n, slice(start, start + lengths[i]))
      batch.tokens[at] = row.tokens
      batch.positions[at] = np.arange(lengths[i])
      batch.segment_ids[at] = order + 1
      batch.sampled[at] = row.sampled
      batch.turn_id[at] = row.turn_id
      batch.trajectory_id[at] = number
      batch.sampler_logps[at] = row.logps
      start += lengths[i]
  return batch
