# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rows are dealt out, padded, and never lost."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchrl_jax import packing
from searchrl_jax.training.minibatches import minibatches, pad_rows, slices
from searchrl_jax.types import Targets


def rows(count, empty=0):
  """Rows that carry their number + 1 as token, then empty ones."""
  batch = packing.empty(count + empty, 3)
  number = np.arange(1, count + 1)[:, None]
  batch.tokens[:count] = number
  batch.segment_ids[:count] = 1
  targets = Targets(*(np.zeros((count + empty, 3), np.float32) for _ in 'aorw'))
  targets.weight[:count] = number
  return batch, targets


def tokens(part):
  return part[0].tokens[:, 0].tolist()


def test_rows_are_dealt_like_cards():
  parts = list(minibatches(*rows(7), count=3))
  assert [tokens(part) for part in parts] == [[1, 4, 7], [2, 5, 0], [3, 6, 0]]
  batch, targets = parts[1]
  # The targets travel with their rows; a row of padding looks like packing's.
  np.testing.assert_array_equal(targets.weight[:, 0], [2, 5, 0])
  np.testing.assert_array_equal(batch.turn_id[2], [-1, -1, -1])
  np.testing.assert_array_equal(batch.segment_ids[2], [0, 0, 0])


def test_empty_rows_are_dropped_before_dealing():
  # Dealt first, the padding of 5 + 3 rows would cost each part a row.
  parts = list(minibatches(*rows(4, empty=4), count=2))
  assert [tokens(part) for part in parts] == [[1, 3], [2, 4]]


def test_no_update_on_nothing():
  assert [tokens(p) for p in minibatches(*rows(2), count=3)] == [[1], [2]]
  # A batch of padding alone is still one update: the step happens.
  assert [tokens(p) for p in minibatches(*rows(0, empty=4), count=3)] == [[0]]
  with pytest.raises(ValueError, match='minibatches is 0'):
    list(minibatches(*rows(2), count=0))


@settings(max_examples=60, deadline=None)
@given(
  count=st.integers(1, 40), parts=st.integers(1, 9), micro=st.integers(1, 8)
)
def test_every_row_is_used_once(count, parts, micro):
  seen, sizes = [], set()
  for part in minibatches(*rows(count), count=parts):
    sizes.add(len(part[0].tokens))
    padded = pad_rows(*part, micro)
    for piece in slices(padded, micro):
      assert len(piece[0].tokens) == micro
      np.testing.assert_array_equal(piece[0].tokens, piece[1].weight)
      seen += tokens(piece)
  assert sorted(token for token in seen if token) == list(range(1, count + 1))
  assert len(sizes) == 1


def test_padding_keeps_types_and_full_batches():
  batch, targets = rows(4)
  same = pad_rows(batch, targets, 4)
  jax.tree.map(np.testing.assert_array_equal, same, (batch, targets))
  more = pad_rows(batch, targets, 3)
  assert len(more[0].tokens) == 6
  assert jax.tree.map(lambda x: x.dtype, more) == jax.tree.map(
    lambda x: x.dtype, (batch, targets)
  )
