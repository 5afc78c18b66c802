# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Few shapes for tokens of any number, so that few programs are compiled.

What a piece is padded to depends on its own length alone, never on what
happens to be read beside it: shapes, and with them the last bits of every
number, do not depend on timing.

  600 tokens, at most 256 a call      256 | 256 | 88 + 8 of padding
"""

from collections.abc import Sequence

import numpy as np


def bucket(length: int, least: int = 16) -> int:
  """The next of 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 288, ...

  Two to a doubling, from 128 on four, from 256 on eight: a long piece costs
  what it is long, padding included, a short one the reading of the weights.
  """
  if length > 128:
    step = 2 ** (length - 1).bit_length() // (16 if length > 256 else 8)
    return -(-length // step) * step
  size = least
  while size < length:
    size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
  return size


def widths(most: int, capacity: int) -> list[int]:
  """Every width that pieces of at most `most` tokens can have."""
  sizes = {width(n, capacity) for n in range(1, min(most, capacity) + 1)}
  return sorted(sizes)


def width(length: int, capacity: int) -> int:
  """Columns of a call that appends a piece of this length.

  The last bucket may be wider than the cache: what is in it never is.
  """
  return min(bucket(length), capacity)


def pieces(length: int, most: int) -> list[tuple[int, int]]:
  """Cuts a length into [start, stop) of at most `most` tokens each."""
  return [
    (start, min(start + most, length)) for start in range(0, length, most)
  ]


def pad(rows: Sequence[Sequence[int]], columns: int):
  """Right-pads id lists into [len(rows), columns]; also returns counts."""
  counts = np.array([len(row) for row in rows], np.int32)
  tokens = np.zeros((len(rows), columns), np.int32)
  for i, row in enumerate(rows):
    tokens[i, : len(row)] = row
  return tokens, counts
