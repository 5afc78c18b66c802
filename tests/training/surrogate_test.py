# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Clipped surrogate by hand, with its gradient where the clip is active."""

import jax
import jax.numpy as jnp
import numpy as np

from searchrl_jax.training import surrogate

RATIO = jnp.array([[1.5, 0.5, 1.5, 0.5, 1.1]])
ADVANTAGE = jnp.array([[1.0, -1.0, -1.0, 1.0, 2.0]])


def clipped(ratio_NL):
  return surrogate.clipped(ratio_NL, ratio_NL, ADVANTAGE, low=0.2, high=0.28)


def test_worked_numbers():
  # The minimum is pessimistic: r = 1.5 with A = -1 is not clipped to 1.28.
  np.testing.assert_allclose(
    clipped(RATIO), [[-1.28, 0.8, 1.5, -0.5, -2.2]], rtol=1e-6
  )


def test_the_clip_stops_the_gradient_exactly_where_it_says():
  gradient = jax.grad(lambda r: clipped(r).sum())(RATIO)
  np.testing.assert_allclose(gradient, [[0, 0, 1, -1, -2]])
  lower, upper = surrogate.clip_events(RATIO, ADVANTAGE, low=0.2, high=0.28)
  np.testing.assert_array_equal(lower, [[0, 1, 0, 0, 0]])
  np.testing.assert_array_equal(upper, [[1, 0, 0, 0, 0]])
  np.testing.assert_array_equal(lower | upper, gradient == 0)


def test_likelihood_needs_no_ratio():
  logps = jnp.array([[-1.0, -3.0, -2.0, -5.0, -7.0]])
  actual = surrogate.likelihood(RATIO, logps, ADVANTAGE)
  np.testing.assert_array_equal(actual, [[1, -3, -2, 5, 14]])
