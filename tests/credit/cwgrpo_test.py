# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""CW-GRPO: hand-worked shares, limits, fallbacks, and what is conserved."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.credit import cwgrpo, grpo

NAN, INF = float('nan'), float('inf')
NONE, SEARCH = types.Kind.NONE, types.Kind.SEARCH
ANSWER, INVALID = types.Kind.ANSWER, types.Kind.INVALID
A = 0.75**0.5  # the advantage of a success among [1, 1, 0, 0]
jitted = jax.jit(cwgrpo.redistribute, static_argnames='release_compatible')


def move(advantage, p, search, other, *, concentrate=True, **options):
  """Redistributes one trajectory."""
  result = jitted(
    jnp.full((1, 1), advantage),
    jnp.array([[p]], jnp.float32),
    jnp.array([[search]], bool),
    jnp.array([[other]], bool),
    jnp.full((1, 1), concentrate),
    **options,
  )
  return np.asarray(result[0, 0])


def four_rollouts(**changes):
  """Outcomes 1, 1, 0, 0; the first has searches with u * v = 1, 0, 1."""
  kind = [
    [SEARCH, SEARCH, SEARCH, ANSWER, NONE],
    [SEARCH, INVALID, SEARCH, NONE, NONE],  # ended by the turn limit
    [SEARCH, SEARCH, ANSWER, NONE, NONE],
    [ANSWER, NONE, NONE, NONE, NONE],
  ]
  useful = [[1, 1, 1, 0, 0], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0] * 5]
  correct = [[1, 0, 1, 0, 0], [1, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0] * 5]
  kind = np.array([kind], np.int32)
  success = np.array([[True, True, False, False]])
  values = {
    'outcome': success.astype(np.float32),
    'success': success,
    'valid': np.ones((1, 4), bool),
    'kind': kind,
    'judged': (kind == SEARCH) & success[..., None],
    'signals': {
      'retrieval_useful': np.array([useful], np.float32),
      'reasoning_correct': np.array([correct], np.float32),
    },
  }
  return types.Scores(**(values | changes))


def test_alpha_one():
  # softmax(1, 0, 1) = e, 1, e over 2e + 1: .4223 .1554 .4223; times 3 A.
  actual = move(A, [1, 0, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1], alpha=1.0)
  np.testing.assert_allclose(
    actual, [1.0972, 0.4036, 1.0972, 0.8660], atol=5e-5
  )
  # Counting the answer as a fourth turn would give 4 A c_t.
  assert abs(actual[0] - 1.4630) > 0.3


@pytest.mark.parametrize(
  ('p', 'expected'),
  [
    ([1, 0, 1], [1.5 * A, 0, 1.5 * A]),
    ([0.3, 0.7, 0.3], [0, 3 * A, 0]),
    ([0, 0, 0], [A, A, A]),
    ([1, 1, 1], [A, A, A]),
  ],
)
def test_infinite_alpha_shares_among_the_best(p, expected):
  actual = move(A, [*p, 0], [1, 1, 1, 0], [0, 0, 0, 1], alpha=INF)
  np.testing.assert_allclose(actual, [*expected, A], rtol=1e-6)
  # The limit is approached from below.
  near = move(A, [*p, 0], [1, 1, 1, 0], [0, 0, 0, 1], alpha=1e4)
  np.testing.assert_allclose(actual, near, atol=1e-5)


@pytest.mark.parametrize(
  ('p', 'alpha', 'expected'),
  [
    ([0, 0, 0], INF, [0, 0, 0]),
    ([1, 0.5, 0], INF, [2 * A, A, 0]),  # p / sum(p), not the best alone
    ([1, 0.5, 0], 10.0, [2 * A, A, 0]),
    ([0, 0, 0], 9.9, [A, A, A]),  # below ten, the softmax
  ],
)
def test_released_arithmetic(p, alpha, expected):
  actual = move(
    A,
    [*p, 0],
    [1, 1, 1, 0],
    [0, 0, 0, 1],
    alpha=alpha,
    release_compatible=True,
  )
  np.testing.assert_allclose(actual, [*expected, A], rtol=1e-6)


@pytest.mark.parametrize('alpha', [0.0, 2.0, INF])
@pytest.mark.parametrize('release_compatible', [False, True])
def test_no_search_at_all_is_legal(alpha, release_compatible):
  actual = move(
    A,
    [0, 0, 0],
    [0, 0, 0],
    [1, 0, 0],
    alpha=alpha,
    release_compatible=release_compatible,
  )
  np.testing.assert_allclose(actual, [A, 0, 0])


def test_whatever_stands_off_the_search_turns_is_not_read():
  clean = move(A, [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], alpha=2.0)
  dirty = move(A, [1, 0, NAN, INF], [1, 1, 0, 0], [0, 0, 1, 0], alpha=2.0)
  np.testing.assert_array_equal(clean, dirty)


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
  turns=st.lists(
    st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=6, max_size=6
  ),
  alpha=st.one_of(st.floats(0, 1e4), st.just(INF)),
  advantage=st.floats(-3, 3, width=32, allow_subnormal=False),
)
def test_the_mean_over_searches_is_kept(turns, alpha, advantage):
  p, search = (list(column) for column in zip(*turns, strict=True))
  actual = move(advantage, p, search, np.logical_not(search), alpha=alpha)
  search = np.array(search)
  assert np.isfinite(actual).all()
  np.testing.assert_allclose(actual[~search], np.float32(advantage))
  if search.any():
    np.testing.assert_allclose(
      actual[search].mean(), advantage, rtol=1e-5, atol=1e-6
    )


@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(
  p=st.lists(st.floats(0, 1, width=32), min_size=3, max_size=3),
  alpha=st.one_of(st.floats(0, 100), st.just(INF)),
)
def test_padding_turns_changes_nothing(p, alpha):
  search, other = [1, 1, 0], [0, 0, 1]
  alone = move(A, p, search, other, alpha=alpha)
  pad = [0, 0, 0]
  padded = move(A, p + [0.9] * 3, search + pad, other + pad, alpha=alpha)
  np.testing.assert_allclose(padded, [*alone, 0, 0, 0], rtol=1e-6)


def test_a_group_from_raw_numbers():
  actual = cwgrpo.advantages(four_rollouts(), alpha=1.0)
  low, high = 2 * A / (1 + np.e), 2 * A * np.e / (1 + np.e)
  expected = [
    [1.0972, 0.4036, 1.0972, A, 0],
    [low, A, high, 0, 0],  # the malformed turn keeps A, K is 2
    [-A, -A, -A, 0, 0],
    [-A, 0, 0, 0, 0],
  ]
  np.testing.assert_allclose(actual[0], expected, atol=5e-5)


def test_failures_are_redistributed_on_request_only():
  judged = np.array(four_rollouts().kind == SEARCH)
  scores = four_rollouts(judged=judged)
  plain = cwgrpo.advantages(scores, alpha=1.0)
  np.testing.assert_allclose(plain[0, 2, :2], [-A, -A], rtol=1e-5)
  both = cwgrpo.advantages(scores, alpha=1.0, concentrate_failures=True)
  # p = 1, 0: the turn that contributed most takes most of the blame.
  e = np.e / (1 + np.e)
  np.testing.assert_allclose(
    both[0, 2, :2], [-2 * A * e, -2 * A * (1 - e)], rtol=1e-5
  )
  np.testing.assert_array_equal(both[0, :2], plain[0, :2])
  # Asked about successes only, the judge leaves failures uniform.
  unjudged = cwgrpo.advantages(four_rollouts(), concentrate_failures=True)
  np.testing.assert_allclose(unjudged[0, 2, :2], [-A, -A], rtol=1e-5)


@pytest.mark.parametrize('alpha', [2.0, INF])
@pytest.mark.parametrize('release_compatible', [False, True])
@pytest.mark.parametrize('how', ['flag', 'nan'])
def test_one_unjudged_search_makes_the_whole_trajectory_uniform(
  alpha, release_compatible, how
):
  scores = four_rollouts()
  if how == 'flag':
    scores.judged[0, 0, 1] = False
  else:
    scores.signals['retrieval_useful'][0, 0, 1] = NAN
  actual = cwgrpo.advantages(
    scores, alpha=alpha, release_compatible=release_compatible
  )
  np.testing.assert_allclose(actual[0, 0], [A, A, A, A, 0], rtol=1e-5)
  # The sibling's verdicts stand: its p is 0, 1.
  assert actual[0, 1, 2] > 1.5 * A


def test_partly_right_below_the_mean_is_not_redistributed():
  # Graded outcomes 1, .4, .4, .4: the second counts as a success with A < 0.
  # Redistributed, its useful turn would be punished most.
  scores = four_rollouts(outcome=np.array([[1, 0.4, 0.4, 0.4]], np.float32))
  actual = np.asarray(cwgrpo.advantages(scores))[0, 1]
  np.testing.assert_allclose(actual[0], actual[2])
  assert actual[0] < 0


def test_the_released_code_asks_for_the_sign_only():
  # A failure above the mean, judged: p = 1, 0.
  scores = four_rollouts(
    outcome=np.array([[1, 0, 0.9, 0]], np.float32),
    judged=np.array(four_rollouts().kind == SEARCH),
  )
  ours = np.asarray(cwgrpo.advantages(scores, alpha=INF))[0, 2]
  theirs = cwgrpo.advantages(scores, alpha=INF, release_compatible=True)[0, 2]
  assert ours[0] == ours[1] > 0
  np.testing.assert_allclose(theirs[:2], [2 * ours[0], 0], rtol=1e-5)


def test_ablations_read_one_verdict_each():
  useful = jnp.array([[[1.0, 1.0, 0.0, 1.0]]])
  correct = jnp.array([[[1.0, 0.0, 0.5, 1.0]]])
  search = jnp.array([[[True, True, True, False]]])
  arguments = (useful, correct, search)
  np.testing.assert_array_equal(
    cwgrpo.contributions(*arguments), [[[1, 0, 0, 0]]]
  )
  np.testing.assert_array_equal(
    cwgrpo.useful_alone(*arguments), [[[1, 1, 0, 0]]]
  )
  np.testing.assert_array_equal(
    cwgrpo.correct_alone(*arguments), [[[1, 0, 0.5, 0]]]
  )


def test_an_invalid_rollout_gets_nothing_and_harms_nobody():
  scores = four_rollouts(
    outcome=np.array([[1, NAN, 0, 1]], np.float32),
    success=np.array([[True, True, False, True]]),
    valid=np.array([[True, False, True, True]]),
  )
  actual = np.asarray(jax.jit(cwgrpo.advantages)(scores))
  assert np.isfinite(actual).all()
  assert not actual[0, 1].any()
  np.testing.assert_allclose(actual[0, 3, 0], 0.5773, atol=5e-5)


def test_baseline_is_a_choice():
  centred = functools.partial(grpo.advantages, normalize_std=False)
  actual = cwgrpo.advantages(four_rollouts(), alpha=0.0, baseline=centred)
  np.testing.assert_allclose(actual[0, 0], [0.5, 0.5, 0.5, 0.5, 0])


def test_errors_say_what_to_do():
  with pytest.raises(ValueError, match='turn judge'):
    cwgrpo.advantages(four_rollouts(signals={'em': np.zeros((1, 4, 5))}))
  for alpha in (-1.0, NAN):
    with pytest.raises(ValueError, match='from 0 to inf'):
      cwgrpo.advantages(four_rollouts(), alpha=alpha)
