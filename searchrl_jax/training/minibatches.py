# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of a batch as equal parts: minibatches, micro-batches, padding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from searchrl_jax import packing
from searchrl_jax.types import Batch, Targets


def pad_rows(
  batch: Batch, targets: Targets, multiple: int
) -> tuple[Batch, Targets]:
  """Appends empty rows, segment 0 and weight 0, up to a multiple."""
  rows, length = np.shape(batch.tokens)
  extra = -rows % multiple if rows else multiple
  zeros = np.zeros((extra, length), np.float32)
  padding = packing.empty(extra, length), Targets(zeros, zeros, zeros, zeros)
  return jax.tree.map(
    lambda *parts: np.concatenate(parts), (batch, targets), padding
  )


def minibatches(
  batch: Batch, targets: Targets, count: int
) -> Iterator[tuple[Batch, Targets]]:
  """Splits rows over `count` updates, dealt out like cards.

    rows 0 1 2 3 4 5 6, count 3   ->   0 3 6 | 1 4 . | 2 5 .

  Rows are in the order of their questions, so that dealing gives each update
  a share of every question that has several. Empty rows are dropped first;
  fewer rows than `count` give fewer minibatches, since an update on nothing
  would still move the parameters by their momentum.

  Raises:
    ValueError: count below 1.
  """
  if count < 1:
    raise ValueError(f'minibatches is {count}; choose 1 or more.')
  occupied = np.flatnonzero(np.asarray(batch.segment_ids).any(axis=1))
  occupied = occupied if len(occupied) else np.zeros(1, np.int64)
  rows, tree = -(-len(occupied) // count), (batch, targets)
  for first in range(min(count, len(occupied))):
    dealt = occupied[first::count]
    part = jax.tree.map(lambda x, dealt=dealt: np.asarray(x)[dealt], tree)
    yield pad_rows(*part, rows)


def slices(tree: Any, rows: int) -> Iterator[Any]:
  """Consecutive parts of `rows` rows; their number must be a multiple."""
  total = len(jax.tree.leaves(tree)[0])
  for start in range(0, total, rows):
    yield jax.tree.map(lambda x, s=start: x[s : s + rows], tree)
