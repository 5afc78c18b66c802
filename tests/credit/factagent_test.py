# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent's credit as a whole, by hand: process rewards and advantages."""

import jax
import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.credit import factagent, grpo

NONE, SEARCH, ASSERT = types.Kind.NONE, types.Kind.SEARCH, types.Kind.ASSERT
ANSWER, INVALID = types.Kind.ANSWER, types.Kind.INVALID
process_of = jax.jit(factagent.process, static_argnames='exact')
advantages_of = jax.jit(factagent.advantages, static_argnames='normalize')


def scores_of(kind, facts, success, *, search_of=None, **signals):
  """One group; `facts` are (cluster, rollout, turn), clusters orthogonal."""
  kind = np.array([kind], np.int32)
  name, rollout, turn = np.array(facts, np.int32).reshape(-1, 3).T[:, None]
  success = np.array([success], bool)
  nothing = np.zeros(kind.shape)
  signals = {
    'search_of_assert': nothing - 1 if search_of is None else [search_of],
    'repeated_search': nothing,
    'empty_answer': nothing,
  } | {key: [value] for key, value in signals.items()}
  return types.Scores(
    outcome=success.astype(np.float32),
    success=success,
    valid=np.ones_like(success),
    kind=kind,
    judged=np.ones(kind.shape, bool),
    signals={
      key: np.asarray(value, np.float32) for key, value in signals.items()
    },
    facts={
      'embedding': np.eye(8, dtype=np.float32)[name],
      'relation': np.ones((*name.shape, 2), np.float32),
      'negated': np.zeros(name.shape, bool),
      'numbers': np.zeros(name.shape, np.int32),
      'key': name,
      'rollout': rollout,
      'turn': turn,
      'mask': np.ones(name.shape, bool),
    },
  )


def a_pair(**signals):
  """Rollout 0 searches, asserts and is right; rollout 1 answers wrongly."""
  return scores_of(
    [[SEARCH, ASSERT, ANSWER], [ANSWER, NONE, NONE]],
    [(0, 0, 1)],
    [True, False],
    search_of=[[-1, 0, -1], [-1, -1, -1]],
    empty_answer=[[0, 0, 0], [1, 0, 0]],
    **signals,
  )


def test_the_worked_group():
  # Clusters 0: a, 1: b, 2: c, 3: d, as rollouts 0 to 3 come upon them.
  turns = [SEARCH, ASSERT, ASSERT, ASSERT, ANSWER]
  facts = [(0, 0, 1), (0, 0, 2), (1, 0, 2), (3, 0, 3)]
  facts += [(0, 1, 1), (3, 1, 1), (1, 2, 1), (3, 2, 2), (2, 3, 1)]
  scores = scores_of(
    [turns] * 4,
    facts,
    [True, True, False, False],
    search_of=[[-1, 0, -1, -1, -1]] * 4,
  )
  made = process_of(scores)
  np.testing.assert_array_equal(made.cluster_BM[0], [0, 0, 2, 3, 0, 3, 2, 3, 8])
  np.testing.assert_allclose(
    made.utility_BM[0],
    [1 / 3, 1 / 3, 0, 1 / 8, 1 / 3, 1 / 8, 0, 1 / 8, -1 / 4],
    atol=1e-6,
  )
  np.testing.assert_array_equal(made.new_BM[0], [1, 0, 1, 1, 1, 1, 1, 1, 1])
  np.testing.assert_allclose(
    made.shaping_BGS[0],
    [
      # F = .3215 at turn 1, shared; d after a: .1072, not .1244 from scratch.
      [0.0643, 0.2572, 0, 0.1072, 0],
      # a and d in one Assert: tanh(.4583) = .4287, shared .0857 and .3430.
      [0.0857, 0.3430, 0, 0, 0],
      # b is worth 0; d: tanh(.125) = .1244, from no Search.
      [0, 0, 0.1244, 0, 0],
      [-0.0490, -0.1959, 0, 0, 0],
    ],
    atol=5e-5,
  )
  np.testing.assert_array_equal(made.reward_BGS, made.shaping_BGS)


def test_the_worked_advantage():
  # U = 1.5 / 2 - .5 = .25, F = tanh(.25) = .2449. Rewards of the four turns:
  # .0490 .1959 0 | -.1, mean .0362, unbiased std .1232. Outcomes: +-.7071.
  #   .7071 + .5 * (.0128, .1597, -.0362) / .1232
  #  -.7071 + .5 * -.1362 / .1232
  actual = np.asarray(advantages_of(a_pair())[0])
  np.testing.assert_allclose(
    actual, [[0.7589, 1.3552, 0.5601], [-1.2600, 0, 0]], atol=1e-4
  )
  # With the two turns that do not exist, the mean would be .0242 and the std
  # .0973: 1.5903 at turn 1. With the biased std, .1067: 1.4555.
  raw = np.asarray(advantages_of(a_pair(), normalize=False)[0])
  np.testing.assert_allclose(
    raw, [[0.7316, 0.8051, 0.7071], [-0.7571, 0, 0]], atol=5e-5
  )


def test_penalties_are_subtracted_where_they_belong_and_add_up():
  kind = [[SEARCH, INVALID, SEARCH, ANSWER, NONE]]
  scores = scores_of(
    kind,
    [],
    [True],
    repeated_search=[[0, 1, 1, 0, 1]],
    empty_answer=[[0, 0, 0, 1, 1]],
  )
  made = process_of(
    scores, malformed_penalty=0.1, repeated_penalty=0.2, empty_penalty=0.4
  )
  expected = [[[0, -0.3, -0.2, -0.4, 0]]]  # the last is no turn
  np.testing.assert_allclose(made.penalty_BGS, expected, rtol=1e-6)
  np.testing.assert_array_equal(made.reward_BGS, made.penalty_BGS)


def test_facts_stated_in_searches_and_answers_count():
  scores = scores_of(
    [[SEARCH, SEARCH, ANSWER], [ANSWER, NONE, NONE]],
    [(0, 0, 1), (1, 0, 2)],
    [True, False],
    search_of=[[-1, 0, 1], [-1] * 3],
  )
  # Both have U = .25: F = .2449, then tanh(.5) - .2449 = .2172.
  np.testing.assert_allclose(
    process_of(scores).shaping_BGS[0, 0],
    [0.2 * 0.2449, 0.8 * 0.2449 + 0.2 * 0.2172, 0.8 * 0.2172],
    atol=5e-5,
  )


def test_an_outcome_that_is_no_number_is_not_trusted():
  facts = [(0, 0, 0), (0, 1, 0), (1, 2, 0)]
  scores = scores_of([[ASSERT]] * 3, facts, [True, False, False])
  scores.outcome[0, 1] = float('nan')  # though it claims to be valid
  # Of two rollouts, one succeeds: fact 0 has U = 1.5 / 2 - .5. As a failure,
  # the rollout would make it 1.5 / 3 - 1/3 = .1667.
  worth = process_of(scores).utility_BM[0]
  np.testing.assert_allclose(worth, [0.25, 0.25, -0.25], atol=1e-6)
  # The group of turns is +-tanh(.25): +-.7071 as the outcomes, half of it.
  np.testing.assert_allclose(
    advantages_of(scores)[0, :, 0], [1.0607, 0, -1.0607], atol=5e-5
  )


def test_exact_clusters_are_an_ablation():
  scores = scores_of([[ASSERT]] * 2, [(0, 0, 0), (0, 1, 0)], [True, False])
  scores.facts['key'][:] = [[4, 5]]  # the same fact in other words
  np.testing.assert_array_equal(process_of(scores).cluster_BM, [[0, 0]])
  exact = process_of(scores, exact=True)
  np.testing.assert_array_equal(exact.cluster_BM, [[0, 1]])
  # Each needs only what it reads.
  for name in ('embedding', 'relation', 'negated', 'numbers'):
    del scores.facts[name]
  again = process_of(scores, exact=True)
  np.testing.assert_array_equal(exact.reward_BGS, again.reward_BGS)


def test_equal_process_rewards_say_nothing():
  # Every turn is malformed: -.1 each, std 0.
  scores = scores_of([[INVALID] * 2] * 2, [], [True, False])
  actual = advantages_of(scores)
  expected = grpo.turn_advantages(scores)
  np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
  'name', ['search_of_assert', 'repeated_search', 'empty_answer']
)
def test_a_missing_signal_is_named(name):
  scores = a_pair()
  del scores.signals[name]
  with pytest.raises(ValueError, match=f"signal '{name}'"):
    factagent.advantages(scores)


@pytest.mark.parametrize('exact', [False, True])
def test_missing_facts_are_named(exact):
  read = ['key'] if exact else ['embedding', 'relation', 'negated', 'numbers']
  for name in [*read, 'rollout', 'turn', 'mask']:
    scores = a_pair()
    del scores.facts[name]
    with pytest.raises(ValueError, match=f"fact array '{name}'"):
      factagent.process(scores, exact=exact)


def test_a_negative_penalty_is_refused():
  # It would be subtracted, and so reward what it should punish.
  with pytest.raises(ValueError, match=r'penalty is -0\.1'):
    factagent.advantages(a_pair(), malformed_penalty=-0.1)
  with pytest.raises(ValueError, match='prior is -1'):
    factagent.advantages(a_pair(), prior=-1)
