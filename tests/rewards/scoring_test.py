# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Groups become arrays of one shape, success is decided once."""

import math

import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.rewards import facts, format, judge, measures, scoring

SEARCH, ANSWER, INVALID = (
  types.Kind.SEARCH,
  types.Kind.ANSWER,
  types.Kind.INVALID,
)
LIMIT = types.Status.TURN_LIMIT


def turn(kind, argument, thought='hm', **fields):
  name = {SEARCH: 'query', ANSWER: 'answer', INVALID: 'why'}[kind]
  action = types.Action(kind, {name: argument, 'thought': thought})
  settings = {'text': '', 'reply': '', 'evidence': (), 'seconds': 0.0}
  return types.Turn(action, span=types.Span(0, 0, 1), **(settings | fields))


def trajectory(*turns, gold=('Rome',), status=types.Status.ANSWERED):
  question = types.Question('q', 'Where?', gold)
  return types.Trajectory(question, 0, '', turns, (), status)


def search(query='x', **fields):
  return turn(SEARCH, query, **fields)


def answer(text='Rome', **fields):
  return turn(ANSWER, text, **fields)


def marked(trajectory):
  """A judge that reads its verdict off the query: "11", "01", "?" = none."""
  verdicts = []
  for one in trajectory.turns:
    mark = one.action.arguments.get('query', '?')
    verdict = judge.NO_VERDICT
    if mark != '?':
      verdict = judge.Verdict(float(mark[0]), float(mark[1]))
    verdicts.append(verdict)
  return tuple(verdicts)


def test_shapes_do_not_depend_on_the_longest_trajectory():
  groups = [
    [trajectory(answer()), trajectory(search(), search(), answer('Oslo'))],
    [trajectory(turn(INVALID, 'w'), search(), status=LIMIT)] * 2,
  ]
  scores = scoring.score_outcomes(groups, max_turns=5)
  assert scores.kind.dtype == np.int32 and scores.outcome.dtype == np.float32
  np.testing.assert_array_equal(
    scores.kind,
    [
      [[5, 0, 0, 0, 0], [1, 1, 5, 0, 0]],
      [[6, 1, 0, 0, 0], [6, 1, 0, 0, 0]],
    ],
  )
  np.testing.assert_array_equal(scores.outcome, [[1, 0], [0, 0]])
  np.testing.assert_array_equal(scores.success, [[True, False], [False] * 2])
  assert scores.valid.all() and not scores.judged.any()
  assert scores.signals == {}


def test_only_the_final_answer_counts():
  # The gold stands in a query, a thought and a passage, and is not the answer.
  page = types.Document('0', 'Rome', 'Rome')
  evidence = (types.Evidence('external', 'Rome', (page,)),)
  loud = trajectory(
    search('Rome', evidence=evidence), answer('Oslo', thought='Rome')
  )
  cut = trajectory(search('Rome', evidence=evidence), status=LIMIT)
  right = trajectory(search('Oslo'), answer('the Rome!'))
  scores = scoring.score_outcomes([[loud, cut, right]], max_turns=3)
  np.testing.assert_array_equal(scores.success, [[False, False, True]])


def test_outcomes_change_the_reward_and_never_success():
  group = [
    trajectory(answer()),  # well-formed
    trajectory(answer('Rome or Oslo')),  # well-formed, F1 1/2
    trajectory(answer(thought='')),  # right, without a thought
  ]

  def outcome(function):
    scores = scoring.score_outcomes([group], max_turns=1, outcome=function)
    np.testing.assert_array_equal(scores.success, [[True, False, True]])
    return scores.outcome.tolist()

  assert outcome(scoring.exact) == [[1, 0, 1]]
  assert outcome(scoring.token_f1) == [[1, 0.5, 1]]
  formed = scoring.with_format(scoring.token_f1, 0.25)
  assert outcome(formed) == [[1.25, 0.75, 1]]


def test_an_outcome_that_is_no_number_is_invalid_and_not_zero():
  def fails_on_oslo(one):
    return math.nan if one.answer == 'Oslo' else scoring.exact(one)

  group = [trajectory(answer('Oslo')), trajectory(answer())]
  scores = scoring.score_outcomes([group], max_turns=1, outcome=fails_on_oslo)
  np.testing.assert_array_equal(scores.valid, [[False, True]])
  assert np.isfinite(scores.outcome).all()
  numbers = measures.measure([group], scores)
  assert numbers['reward'] == 1 and numbers['invalid_fraction'] == 0.5


def outcomes(rule, *trajectories):
  return [rule(one) for one in trajectories]


def test_form_is_the_environments_own():
  group = [trajectory(answer(thought='')), trajectory(answer('Oslo'))]
  thoughts = scoring.with_format(scoring.exact, 0.5)
  assert outcomes(thoughts, *group) == [1, 0.5]
  actions = scoring.with_format(scoring.exact, 0.5, format.legal)
  assert outcomes(actions, *group) == [1.5, 0.5]


def test_an_answer_from_an_empty_store_is_worth_nothing():
  fact = types.Action(types.Kind.ASSERT, {'triples': [['a', 'b', 'c']]})
  told = types.Turn(fact, '', '', (), types.Span(0, 0, 1), 0.0)
  nothing = types.Action(types.Kind.ASSERT, {'triples': []})
  empty = types.Turn(nothing, '', '', (), types.Span(0, 0, 1), 0.0)
  group = [
    trajectory(told, answer()),
    trajectory(told, search(), answer('Rome or Oslo')),
    trajectory(answer()),
    trajectory(search(), empty, answer('Rome or Oslo')),
  ]
  assert outcomes(scoring.token_f1, *group) == [1, 0.5, 1, 0.5]
  rule = scoring.empty_store_fails(scoring.token_f1, facts.asserted)
  assert outcomes(rule, *group) == [1, 0.5, 0, 0]
  # The weight for form counts within it, and is lost with the rest.
  formed = scoring.with_format(scoring.exact, 0.25, format.legal)
  rule = scoring.empty_store_fails(formed, facts.asserted)
  assert outcomes(rule, *group) == [1.25, 0.25, 0, 0]


def test_the_empty_store_rule_speaks_of_answers_that_can_be_scored():
  cut = trajectory(search(), status=LIMIT)
  rule = scoring.empty_store_fails(lambda one: 0.25, facts.asserted)
  assert rule(cut) == 0.25  # it gave no answer
  unknown = scoring.empty_store_fails(lambda one: math.nan, facts.asserted)
  assert math.isnan(unknown(trajectory(answer())))


def test_success_may_be_an_f1_while_the_reward_is_another():
  # "Rome or Oslo" has F1 2 * 1 / (3 + 1) = 1/2, "Rome Italy" 2/3.
  group = [
    trajectory(answer('Rome or Oslo')),
    trajectory(answer('Rome Italy')),
    trajectory(answer()),
    trajectory(search(), status=LIMIT),
  ]

  def successes(success):
    scores = scoring.score_outcomes([group], max_turns=1, success=success)
    np.testing.assert_array_equal(scores.outcome, [[0, 0, 1, 0]])
    return scores.success.tolist()

  assert successes(scoring.succeeded) == [[False, False, True, False]]
  assert successes(scoring.success_by_f1(0.5)) == [[True, True, True, False]]
  assert successes(scoring.success_by_f1(0.6)) == [[False, True, True, False]]
  assert successes(scoring.success_by_f1(1)) == [[False, False, True, False]]


@pytest.mark.parametrize('threshold', [0, -0.5, 1.1, math.nan])
def test_a_threshold_that_decides_nothing_is_refused(threshold):
  with pytest.raises(ValueError, match=r'must be in \(0, 1\]'):
    scoring.success_by_f1(threshold)


def test_verdicts_land_on_their_turns():
  group = [
    trajectory(search('11'), search('?'), search('01'), answer()),
    trajectory(search('10'), answer('Oslo')),
  ]
  scores = scoring.score_outcomes([group], max_turns=4)
  full = scoring.add_verdicts(scores, [group], judge=marked)
  np.testing.assert_array_equal(full.judged, [[[1, 0, 1, 0], [1, 0, 0, 0]]])
  np.testing.assert_array_equal(
    full.signals['retrieval_useful'], [[[1, 0, 0, 0], [1, 0, 0, 0]]]
  )
  np.testing.assert_array_equal(
    full.signals['reasoning_correct'], [[[1, 0, 1, 0], [0, 0, 0, 0]]]
  )
  # The outcome part is untouched.
  assert full.outcome is scores.outcome and full.kind is scores.kind
  spared = scoring.add_verdicts(
    scores, [group], judge=marked, only_successful=True
  )
  np.testing.assert_array_equal(spared.judged, [[[1, 0, 1, 0], [0, 0, 0, 0]]])


def test_a_question_without_hops_needs_a_judge_that_reads():
  group = [trajectory(answer())]
  scores = scoring.score_outcomes([group], max_turns=1)  # enough for GRPO
  with pytest.raises(ValueError, match='it needs a judge'):
    scoring.add_verdicts(scores, [group], judge=judge.GroundTruth())


def test_errors_say_what_to_do():
  long = [trajectory(search(), search(), answer())]
  with pytest.raises(ValueError, match='3 turns, more than max_turns = 2'):
    scoring.score_outcomes([long], max_turns=2)
  with pytest.raises(ValueError, match=r'not of sizes \[1, 2\]'):
    scoring.score_outcomes([long, long * 2], max_turns=3)
  scores = scoring.score_outcomes([long], max_turns=3)
  with pytest.raises(ValueError, match='0 verdicts on a trajectory of 3 turns'):
    scoring.add_verdicts(scores, [long], judge=lambda one: ())
