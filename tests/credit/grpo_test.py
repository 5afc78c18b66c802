# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Group-relative baselines: hand-worked groups and adversarial ones."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.credit import grpo

NAN, INF = float('nan'), float('inf')
BASELINES = {
  'grpo': grpo.advantages,
  'dr_grpo': functools.partial(grpo.advantages, normalize_std=False),
  'rloo': grpo.leave_one_out,
}
every_baseline = pytest.mark.parametrize(
  'baseline', BASELINES.values(), ids=BASELINES
)


def one_group(baseline, outcome, valid=None):
  valid = [True] * len(outcome) if valid is None else valid
  result = baseline(jnp.array([outcome], jnp.float32), jnp.array([valid]))
  return np.asarray(result[0])


def test_two_right_two_wrong():
  # Mean 1/2, unbiased variance 4 * (1/4) / 3 = 1/3, .5 / .57735 = .8660.
  np.testing.assert_allclose(
    one_group(grpo.advantages, [1, 1, 0, 0]),
    [0.8660, 0.8660, -0.8660, -0.8660],
    atol=5e-5,
  )


@pytest.mark.parametrize(
  ('missing', 'flagged'),
  [(NAN, True), (NAN, False), (INF, True), (-INF, False), (7.0, True)],
)
def test_a_missing_outcome_leaves_the_statistics(missing, flagged):
  # Of 1, 0, 1: mean 2/3, variance (1/9 + 4/9 + 1/9) / 2 = 1/3.
  actual = one_group(
    grpo.advantages, [1, missing, 0, 1], [True, not flagged, True, True]
  )
  np.testing.assert_allclose(actual, [0.5773, 0, -1.1547, 0.5773], atol=5e-5)
  assert actual[1] == 0
  # Counting the missing one as a wrong answer would give +-.8660.
  assert abs(actual[0] - 0.8660) > 0.2


def test_without_the_standard_deviation_and_without_oneself():
  outcome = [3.0, 5.0, 13.0]  # mean 7
  np.testing.assert_allclose(
    one_group(BASELINES['dr_grpo'], outcome), [-4, -2, 6]
  )
  # Others' means: 9, 8, 4.
  np.testing.assert_allclose(
    one_group(grpo.leave_one_out, outcome), [-6, -3, 9], rtol=1e-6
  )


@every_baseline
@pytest.mark.parametrize(
  'outcome', [[1, 1, 1, 1], [0.5, 0.5, 0.5, 0.5], [0.1, 0.1 + 5e-7, 0.1, 0.1]]
)
def test_a_group_that_agrees_gets_exactly_zero(baseline, outcome):
  assert not one_group(baseline, outcome).any()


@every_baseline
@pytest.mark.parametrize('valid', [[0, 0, 0], [0, 1, 0]])
def test_fewer_than_two_valid_members_have_nothing_to_compare(baseline, valid):
  valid = [bool(v) for v in valid]
  assert not one_group(baseline, [1.0, 0.3, NAN], valid).any()


def test_zero_spread_reads_valid_members_only():
  outcome = jnp.array([[1, 1, 0], [1, 1, 0], [2, NAN, NAN], [0, 2e-6, 0]])
  valid = jnp.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1]], bool)
  actual = grpo.zero_spread(outcome, valid)
  assert actual.tolist() == [False, True, True, False]


@every_baseline
def test_the_order_of_rollouts_does_not_matter(baseline):
  # Rows of prompts p1 and p2 arrive as p1 p2 p1 p2 or p1 p1 p2 p2: the array
  # [B, G] is the same, and members may stand in any order.
  outcome = jnp.array([[2.0, 3.0, 7.0], [11.0, 5.0, 13.0]])
  valid = jnp.array([[True, True, True], [True, False, True]])
  order = jnp.array([2, 0, 1])
  straight = baseline(outcome, valid)
  shuffled = baseline(outcome[:, order], valid[:, order])
  np.testing.assert_allclose(straight[:, order], shuffled, rtol=1e-6)
  swapped = baseline(outcome[::-1], valid[::-1])
  np.testing.assert_array_equal(straight[::-1], swapped)


@every_baseline
@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(
  rows=st.lists(
    st.tuples(
      st.one_of(st.floats(-1e3, 1e3, width=32), st.just(NAN), st.just(INF)),
      st.booleans(),
    ),
    min_size=5,
    max_size=5,
  )
)
def test_finite_and_centred_whatever_comes_in(baseline, rows):
  outcome, valid = (list(column) for column in zip(*rows, strict=True))
  actual = one_group(jax.jit(baseline), outcome, valid)
  assert np.isfinite(actual).all()
  assert not actual[~(np.array(valid) & np.isfinite(outcome))].any()
  assert abs(actual.sum()) <= 1e-4 * max(1.0, np.abs(actual).max())


def test_every_turn_gets_the_advantage_of_its_rollout():
  search, answer, none = types.Kind.SEARCH, types.Kind.ANSWER, types.Kind.NONE
  kind = jnp.array([[[search, answer, none], [types.Kind.INVALID, none, none]]])
  scores = types.Scores(
    outcome=jnp.array([[1.0, 0.0]]),
    success=jnp.array([[True, False]]),
    valid=jnp.array([[True, True]]),
    kind=kind,
    judged=jnp.zeros(kind.shape, bool),
    signals={},
  )
  np.testing.assert_allclose(
    grpo.turn_advantages(scores),
    [[[0.7071, 0.7071, 0], [-0.7071, 0, 0]]],
    atol=5e-5,
  )
  np.testing.assert_allclose(
    grpo.turn_advantages(scores, baseline=grpo.leave_one_out),
    [[[1, 1, 0], [-1, 0, 0]]],
  )


def test_shapes_are_checked_at_the_door():
  with pytest.raises(AssertionError):
    grpo.advantages(jnp.zeros((2, 3)), jnp.ones((3, 2), bool))
  with pytest.raises(AssertionError):
    grpo.zero_spread(jnp.zeros(3), jnp.ones(3, bool))
