# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs of keys and sums over them."""

import jax
import jax.numpy as jnp
import numpy as np

from searchrl_jax.training import segments

SEGMENTS = jnp.array([[1, 1, 1, 1, 1, 2, 2, 2, 0], [7, 7, 7, 3, 3, 9, 9, 9, 9]])
TURNS = jnp.array(
  [[-1, 0, 0, -1, 1, -1, 0, 0, -1], [5, 5, 6, 6, 6, 6, 900, -1, -1]]
)


def test_runs_rise_where_any_key_changes():
  np.testing.assert_array_equal(
    segments.runs(SEGMENTS, TURNS),
    [[0, 1, 1, 2, 3, 4, 5, 5, 6], [0, 0, 1, 2, 2, 3, 4, 5, 5]],
  )


def test_totals_stay_within_their_run_and_row():
  value = jnp.array([[2, 3, 5, 7, 11, 13, 17, 19, 23.0], [1.0] * 9])
  actual = jax.jit(segments.totals)(value, segments.runs(SEGMENTS))
  np.testing.assert_array_equal(
    actual,
    [[28, 28, 28, 28, 28, 49, 49, 49, 23], [3, 3, 3, 2, 2, 4, 4, 4, 4]],
  )


def test_the_gradient_of_a_total_is_the_size_of_the_run():
  run = segments.runs(SEGMENTS)
  gradient = jax.grad(lambda x: segments.totals(x, run).sum())(
    jnp.ones(SEGMENTS.shape)
  )
  np.testing.assert_array_equal(
    gradient, [[5, 5, 5, 5, 5, 3, 3, 3, 1], [3, 3, 3, 2, 2, 4, 4, 4, 4]]
  )
