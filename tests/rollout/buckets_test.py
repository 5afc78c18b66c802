# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Few widths for tokens of any number."""

import hypothesis
import hypothesis.strategies as st
import numpy as np

from searchrl_jax.rollout import buckets


@hypothesis.given(st.integers(1, 5000))
def test_buckets_are_few_and_close(length):
  size = buckets.bucket(length)
  assert length <= size <= max(16, 1.5 * length)
  if length > 128:
    assert size <= 1.25 * length
  if length > 256:
    assert size <= 1.125 * length
  assert size % 8 == 0
  assert buckets.bucket(size) == size


def test_more_buckets_to_a_doubling_where_padding_costs_more():
  sizes = sorted({buckets.bucket(n) for n in range(1, 513)})
  assert sizes[:7] == [16, 24, 32, 48, 64, 96, 128]
  assert sizes[7:11] == [160, 192, 224, 256]
  assert sizes[11:] == [288, 320, 352, 384, 416, 448, 480, 512]


def test_a_bucket_is_no_wider_than_the_cache():
  assert buckets.width(99, capacity=100) == 100
  assert buckets.widths(64, capacity=100) == [16, 24, 32, 48, 64]
  assert buckets.widths(999, capacity=100) == [16, 24, 32, 48, 64, 96, 100]


@hypothesis.given(st.integers(0, 3000), st.integers(1, 512))
def test_pieces_are_the_whole_in_order(length, most):
  cuts = buckets.pieces(length, most)
  assert [i for start, stop in cuts for i in range(start, stop)] == list(
    range(length)
  )
  assert all(0 < stop - start <= most for start, stop in cuts)


def test_padding_stands_on_the_right():
  tokens, counts = buckets.pad([[3, 4], [], [5, 6, 7]], 4)
  np.testing.assert_array_equal(
    tokens, [[3, 4, 0, 0], [0, 0, 0, 0], [5, 6, 7, 0]]
  )
  assert counts.tolist() == [2, 0, 3]
