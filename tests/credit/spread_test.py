# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Turns to tokens and back, on packed rows with traps in the masked places."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.credit import spread

# B = 1, G = 2, S = 3. Trajectory 0 has two turns, 1 has one; row 1 is padding
# after its first segment. Given tokens carry ids that point at real turns.
TRAJECTORY = np.array([[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, -1, -1, -1, -1, 0, 1]])
TURN = np.array([[-1, 0, 0, -1, 1, -1, 0, 0], [2, 2, -1, -1, -1, -1, 0, 0]])
SAMPLED = np.array([[0, 1, 1, 0, 1, 0, 1, 1], [1, 1, 0, 0, 0, 0, 0, 0]], bool)
ADVANTAGE = np.array([[[2.0, 3.0, 5.0], [7.0, 11.0, 13.0]]], np.float32)


def batch_of(trajectory=TRAJECTORY, turn=TURN, sampled=SAMPLED):
  zeros = np.zeros(sampled.shape, np.int32)
  return types.Batch(
    tokens=zeros,
    positions=zeros,
    segment_ids=zeros + 1,
    sampled=sampled,
    turn_id=turn.astype(np.int32),
    trajectory_id=trajectory.astype(np.int32),
    sampler_logps=zeros.astype(np.float32),
  )


def test_each_sampled_token_gets_its_turns_value():
  actual = jax.jit(spread.spread)(ADVANTAGE, batch_of())
  np.testing.assert_array_equal(
    actual, [[0, 2, 2, 0, 3, 0, 7, 7], [5, 5, 0, 0, 0, 0, 0, 0]]
  )


def test_nan_on_a_turn_without_tokens_stays_there():
  advantage = ADVANTAGE.copy()
  advantage[0, 1, 1:] = np.nan
  assert np.isfinite(spread.spread(advantage, batch_of())).all()


def test_identical_turns_get_their_own_credit():
  # The same text twice is two turns of the record: nothing is looked up.
  turn = np.array([[0, 0, -1, 1, 1]])
  batch = batch_of(np.zeros((1, 5)), turn, turn >= 0)
  actual = spread.spread(jnp.array([[[0.25, -0.75]]]), batch)
  np.testing.assert_array_equal(actual, [[0.25, 0.25, 0, -0.75, -0.75]])


@pytest.mark.parametrize(('trajectory', 'turn'), [(0, 3), (2, 0)])
def test_a_turn_that_has_no_advantage_gets_zero(trajectory, turn):
  # Clamping the index would hand it the value of the last turn.
  batch = batch_of(
    np.array([[trajectory]]), np.array([[turn]]), np.array([[True]])
  )
  assert spread.spread(ADVANTAGE, batch)[0, 0] == 0


def test_gather_undoes_spread():
  batch = batch_of()
  tokens_NL = spread.spread(ADVANTAGE, batch)
  # Something else at masked places: it must not enter the means.
  tokens_NL = jnp.where(batch.sampled, tokens_NL, jnp.nan)
  actual = spread.gather(tokens_NL, batch, (1, 2, 3))
  np.testing.assert_array_equal(actual, [[[2, 3, 5], [7, 0, 0]]])


def test_gather_takes_means_over_tokens_and_drops_strangers():
  values = np.array([[99, 1, 2, 99, 5, 99, 3, 7], [10, 20, *[99] * 6]])
  actual = spread.gather(values.astype(np.float32), batch_of(), (1, 2, 2))
  # Turn 2 of trajectory 0 does not fit: it vanishes, it does not spill over
  # into turn 0 of trajectory 1.
  np.testing.assert_array_equal(actual, [[[1.5, 5], [5, 0]]])


def test_order_of_arrival_does_not_matter():
  # Rows p1 p2 p1 p2 or p1 p1 p2 p2: trajectory_id decides, not the position.
  advantage = jnp.array([[[2.0], [3.0]], [[5.0], [7.0]]])
  for order in ([0, 2, 1, 3], [0, 1, 2, 3], [3, 1, 0, 2]):
    trajectory = np.array(order)[:, None]
    batch = batch_of(trajectory, 0 * trajectory, trajectory >= 0)
    actual = spread.spread(advantage, batch)
    np.testing.assert_array_equal(
      actual[:, 0], np.array([2.0, 3.0, 5.0, 7.0])[order]
    )


def test_token_weighted_mean():
  # Turns of 20, 80, 20 tokens: (20 * 1.0972 + 80 * .4036 + 20 * 1.0972) / 120.
  turn = np.repeat([0, 1, 2, 3], [20, 80, 20, 5])[None]
  batch = batch_of(0 * turn, turn, turn >= 0)
  advantage = jnp.array([[[1.0972, 0.4036, 1.0972, 0.8660]]])
  searches = jnp.array([[[True, True, True, False]]])
  actual = spread.token_weighted_mean(advantage, searches, batch)
  np.testing.assert_allclose(actual, [[0.6348]], atol=5e-5)
  nothing = spread.token_weighted_mean(advantage, ~(searches | True), batch)
  np.testing.assert_array_equal(nothing, [[0.0]])
