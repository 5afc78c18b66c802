# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Drawing tokens: distribution, truncation, keys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.rollout.sampling import (
  Draws,
  question_hash,
  row_keys,
  sample,
  truncates,
)
from searchrl_jax.types import Question, Sampling

LOGITS_V = jnp.log(jnp.array([0.5, 0.25, 0.125, 0.0625, 0.0625]))


def draw(count, sampling, logits_V=LOGITS_V):
  keys_R = jax.random.split(jax.random.key(0), count)
  logits_RV = jnp.tile(logits_V[None], (count, 1))
  positions_R = jnp.full(count, 3)
  draws = Draws.of([sampling] * count)
  return sample(logits_RV, keys_R, positions_R, draws, truncates(sampling))


def test_frequencies_follow_the_probabilities():
  tokens_R, logps_R = draw(20_000, Sampling())
  share = np.bincount(tokens_R, minlength=5) / 20_000
  # Standard error of a share of .5 over 20,000 draws: .0035.
  np.testing.assert_allclose(share, np.exp(LOGITS_V), atol=0.0120)
  np.testing.assert_allclose(logps_R, LOGITS_V[tokens_R], rtol=1e-6)


def test_temperature_zero_is_greedy_with_the_log_prob_of_temperature_one():
  tokens_R, logps_R = draw(7, Sampling(temperature=0))
  assert tokens_R.tolist() == [0] * 7
  np.testing.assert_allclose(logps_R, np.log(0.5), rtol=1e-6)


def test_temperature_sharpens_and_is_part_of_the_log_prob():
  # At temperature 1/2 probabilities are squared: .25/.25+.0625+... = .7356.
  _, logps_R = draw(4000, Sampling(temperature=0.5))
  p = np.exp(2 * np.asarray(LOGITS_V))
  np.testing.assert_allclose(logps_R.max(), np.log(p[0] / p.sum()), rtol=1e-5)


@pytest.mark.parametrize(
  'sampling, kept',
  [
    (Sampling(top_k=2), {0, 1}),
    (Sampling(top_k=9), {0, 1, 2, 3, 4}),  # more than there are
    (Sampling(top_p=0.5), {0}),
    (Sampling(top_p=0.51), {0, 1}),
    (Sampling(top_p=0.9), {0, 1, 2, 3, 4}),  # the tie at the edge stays whole
    # Of the three likeliest, renormalised: .571, .286, .143.
    (Sampling(top_k=3, top_p=0.8), {0, 1}),
    (Sampling(top_k=3, top_p=0.9), {0, 1, 2}),
  ],
)
def test_truncation_keeps_exactly_these(sampling, kept):
  tokens_R, logps_R = draw(4000, sampling)
  assert set(tokens_R.tolist()) == kept
  # The log-prob is that of the whole distribution, as the learner sees it.
  np.testing.assert_allclose(logps_R, LOGITS_V[tokens_R], rtol=1e-6)


def test_impossible_tokens_are_never_drawn():
  logits_V = jnp.array([-jnp.inf, 0.0, -jnp.inf, 0.0, -jnp.inf])
  tokens_R, _ = draw(4000, Sampling(), logits_V)
  assert set(tokens_R.tolist()) == {1, 3}


def test_a_row_draws_the_same_wherever_it_sits():
  key = jax.random.key(5)
  a = row_keys(
    key, jnp.uint32([7, 8, 9]), jnp.uint32([0, 1, 2]), jnp.uint32([3, 3, 3])
  )
  b = row_keys(key, jnp.uint32([9]), jnp.uint32([2]), jnp.uint32([3]))
  assert (
    jax.random.key_data(a[2]).tolist() == jax.random.key_data(b[0]).tolist()
  )


def test_keys_differ_by_question_rollout_and_turn():
  one = row_keys(
    jax.random.key(5),
    jnp.uint32([7, 8, 7, 7]),
    jnp.uint32([0, 0, 1, 0]),
    jnp.uint32([0, 0, 0, 1]),
  )
  assert len({tuple(k) for k in jax.random.key_data(one).tolist()}) == 4
  assert question_hash(Question('a', '', ())) != question_hash(
    Question('b', '', ())
  )
  # What a policy asks itself within a turn is drawn apart from the turn.
  question = Question('a', '', ())
  assert len({question_hash(question, aside) for aside in range(4)}) == 4


def test_rows_of_one_batch_are_drawn_differently():
  """Greedy, cold, truncated and plain rows: each as if it were alone."""
  samplings = [
    Sampling(temperature=0),
    Sampling(temperature=0.5),
    Sampling(top_k=2),
    Sampling(top_p=0.51),
    Sampling(),
  ]
  keys_R = jax.random.split(jax.random.key(1), len(samplings) * 40)
  mixed = sample(
    jnp.tile(LOGITS_V[None], (len(keys_R), 1)),
    keys_R,
    jnp.arange(len(keys_R)),
    Draws.of(samplings * 40),
    True,
  )
  for i, sampling in enumerate(samplings):
    own = slice(i, None, len(samplings))
    alone = sample(
      jnp.tile(LOGITS_V[None], (40, 1)),
      keys_R[own],
      jnp.arange(len(keys_R))[own],
      Draws.of([sampling] * 40),
      truncates(sampling),
    )
    for together, apart in zip(mixed, alone, strict=True):
      np.testing.assert_array_equal(together[own], apart)
