# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""LLDS: which turns of which segments are held up."""

import jax
import jax.numpy as jnp
import numpy as np

from searchrl_jax import types
from searchrl_jax.training import llds

# Two segments in one row; both have a turn 0. Token 2 was given.
SEGMENTS = np.array([[1, 1, 1, 1, 1, 1, 2, 2, 0]])
TURNS = np.array([[0, 0, -1, 1, 1, 2, 0, 0, -1]])
DROP = np.array([[0.3, -0.1, 9.0, 0.1, -0.4, 0.5, 0.2, 0.3, 9.0]], np.float32)
KEEP = TURNS >= 0


def terms(advantage, logps=None, keep=KEEP):
  zeros = np.zeros(SEGMENTS.shape, np.float32)
  batch = types.Batch(
    tokens=zeros,
    positions=zeros,
    segment_ids=SEGMENTS,
    sampled=KEEP,
    turn_id=TURNS,
    trajectory_id=zeros,
    sampler_logps=zeros,
  )
  logps = -np.ones(SEGMENTS.shape, np.float32) if logps is None else logps
  advantage = np.array([advantage], np.float32)
  old = DROP - 1
  return llds.likelihood_drop(logps, old, advantage, jnp.array(keep), batch)


def test_only_turns_that_fell_and_in_them_only_tokens_that_fell():
  # Sums by turn: .3 - .1 = .2 | .1 - .4 = -.3 | .5 || .2 + .3 = .5. Were the
  # two turns 0 one, or the given token part of turn 1, others would light up.
  np.testing.assert_allclose(
    terms([1] * 9),
    [[0.3, 0, 0, 0, 0, 0.5, 0.2, 0.3, 0]],
    rtol=1e-6,
  )


def test_only_segments_with_a_mean_advantage_of_at_least_zero():
  # First segment: 2 - 1 + 0 - 1 + 0 = 0, kept although it has negative
  # tokens; the 9 stands on a given token. Second: below zero.
  actual = terms([2, -1, 9, 0, -1, 0, 1, -2, 0])
  np.testing.assert_allclose(
    actual, [[0.3, 0, 0, 0, 0, 0.5, 0, 0, 0]], rtol=1e-6
  )
  without = terms([2, -1, 9, 0, -2, 0, 1, -2, 0])
  assert not without.any()


def test_the_gradient_pushes_fallen_tokens_up_and_nothing_else():
  gradient = jax.grad(lambda logps: terms([1] * 9, logps).sum())(
    -jnp.ones(SEGMENTS.shape)
  )
  np.testing.assert_array_equal(gradient, [[-1, 0, 0, 0, 0, -1, -1, -1, 0]])


def test_before_the_first_update_it_is_silent():
  logps = jnp.array(DROP - 1)
  value, gradient = jax.value_and_grad(
    lambda logps: terms([1] * 9, logps).sum()
  )(logps)
  assert value == 0
  assert not gradient.any()
