# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Utilities and shaping by hand: four rollouts, two of which succeed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.credit import fact_potentials

# Clusters are named by their first fact. Rollout 3 states c alone.
A, B, C, D = 0, 2, 4, 5
CLUSTER = [A, A, B, B, C, D, D, D]
ROLLOUT = [0, 1, 0, 2, 3, 0, 1, 2]
SUCCESS = [True, True, False, False]
WORTH = {A: 1 / 3, B: 0.0, C: -0.25, D: 0.125}

utilities_of = jax.jit(fact_potentials.utilities)
shaping_of = jax.jit(fact_potentials.shaping)


def utilities(cluster, rollout, success, *, mask=None, valid=None, **options):
  result = utilities_of(
    jnp.array([cluster]),
    jnp.array([rollout]),
    jnp.array([[True] * len(cluster) if mask is None else mask]),
    jnp.array([success]),
    jnp.array([[True] * len(success) if valid is None else valid]),
    **options,
  )
  return np.asarray(result[0])


def shaping(facts, asserts, search_of, **options):
  """`facts`: (cluster, rollout, turn), worth what the group above says."""
  cluster, rollout, turn = (list(one) for one in zip(*facts, strict=True))
  result = shaping_of(
    jnp.array([cluster]),
    jnp.array([[WORTH[one] for one in cluster]], jnp.float32),
    jnp.array([rollout]),
    jnp.array([turn]),
    jnp.ones((1, len(facts)), bool),
    jnp.array([asserts], bool),
    jnp.array([search_of]),
    **options,
  )
  return np.asarray(result[0])


def test_utilities_of_four_clusters():
  # Half of the rollouts succeed; eps = 1/2.
  #   a in 0, 1: (2 + .5) / 3 - .5 =  .3333
  #   b in 0, 2: (1 + .5) / 3 - .5 =  0
  #   c in 3:    (0 + .5) / 2 - .5 = -.25
  #   d in 0-2:  (2 + .5) / 4 - .5 =  .125
  actual = utilities(CLUSTER, ROLLOUT, SUCCESS)
  np.testing.assert_allclose(actual, [WORTH[c] for c in CLUSTER], atol=1e-6)
  # The share of successes without a prior would be 2 / 2 - .5 = .5 for a.
  np.testing.assert_allclose(
    utilities(CLUSTER, ROLLOUT, SUCCESS, prior=0.0),
    [0.5, 0.5, 0, 0, -0.5, 1 / 6, 1 / 6, 1 / 6],
    atol=1e-6,
  )


def test_a_rollout_counts_once_however_often_it_says_it():
  # Rollout 0 says a three times: n = 2, not 4 with (4 + .5) / 5 - .5 = .4.
  actual = utilities([0, 0, 0, 0, 4], [0, 0, 0, 1, 2], SUCCESS)
  np.testing.assert_allclose(actual[:4], 1 / 3, atol=1e-6)


def test_invalid_rollouts_count_nowhere():
  # Rollout 1 is invalid: rate 1/3; a has n = s = 1, U = 1.5 / 2 - 1/3 = .4167.
  # Counted as a failure it would be (1 + .5) / 3 - 1/4 = .25.
  valid = [True, False, True, True]
  actual = utilities([0, 0, 2], [0, 1, 1], SUCCESS, valid=valid)
  np.testing.assert_allclose(actual[:2], 5 / 12, atol=1e-6)
  # Only the invalid rollout says fact 2: the prior alone, .5 - 1/3.
  np.testing.assert_allclose(actual[2], 1 / 6, atol=1e-6)


def test_nothing_is_known_without_a_prior_or_a_valid_rollout():
  none = utilities([0, 0], [0, 1], [True, True], valid=[False, False])
  np.testing.assert_array_equal(none, [0, 0])
  # n = 0 and eps = 0 is 0 / 0.
  unseen = utilities(
    [0, 1], [0, 1], [True, True], valid=[False, True], prior=0.0
  )
  np.testing.assert_array_equal(unseen, [0, 0])
  # With one rollout, which succeeds: 1.5 / 2 - 1.
  np.testing.assert_allclose(utilities([0], [0], [True]), [-0.25])


def test_masked_facts_are_worth_nothing_and_change_nothing():
  mask = [True, False, True, True]
  actual = utilities([0, 0, 0, -1], [0, 3, 1, 2], SUCCESS, mask=mask)
  np.testing.assert_allclose(actual, [1 / 3, 0, 1 / 3, 0], atol=1e-6)


@pytest.mark.parametrize('prior', [-1, float('nan')])
def test_a_prior_below_nothing_is_refused(prior):
  with pytest.raises(ValueError, match='prior is'):
    fact_potentials.utilities(*[jnp.zeros((1, 1), int)] * 5, prior=prior)


def test_an_assert_shares_with_the_search_it_read():
  # Turn 0 searches, turn 1 asserts a: F = tanh(1/3) = .3215. A fifth of it
  # goes to turn 0. Then a again and b (U = 0): nothing. d after a:
  # tanh(.4583) - tanh(.3333) = .1072, not tanh(.125) = .1244.
  actual = shaping(
    [(A, 0, 1), (A, 0, 2), (B, 0, 2), (D, 0, 3)],
    [[0, 1, 1, 1, 0]],
    [[-1, 0, 0, -1, -1]],
  )
  np.testing.assert_allclose(
    actual, [[0.0643, 0.2572, 0, 0.1072, 0]], atol=5e-5
  )


def test_a_fact_of_failures_costs():
  # Rollout 3: tanh(-.25) = -.2449; -.0490 to the Search, -.1959 stay.
  actual = shaping([(C, 3, 1)], [[0, 1]] * 4, [[-1, 0]] * 4)
  np.testing.assert_allclose(actual[3], [-0.0490, -0.1959], atol=5e-5)
  np.testing.assert_array_equal(actual[:3], 0)


def test_shares_of_several_asserts_add_up():
  # Both asserts read turn 0: .2 (.3215 + .1072) = .0857. A store that forgot
  # a would give .2 (.3215 + .1244) = .0892.
  actual = shaping([(A, 0, 1), (D, 0, 2)], [[0, 1, 1]], [[-1, 0, 0]])
  np.testing.assert_allclose(actual, [[0.0857, 0.2572, 0.0858]], atol=5e-5)


@pytest.mark.parametrize('search', [-1, -7, 9])
def test_without_a_search_everything_stays(search):
  actual = shaping([(A, 0, 1)], [[0, 1, 0]], [[-1, search, -1]])
  # The last turn, -1 as an index, gets nothing.
  np.testing.assert_allclose(actual, [[0, np.tanh(1 / 3), 0]], rtol=1e-6)


def test_two_facts_of_a_cluster_in_one_assert_count_once():
  once = shaping([(A, 0, 0)], [[1]], [[-1]])
  twice = shaping([(A, 0, 0), (A, 0, 0)], [[1]], [[-1]])
  np.testing.assert_array_equal(once, twice)
  # tanh(2/3) = .5828 would be twice the cluster.
  np.testing.assert_allclose(twice, [[0.3215]], atol=5e-5)


def test_only_a_new_cluster_moves_the_potential():
  # Turn t asserts a cluster of its own, or one known since turn 0. The
  # running sum of forty numbers need not repeat itself to the last bit.
  turns = 40
  fresh = np.arange(turns) % 3 == 0
  cluster = np.where(fresh, np.arange(turns), 0)[None]
  worth = np.random.default_rng(1).normal(size=turns).astype(np.float32) / 9
  every = np.ones((1, turns), bool)
  actual = shaping_of(
    cluster,
    worth[cluster],
    np.zeros((1, turns), int),
    np.arange(turns)[None],
    every,
    every[None],
    -np.ones((1, 1, turns), int),
  )[0, 0]
  np.testing.assert_array_equal(np.asarray(actual) != 0, fresh)


def test_a_store_is_a_rollouts_own():
  # Both rollouts assert a for the first time; rollout 1 one turn later.
  actual = shaping([(A, 0, 0), (A, 1, 1)], [[1, 1]] * 2, [[-1, -1]] * 2)
  np.testing.assert_allclose(actual, 0.3215 * np.eye(2), atol=5e-5)


def test_facts_off_the_asserting_turns_are_ignored():
  # At turn 0, which asserts nothing, a does not enter: turn 1 brings it.
  actual = shaping([(A, 0, 0), (A, 0, 1)], [[0, 1]], [[-1, -1]])
  np.testing.assert_allclose(actual, [[0, 0.3215]], atol=5e-5)
  # Nor do facts of turns and rollouts that are not there.
  nowhere = [(A, 0, 2), (A, 0, -1), (A, 1, 0), (A, -1, 1)]
  np.testing.assert_array_equal(
    shaping(nowhere, [[1, 1]], [[-1, -1]]), [[0, 0]]
  )


def test_the_first_of_a_cluster_is_new_whatever_the_order():
  def new(facts, asserts):
    cluster, rollout, turn = (list(one) for one in zip(*facts, strict=True))
    mask = [True] * len(facts)
    arrays = (jnp.array([one]) for one in (cluster, rollout, turn, mask))
    asserts = jnp.array([asserts], bool)
    return np.asarray(fact_potentials.new_facts(*arrays, asserts)[0]).tolist()

  # turn 2 before turn 1; within turn 1 the lower index; rollout 1 has its own.
  facts = [(A, 0, 2), (A, 0, 1), (A, 0, 1), (A, 1, 2), (-1, 1, 1)]
  assert new(facts, [[1, 1, 1]] * 2) == [False, True, False, True, False]
  assert new(facts, [[1, 0, 1]] * 2) == [True, False, False, True, False]
