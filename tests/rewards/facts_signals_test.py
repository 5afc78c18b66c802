# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What credit must know of the turns that tell facts: the signals."""

import numpy as np
import pytest

from searchrl_jax.rewards import facts, scoring
from tests.rewards.facts_test import (
  ACME,
  NOTHING,
  OSLO,
  ROME,
  Letters,
  answer,
  invalid,
  search,
  tell,
  trajectory,
)


def signals(*turns, extract=facts.asserted):
  group = [trajectory(*turns)]
  scores = scoring.score_outcomes([group], max_turns=len(turns) + 1)
  full = facts.add_facts(
    scores, [group], Letters(), max_facts=8, extract=extract
  )
  assert full.outcome is scores.outcome and full.kind is scores.kind
  assert {array.dtype for array in full.signals.values()} == {
    np.dtype(np.float32)
  }
  return {name: array[0, 0].tolist() for name, array in full.signals.items()}


def test_facts_are_read_from_the_latest_search_that_brought_something():
  found = signals(
    tell(ROME),  # out of thin air
    search('a'),
    tell(ROME),
    tell(ACME),  # the same passages are still there
    search('b', evidence=NOTHING),
    tell(OSLO),  # those of the first search are not
    search('c'),
    tell(),
    invalid(),
    tell(OSLO, ACME),
    answer(),
  )
  assert found['search_of_assert'] == (
    [-1, -1, 1, 1, -1, -1, -1, -1, -1, 6, -1, -1]
  )


def test_stated_facts_are_read_from_the_search_before_their_turn():
  found = signals(
    search('Ada employer'),
    search('Acme founder', thought='employer Acme'),  # read from turn 0
    answer(thought='founder Bob'),
    extract=facts.stated,
  )
  assert found['search_of_assert'] == [-1, 0, 1, -1]
  assert found['empty_answer'] == [0, 0, 0, 0]


def test_a_search_is_repeated_where_its_normal_form_was_asked():
  found = signals(
    search('Ada city'),
    search('Ada'),
    search('the ada  CITY!'),
    invalid(),
    search('Ada city'),
    search('!!!'),
    search('???'),  # empty in normal form, and not the same
  )
  assert found['repeated_search'] == [0, 0, 1, 0, 1, 0, 0, 0]


@pytest.mark.parametrize(
  ('turns', 'expected'),
  [
    ([answer()], [1, 0]),
    ([search(), answer()], [0, 1, 0]),
    ([tell(), answer()], [0, 1, 0]),  # an Assert without a triple
    ([tell(ROME), search(), answer()], [0, 0, 0, 0]),
    ([search(), search()], [0, 0, 0]),
  ],
)
def test_an_answer_from_an_empty_store(turns, expected):
  assert signals(*turns)['empty_answer'] == expected


def test_facts_join_the_signals_that_were_there():
  group = [trajectory(tell(ROME), answer())]
  scores = scoring.score_outcomes([group], max_turns=2)
  judged = scoring.add_verdicts(
    scores,
    [group],
    judge=lambda one: (scoring.judge.Verdict(1, 1),) * 2,
  )
  full = facts.add_facts(judged, [group], Letters(), max_facts=2)
  assert full.signals.keys() == {
    'retrieval_useful',
    'reasoning_correct',
    'search_of_assert',
    'repeated_search',
    'empty_answer',
  }
  assert full.facts['mask'].tolist() == [[True, False]]
