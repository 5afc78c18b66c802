# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The plain numbers of a batch, on trajectories that can be counted."""

import dataclasses
import json

import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.rewards import format, measures, scoring

SEARCH, ANSWER, INVALID = (
  types.Kind.SEARCH,
  types.Kind.ANSWER,
  types.Kind.INVALID,
)
NAMES = {SEARCH: 'query', ANSWER: 'answer', INVALID: 'why'}


def turn(kind, argument, **fields):
  action = types.Action(kind, {NAMES[kind]: argument, 'thought': 'hm'})
  span = types.Span(0, 0, 1)
  return types.Turn(action, '', '', (), span, 0.0, **fields)


def trajectory(*turns, status=types.Status.ANSWERED):
  question = types.Question('q', 'Where?', ('Rome',))
  return types.Trajectory(question, 0, '', turns, (), status)


GROUPS = [
  [
    trajectory(
      turn(SEARCH, 'Ada city'),
      turn(SEARCH, 'the ada  CITY'),  # the same query, normalised
      turn(SEARCH, 'Ada', failures=('timeout',)),
      turn(ANSWER, 'Rome'),
    ),
    trajectory(turn(ANSWER, 'Rome')),
  ],
  [
    trajectory(turn(SEARCH, 'Ada city'), turn(ANSWER, 'Rome or Oslo')),
    trajectory(
      turn(INVALID, 'why'),
      turn(INVALID, 'why', clipped=True),
      turn(SEARCH, 'Ada'),
      status=types.Status.TURN_LIMIT,
    ),
  ],
]
SCORES = scoring.score_outcomes(GROUPS, max_turns=4)


def with_signals(useful, correct, judged=True):
  """Signals set on all search turns, from rows of `[B, G, S]`."""
  search_BGS = SCORES.kind == SEARCH
  return dataclasses.replace(
    SCORES,
    judged=search_BGS & judged,
    signals={
      'retrieval_useful': np.array(useful, np.float32),
      'reasoning_correct': np.array(correct, np.float32),
    },
  )


def test_counts_by_hand():
  numbers = measures.measure(GROUPS, SCORES)
  # Four trajectories; F1 of "Rome or Oslo" is 1/2.
  assert numbers == pytest.approx(
    {
      'reward': 2 / 4,
      'invalid_fraction': 0,
      'em': 2 / 4,
      'f1': 2.5 / 4,
      'containment': 3 / 4,
      'answered': 3 / 4,
      'searches': (3 + 0 + 1 + 1) / 4,
      'useless_searches_per_success': None,
      'malformed': 2 / 4,
      'failed_tools': 1 / 4,
      'repeated_queries': 1 / 4,  # never across trajectories
      'clipped_fraction': 1 / 4,
      'format_rate': 3 / 4,
    }
  )
  assert json.loads(json.dumps(numbers)) == numbers


def test_useless_searches_are_counted_in_successes_only():
  useful = [[[1, 0, 1, 0], [0] * 4], [[0] * 4, [0] * 4]]
  correct = [[[1, 1, 0, 0], [0] * 4], [[0] * 4, [0] * 4]]
  # Two successes: one with p = 1, 0, 0, one without any search.
  assert measures.useless_searches(with_signals(useful, correct)) == 2 / 2


def test_a_success_that_was_not_judged_whole_is_left_out():
  judged = np.ones((2, 2, 4), bool)
  judged[0, 0, 1] = False
  zeros = np.zeros((2, 2, 4))
  scores = with_signals(zeros, zeros, judged)
  assert measures.useless_searches(scores) == 0 / 1


def test_without_success_the_number_is_not_defined():
  zeros = np.zeros((2, 2, 4))
  scores = with_signals(zeros, zeros)
  none = dataclasses.replace(scores, success=np.zeros((2, 2), bool))
  assert measures.useless_searches(none) is None


def test_without_a_valid_outcome_there_is_no_reward():
  none = dataclasses.replace(SCORES, valid=np.zeros((2, 2), bool))
  assert measures.measure(GROUPS, none)['reward'] is None


def test_em_is_exact_match_whatever_counts_as_a_success():
  half = scoring.success_by_f1(0.5)
  scores = scoring.score_outcomes(GROUPS, max_turns=4, success=half)
  assert scores.success.mean() == 3 / 4  # "Rome or Oslo" is one now
  numbers = measures.measure(GROUPS, scores)
  assert numbers == measures.measure(GROUPS, SCORES)
  assert numbers['em'] == 2 / 4


def test_form_is_the_environments_own():
  silent = types.Turn(
    types.Action(ANSWER, {'answer': 'Rome'}),
    *('', '', (), types.Span(0, 0, 1), 0.0),
  )
  groups = [[trajectory(silent), GROUPS[1][1]]]
  scores = scoring.score_outcomes(groups, max_turns=4)
  rates = [
    measures.measure(groups, scores, formed=formed)['format_rate']
    for formed in (format.well_formed, format.legal)
  ]
  assert rates == [0, 1 / 2]
  assert measures.measure(groups, scores)['format_rate'] == 0
