# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""An expert, played through the real tool loop, becomes supervised data."""

import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.rollout.engine import Limits
from searchrl_jax.testing import (
  DictionarySearch,
  Notebook,
  Script,
  ToyTokenizer,
)
from searchrl_jax.training import aggregation, losses
from searchrl_jax.training.clock import Clock
from searchrl_jax.training.demonstrations import Demonstrations, imitating
from searchrl_jax.training.sources import Packing
from searchrl_jax.types import Action, Kind, Lesson, Question

TOY = ToyTokenizer(('note ', 'answer '))


def lesson(name, *actions, asked):
  """A lesson that writes down what it was asked for."""

  def questions(step, count):
    asked.append((name, step, count))
    return [Question(f'{name}{i}', name, ('yes',)) for i in range(count)]

  return Lesson(
    name, Notebook(), Script(actions), DictionarySearch({}), questions
  )


NOTE = Action(Kind.ASSERT, {'triples': ['x']})
YES = Action(Kind.ANSWER, {'answer': 'yes'})


@pytest.fixture
def asked():
  return []


@pytest.fixture
def source(asked):
  return Demonstrations(
    [lesson('a', YES, asked=asked), lesson('b', NOTE, YES, asked=asked)],
    questions=6,
    tokenizer=TOY,
    limits=Limits(max_new_tokens=20, max_tokens=40, context=40),
    packing=Packing(length=40, multiple=4),
    clock=Clock(),
  )


def segments(batch):
  """(text given, text sampled) of every segment."""
  found = []
  for n in range(len(batch.tokens)):
    for segment in range(1, batch.segment_ids[n].max() + 1):
      at = batch.segment_ids[n] == segment
      sampled = batch.sampled[n]
      found.append(
        (
          TOY.decode(batch.tokens[n][at & ~sampled]),
          TOY.decode(batch.tokens[n][at & sampled]),
        )
      )
  return found


def test_what_the_expert_says_is_sampled_and_nothing_else(source):
  collected = source.collect(1, params=None)
  assert sorted(segments(collected.batch)) == sorted(
    [('a|', 'answer yes.')] * 3
    + [('b|', 'note x.')] * 3
    + [('b|x|', 'answer yes.')] * 3
  )


def test_the_advantage_is_one_on_what_the_expert_said(source):
  collected = source.collect(1, params=None)
  batch, targets = collected.batch, collected.targets
  ones = batch.sampled.astype(np.float32)
  np.testing.assert_array_equal(targets.advantage, ones)
  np.testing.assert_array_equal(targets.weight, ones)
  for certain in (batch.sampler_logps, targets.old_logps, targets.ref_logps):
    assert not certain.any()
  assert {x.shape for x in (targets.old_logps, ones)} == {batch.tokens.shape}


def test_lessons_have_equal_shares_and_are_told_the_step(source, asked):
  source.collect(1, params=None)
  source.collect(7, params=None)
  assert asked == [('a', 1, 3), ('b', 1, 3), ('a', 7, 3), ('b', 7, 3)]


def test_trajectories_of_all_lessons_are_numbered_through(source):
  batch = source.collect(1, params=None).batch
  assert set(batch.trajectory_id[batch.sampled]) == set(range(6))


def test_tokens_are_counted_by_who_made_them(source):
  """Sampled: 'answer yes.' 5 tokens, 'note x.' 3. Given: 'a|' 2, 'b|x|' 4."""
  metrics = source.collect(1, params=None).metrics
  assert metrics['sampled_tokens'] == (3 * 5 + 3 * (3 + 5)) / 6
  assert metrics['given_tokens'] == (3 * 2 + 3 * (2 + 4)) / 6


def test_a_learner_is_not_compared_with_a_script(source):
  """Log-probs of -3: a KL of e^3 - 4, clamped to 10, and a gap of 3 nats."""
  loss = losses.make_loss(
    losses.LossConfig(
      surrogate='likelihood', kl='none', aggregation='token_mean'
    )
  )

  def update(state, batch, targets):
    counts = aggregation.count(batch, targets)
    scores = jnp.full(batch.tokens.shape, -3.0)
    return state, loss(scores, -scores, batch, targets, counts)[1]

  collected = source.collect(1, params=None)
  data = collected.batch, collected.targets
  _, whole = update(0, *data)
  np.testing.assert_allclose(
    [whole['kl'], whole['sampler_learner_gap']], [10, 3], rtol=1e-5
  )
  state, metrics = imitating(update)(7, *data)
  assert state == 7
  for name in ('kl', 'sampler_learner_gap', 'ratio_max', 'clip_low_fraction'):
    assert name not in metrics
  for name, value in (('loss', 3), ('logp', -3), ('entropy', 3)):
    np.testing.assert_allclose(metrics[name], value, rtol=1e-5)
