# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent's credit on random groups: a slow reference, and what must hold."""

import dataclasses
import functools

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.credit import factagent, grpo
from tests.credit import factagent_reference as reference

NAN = float('nan')
NONE, INVALID = types.Kind.NONE, types.Kind.INVALID
process_of = jax.jit(factagent.process, static_argnames='exact')
advantages_of = jax.jit(
  factagent.advantages, static_argnames=('exact', 'baseline')
)


def random_scores(seed, *, questions=64, rollouts=4, turns=5, each=3, width=2):
  """Groups of every sort: ties, gaps, garbage under masks, nobody valid.

  Embeddings are small integers, so that equal, opposite, zero and orthogonal
  ones abound; `each` is the number of facts of a rollout.
  """
  rng = np.random.default_rng(seed)
  shape_BGS = (questions, rollouts, turns)
  shape_BM = (questions, rollouts * each)

  def share_B1():
    return rng.choice([0.0, 0.3, 0.8, 1.0], size=(questions, 1))

  def coin(shape, share_B1):
    share = share_B1.reshape(questions, *[1] * (len(shape) - 1))
    return rng.random(shape) < share

  length_BG = rng.integers(1, turns + 1, shape_BGS[:2])
  exists_BGS = np.arange(turns) < length_BG[..., None]
  kind_BGS = rng.integers(1, 7, shape_BGS) * exists_BGS
  rollout_BM = np.tile(np.repeat(np.arange(rollouts), each), (questions, 1))
  turn_BM = rng.integers(0, np.repeat(length_BG, each, axis=1))
  mask_BM = coin(shape_BM, share_B1())
  embedding_BME = rng.integers(-2, 3, (*shape_BM, width)).astype(np.float32)
  relation_BME = rng.integers(-1, 2, (*shape_BM, width)).astype(np.float32)
  embedding_BME[rng.random(shape_BM) < 0.03, 0] = NAN
  relation_BME[rng.random(shape_BM) < 0.03, 0] = -np.inf
  embedding_BME[~mask_BM] = NAN
  success_BG = coin(shape_BGS[:2], share_B1())
  return types.Scores(
    outcome=(success_BG + 0.25 * (rng.random(shape_BGS[:2]) < 0.2)).astype(
      np.float32
    ),
    success=success_BG,
    valid=coin(shape_BGS[:2], share_B1()),
    kind=kind_BGS.astype(np.int32),
    judged=exists_BGS,
    signals={
      'search_of_assert': rng.integers(-1, np.arange(turns), shape_BGS).astype(
        np.float32
      ),
      'repeated_search': coin(shape_BGS, share_B1()).astype(np.float32),
      'empty_answer': coin(shape_BGS, share_B1()).astype(np.float32),
    },
    facts={
      'embedding': embedding_BME,
      'relation': relation_BME,
      'negated': rng.random(shape_BM) < 0.2,
      'numbers': rng.integers(0, 2, shape_BM).astype(np.int32),
      'key': rng.integers(0, 5, shape_BM).astype(np.int32),
      'rollout': np.where(mask_BM, rollout_BM, -3).astype(np.int32),
      'turn': np.where(mask_BM, turn_BM, 97).astype(np.int32),
      'mask': mask_BM,
    },
  )


def facts_of(scores, b):
  """The facts of a question as the reference wants them."""
  columns = {name: array[b].tolist() for name, array in scores.facts.items()}
  rows = zip(*columns.values(), strict=True)
  facts = [dict(zip(columns, row, strict=True)) for row in rows]
  return [fact if fact['mask'] else None for fact in facts]


def reference_process(scores, b, *, exact, prior, to_search, **thresholds):
  """(clusters, utilities, shaping, reward) of one question."""
  facts = facts_of(scores, b)
  name = (
    reference.cluster_exact(facts)
    if exact
    else reference.cluster(facts, **thresholds)
  )
  worth = reference.utilities(
    facts, name, scores.success[b].tolist(), scores.valid[b].tolist(), prior
  )
  search_of = scores.signals['search_of_assert'][b].astype(int).tolist()
  asserts = np.ones(scores.kind[b].shape, bool).tolist()
  earned, _ = reference.shaping(
    facts, name, worth, asserts, search_of, to_search
  )
  wrong = (scores.kind[b] == INVALID) * 0.1
  wrong = wrong + scores.signals['repeated_search'][b] * 0.2
  wrong = wrong + scores.signals['empty_answer'][b] * 0.4
  wrong = wrong * (scores.kind[b] != NONE)
  return name, worth, earned, (np.array(earned) - wrong).tolist()


seeds = st.integers(0, 2**32 - 1)
thresholds = st.sampled_from([-1.0, 0.0, 0.5, 0.5**0.5, 0.8, 0.85, 1.0])


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
  seed=seeds,
  threshold=thresholds,
  relation_threshold=thresholds,
  exact=st.booleans(),
  prior=st.sampled_from([0.0, 0.5, 2.0]),
  to_search=st.sampled_from([0.0, 0.2, 1.0]),
  omega=st.sampled_from([0.3, 1.0]),
)
def test_equal_to_the_reference_on_thousands_of_groups(seed, omega, **options):
  scores = random_scores(seed)
  penalties = {'repeated_penalty': 0.2, 'empty_penalty': 0.4}
  made = process_of(scores, **penalties, **options)
  credit = advantages_of(scores, omega=omega, **penalties, **options)
  outcome = np.asarray(grpo.turn_advantages(scores))
  assert all(np.isfinite(leaf).all() for leaf in (*made, credit))
  exists = (scores.kind != NONE) & scores.valid[..., None]
  columns = [
    reference_process(scores, b, **options) for b in range(len(exists))
  ]
  name, worth, earned, reward = zip(*columns, strict=True)
  np.testing.assert_array_equal(made.cluster_BM, name)
  np.testing.assert_allclose(made.utility_BM, worth, atol=1e-6)
  np.testing.assert_allclose(made.shaping_BGS, earned, atol=2e-6)
  np.testing.assert_allclose(made.reward_BGS, reward, atol=2e-6)
  expected = [
    reference.normalized(*rows)
    for rows in zip(reward, exists.tolist(), strict=True)
  ]
  expected = (outcome + omega * np.array(expected)) * exists
  np.testing.assert_allclose(credit, expected, atol=2e-3)


@hypothesis.settings(deadline=None, max_examples=20)
@hypothesis.given(seed=seeds, to_search=st.floats(0, 1, width=32))
def test_rewards_sum_to_the_last_potential(seed, to_search):
  scores = random_scores(seed)
  made = process_of(scores, to_search=to_search)
  # The potential of all that a rollout ever stated, order forgotten.
  name, worth = np.asarray(made.cluster_BM), np.asarray(made.utility_BM)
  rollout, mask = scores.facts['rollout'], scores.facts['mask']
  for b, g in np.ndindex(scores.valid.shape):
    his = mask[b] & (rollout[b] == g)
    store = dict(zip(name[b, his], worth[b, his], strict=True))
    total = float(np.tanh(sum(store.values())))
    assert abs(made.shaping_BGS[b, g].sum() - total) < 2e-6


@hypothesis.settings(deadline=None, max_examples=10)
@hypothesis.given(seed=seeds)
def test_the_order_of_facts_does_not_matter(seed):
  scores = random_scores(seed)
  order = np.random.default_rng(seed).permutation(scores.facts['mask'].shape[1])
  facts = {name: array[:, order] for name, array in scores.facts.items()}
  other = dataclasses.replace(scores, facts=facts)
  one, two = process_of(scores), process_of(other)
  np.testing.assert_allclose(one.reward_BGS, two.reward_BGS, atol=1e-6)
  np.testing.assert_allclose(
    one.utility_BM[:, order], two.utility_BM, atol=1e-6
  )
  # Names differ, but not who shares one.
  a, b = np.asarray(one.cluster_BM)[:, order], np.asarray(two.cluster_BM)
  np.testing.assert_array_equal(
    a[:, :, None] == a[:, None, :], b[:, :, None] == b[:, None, :]
  )


@hypothesis.settings(deadline=None, max_examples=10)
@hypothesis.given(seed=seeds)
def test_the_order_of_rollouts_does_not_matter(seed):
  scores = random_scores(seed)
  order = np.random.default_rng(seed).permutation(scores.valid.shape[1])
  place = np.argsort(order)  # rollout g now stands at place[g]
  rollout = np.where(scores.facts['mask'], scores.facts['rollout'], 0)
  other = types.Scores(
    *(
      array[:, order]
      for array in (scores.outcome, scores.success, scores.valid)
    ),
    kind=scores.kind[:, order],
    judged=scores.judged[:, order],
    signals={name: array[:, order] for name, array in scores.signals.items()},
    facts=scores.facts | {'rollout': place[rollout].astype(np.int32)},
  )
  one, two = advantages_of(scores), advantages_of(other)
  np.testing.assert_allclose(one[:, order], two, atol=2e-3)


@hypothesis.settings(deadline=None, max_examples=10)
@hypothesis.given(seed=seeds)
def test_padding_does_not_matter(seed):
  scores = random_scores(seed)

  def pad(array, axis, count, value):
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, count)
    return np.pad(array, widths, constant_values=value)

  # Two turns and three facts more, full of what must not be read.
  other = dataclasses.replace(
    scores,
    kind=pad(scores.kind, 2, 2, NONE),
    judged=pad(scores.judged, 2, 2, True),
    signals={
      name: pad(array, 2, 2, 1.0) for name, array in scores.signals.items()
    },
    facts={
      name: pad(array, 1, 3, name != 'mask' and array.dtype.type(1))
      for name, array in scores.facts.items()
    },
  )
  one, two = advantages_of(scores), advantages_of(other)
  np.testing.assert_allclose(one, two[..., :-2], atol=2e-3)
  np.testing.assert_array_equal(two[..., -2:], 0)


@pytest.mark.parametrize('baseline', [grpo.advantages, grpo.leave_one_out])
@pytest.mark.parametrize('seed', range(3))
def test_without_omega_it_is_grpo(baseline, seed):
  scores = random_scores(seed)
  scores.outcome[0, 0] = NAN  # valid or not, nobody may trust it
  actual = advantages_of(scores, omega=0.0, baseline=baseline)
  turns = jax.jit(functools.partial(grpo.turn_advantages, baseline=baseline))
  np.testing.assert_array_equal(actual, turns(scores))


@pytest.mark.parametrize('exact', [False, True])
def test_jit_equals_eager(exact):
  scores = random_scores(11, questions=8)
  eager = factagent.process(scores, exact=exact)
  for one, two in zip(eager, process_of(scores, exact=exact), strict=True):
    np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.parametrize('empty', ['facts', 'valid', 'success'])
@pytest.mark.parametrize('rollouts', [1, 4])
def test_groups_that_lack_something(empty, rollouts):
  scores = random_scores(5, questions=16, rollouts=rollouts)
  mask = scores.facts['mask'] & (empty != 'facts')
  scores = dataclasses.replace(
    scores,
    facts=scores.facts | {'mask': mask},
    valid=scores.valid & (empty != 'valid'),
    success=scores.success & (empty != 'success'),
  )
  made, credit = process_of(scores, prior=0.0), advantages_of(scores)
  assert all(np.isfinite(leaf).all() for leaf in (*made, credit))
  if empty != 'success':  # nothing can be learned of facts
    np.testing.assert_array_equal(made.utility_BM, 0)
    np.testing.assert_array_equal(made.shaping_BGS, 0)
  if empty == 'valid':
    np.testing.assert_array_equal(credit, 0)
