# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Lock step: all speak together, and reading again changes nothing."""

import dataclasses

import jax
import numpy as np
import pytest

from benchmarks.lock_step import InStep, LockStep
from benchmarks.workload import Scripted, Searches, Texts, Workload
from searchrl_jax.models import decoder
from searchrl_jax.rollout import engine
from searchrl_jax.rollout.policy import Asked, Said
from searchrl_jax.types import Question, Sampling
from tests.benchmarks.models_test import TINY

WORKLOAD = Workload(
  prompt=6, shortest=2, longest=7, reply=9, searches=2, group=2
)
QUESTIONS = [Question(f'q{i}', '', ()) for i in range(3)]
CONFIG = dataclasses.replace(TINY.decoder, embedding_std=0.5)


def asked(id, context=(1, 2), sharing=1, **other):
  question = Question('q', '', ())
  return Asked(id, question, id, (), context, 3, sharing, **other)


class Mute(InStep):
  """Says nothing, and remembers who spoke together."""

  def __init__(self, rows):
    super().__init__(rows)
    self.spoke = []

  def _draw(self, asked, *, fresh):
    self.spoke.append((fresh, {row: one.id for row, one in asked.items()}))
    return [Said(np.zeros(0, np.int32), np.zeros(0), True) for _ in asked]

  def _forget(self):
    pass


def test_all_wait_for_the_slowest_and_the_next_for_the_last():
  policy = Mute(rows=2)
  for id in (7, 8, 9):
    policy.ask(asked(id))
  assert [one.id for one, _ in policy.advance()] == [7, 8]
  policy.ask(asked(8))
  assert not policy.busy and policy.advance() == []  # 7 has not asked
  policy.ask(asked(7))
  policy.advance()
  policy.release(7)
  assert not policy.busy  # 9 waits for 8
  policy.release(8)
  assert policy.busy
  policy.advance()
  assert policy.spoke == [
    (True, {0: 7, 1: 8}),
    (False, {1: 8, 0: 7}),
    (True, {0: 9}),
  ]


def lock_step(*, again, rows=4):
  policy = LockStep(
    decoder.make_model(CONFIG),
    Texts(CONFIG.vocabulary),
    (),
    rows=rows,
    capacity=WORKLOAD.capacity,
    max_new_tokens=WORKLOAD.longest,
    again=again,
  )
  policy.load(decoder.make_model(CONFIG).init(jax.random.key(0)))
  policy.use(Sampling(), jax.random.key(3))
  return policy


def play(policy):
  return engine.rollout(
    Scripted(policy, WORKLOAD),
    Searches(WORKLOAD),
    QUESTIONS,
    lambda requests: [()] * len(requests),
    Texts(CONFIG.vocabulary),
    group=2,
    limits=WORKLOAD.limits,
  )


def test_reading_all_again_gives_the_same_tokens_and_costs_more():
  once, again = lock_step(again=False), lock_step(again=True)
  rows = zip(
    (one.rows[0] for group in play(once) for one in group),
    (one.rows[0] for group in play(again) for one in group),
    strict=True,
  )
  read_again = 0
  for row, other in rows:
    np.testing.assert_array_equal(row.tokens, other.tokens)
    np.testing.assert_allclose(row.logps, other.logps, atol=1e-5)
    assert len(set(row.tokens[row.sampled].tolist())) > 3
    # Everything before the first token of each turn.
    starts = (np.flatnonzero(row.turn_id == turn)[0] for turn in range(3))
    read_again += sum(starts)
  # A prompt once for two rollouts, two replies for each.
  assert once.counters.prefilled_tokens == 3 * 6 + 6 * 2 * 9
  assert again.counters.prefilled_tokens == read_again


def test_a_context_that_differs_is_read_from_where_it_does():
  contexts = ([5, 6, 7], [5, 6, 9, 9], [5], [5])
  said = {}
  for again in (False, True):
    policy, said[again] = lock_step(again=again, rows=1), []
    for context in contexts:
      policy.ask(asked(0, context))
      ((_, turn),) = policy.advance()
      said[again].append(turn.tokens.tolist())
    # 3, then 9 9, then the 5 again for the state after it, twice.
    read = policy.counters.prefilled_tokens
    assert read == (9 if again else 3 + 2 + 1 + 1)
  assert said[False] == said[True]


def test_what_lock_step_cannot_do_is_refused():
  with pytest.raises(ValueError, match='asides'):
    lock_step(again=True).ask(asked(0, aside=1, sampling=Sampling()))
  policy = lock_step(again=False)
  policy.ask(asked(0, sharing=3))
  with pytest.raises(ValueError, match=r'4 rows .* groups of 3'):
    policy.advance()
