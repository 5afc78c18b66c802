# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The tool loop: limits, and what the world says."""

import dataclasses
import json

import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.environments import wording
from searchrl_jax.rewards import measures, scoring
from searchrl_jax.rollout.policy import ScriptPolicy
from searchrl_jax.testing import Script
from searchrl_jax.types import Action, Kind, Status

ANSWER = '<answer>a word</answer>'


def sampled(row, turn):
  return row.tokens[row.turn_id == turn].tolist()


# --- limits ------------------------------------------------------------------


def test_a_turn_cut_by_its_limit_is_marked_and_the_trajectory_goes_on(stage):
  limits = dataclasses.replace(stage.limits, max_new_tokens=10)
  trajectory = stage.one(
    '<search>' + 'x' * 30, '<search>hello</search>', limits=limits
  )
  first = trajectory.turns[0]
  assert first.clipped
  assert first.action.kind == Kind.INVALID
  assert first.reply == wording.WORDS.invalid
  assert len(sampled(trajectory.rows[0], 0)) == 10
  assert trajectory.rows[0].sampled[first.span.start : first.span.stop].all()
  assert trajectory.turns[1].action.kind == Kind.SEARCH
  assert not trajectory.turns[1].clipped
  assert trajectory.clipped


def test_the_budget_of_a_trajectory_spans_its_turns(stage, spoken):
  """Turns of 8 bytes: 20 tokens are 8, 8 and 4."""
  environment = dataclasses.replace(stage.environment, max_turns=9)
  limits = dataclasses.replace(stage.limits, max_tokens=20)
  policy = spoken([stage.toy.encode('xxxxxxxx')])
  ((trajectory,),) = stage.play(policy, limits=limits, environment=environment)
  assert policy.budgets == [20, 12, 4]
  assert [turn.clipped for turn in trajectory.turns] == [False, False, True]
  assert trajectory.status == Status.TOKEN_LIMIT
  assert trajectory.rows[0].sampled.sum() == 20
  assert trajectory.turns[-1].reply == ''
  assert trajectory.rows[0].sampled[-1]  # no reply after the last turn


def test_a_budget_spent_exactly_by_a_whole_turn_ends_the_trajectory(stage):
  environment = dataclasses.replace(stage.environment, max_turns=9)
  limits = dataclasses.replace(stage.limits, max_tokens=16)
  trajectory = stage.one('xxxxxxxx', limits=limits, environment=environment)
  assert trajectory.status == Status.TOKEN_LIMIT
  assert [turn.clipped for turn in trajectory.turns] == [False, False]


def test_a_reply_that_does_not_fit_is_not_recorded(stage):
  text = '<search>hello</search>'
  prompt = len(stage.toy.encode('question what '))
  said = len(stage.toy.encode(text))
  reply = len(stage.toy.encode(' <information> a word </information> '))
  for context, status in (
    (prompt + said + reply, Status.CONTEXT_LIMIT),  # no room for a next token
    (prompt + said + reply + 1, Status.TURN_LIMIT),
  ):
    limits = dataclasses.replace(stage.limits, context=context)
    environment = dataclasses.replace(stage.environment, max_turns=1)
    trajectory = stage.one(text, 'x', limits=limits, environment=environment)
    assert trajectory.status == status
    ended = status == Status.CONTEXT_LIMIT
    assert trajectory.clipped == ended
    assert len(trajectory.turns) == (1 if ended else 2)
    assert bool(trajectory.turns[0].reply) != ended
    assert trajectory.turns[0].evidence  # it was found all the same
    assert len(trajectory.rows[0].tokens) == (
      prompt + said if ended else context
    )


def test_a_turn_never_outgrows_the_context(stage, spoken):
  prompt = len(stage.toy.encode('question what '))
  limits = dataclasses.replace(stage.limits, context=prompt + 5)
  policy = spoken([stage.toy.encode('x' * 9)])
  ((trajectory,),) = stage.play(policy, limits=limits)
  assert policy.budgets == [5]
  assert trajectory.turns[0].clipped
  assert trajectory.status == Status.CONTEXT_LIMIT


def test_a_prompt_without_room_names_its_question(stage):
  # The prompt is 'question what ', 14 bytes.
  limits = dataclasses.replace(stage.limits, context=14)
  with pytest.raises(ValueError, match=r"question 'q' has 14 tokens") as error:
    stage.one('x', limits=limits)
  assert '\n' not in str(error.value)
  trajectory = stage.one(
    'x', limits=dataclasses.replace(stage.limits, context=15)
  )
  assert trajectory.rows[0].sampled.sum() == 1


def test_one_query_for_ever_ends_by_the_turn_limit_with_its_repeats_counted(
  stage, spoken
):
  groups = stage.play(spoken([stage.toy.encode('<search>hello</search>')]))
  ((trajectory,),) = groups
  assert trajectory.status == Status.TURN_LIMIT
  assert trajectory.answer is None
  # Three turns that search, and a last one whose search is not carried out.
  assert [turn.action.kind for turn in trajectory.turns] == [Kind.SEARCH] * 4
  assert [bool(turn.evidence) for turn in trajectory.turns] == [1, 1, 1, 0]
  scores = scoring.score_outcomes(groups, max_turns=stage.environment.all_turns)
  assert measures.measure(groups, scores)['repeated_queries'] == 3


# --- the world ---------------------------------------------------------------


def test_a_failed_request_touches_one_turn_of_one_row(stage, spoken):
  good = [stage.toy.encode('<search>hello</search>'), stage.toy.encode(ANSWER)]
  bad = [stage.toy.encode('<search>broken</search>'), *good]
  groups = stage.play(spoken(good, bad, good), group=3)
  first, failed, last = groups[0]
  assert failed.turns[0].failures == ('the search engine did not answer.',)
  assert failed.turns[0].evidence == ()
  assert wording.WORDS.failed in failed.turns[0].reply
  assert failed.turns[1].failures == ()  # it went on, and found it
  assert failed.turns[1].evidence
  assert failed.answer == 'a word'
  for other in (first, last):
    assert not any(turn.failures for turn in other.turns)
    assert other.turns[0].reply == failed.turns[1].reply
    assert other.answer == 'a word'


def test_a_failed_tool_ends_the_trajectory_where_so_configured(stage):
  environment = dataclasses.replace(stage.environment, stop_at_failed_tool=True)
  trajectory = stage.one('<search>broken</search>', environment=environment)
  assert trajectory.status == Status.STOPPED_TOOL
  assert len(trajectory.turns[0].failures) == 1


def test_requests_of_a_tick_are_resolved_in_one_call(stage, spoken):
  calls = []

  def resolve(requests):
    calls.append([request.query for request in requests])
    return stage.resolve(requests)

  a = [
    stage.toy.encode('<search>a</search>'),
    stage.toy.encode('<search>c</search>'),
  ]
  b = [stage.toy.encode('<search>b</search>'), stage.toy.encode(ANSWER)]
  c = [stage.toy.encode('nothing'), stage.toy.encode(ANSWER)]
  stage.play(spoken(a, b, c), group=3, resolve=resolve)
  # Row 0 repeats its last query; its fourth search is not carried out.
  assert calls == [['a', 'b'], ['c'], ['c']]


def test_rollouts_of_a_question_share_nothing_that_changes(stage, spoken):
  hello, ended = (
    stage.toy.encode('<search>hello</search>'),
    stage.toy.encode(ANSWER),
  )
  groups = stage.play(spoken([hello, ended], [ended]), group=2)
  long, short = groups[0]
  alone = stage.one(ANSWER)
  assert (len(long.turns), len(short.turns)) == (2, 1)
  assert short.turns[0].text == alone.turns[0].text
  np.testing.assert_array_equal(short.rows[0].tokens, alone.rows[0].tokens)
  assert long.rows[0].tokens is not short.rows[0].tokens
  long.rows[0].tokens[0] = 0
  assert short.rows[0].tokens[0] != 0
  with pytest.raises(dataclasses.FrozenInstanceError):
    short.status = Status.TURN_LIMIT


def test_groups_come_in_the_order_of_questions_whoever_ends_first(
  stage, spoken
):
  questions = [types.Question(name, name, ('x',)) for name in 'ab']
  policy = spoken(
    *(
      [stage.toy.encode('zz')] * r + [stage.toy.encode(ANSWER)]
      for r in range(4)
    )
  )
  groups = stage.play(policy, questions, group=2)
  assert [[t.question.id for t in group] for group in groups] == [
    ['a', 'a'],
    ['b', 'b'],
  ]
  assert [[t.rollout for t in group] for group in groups] == [[0, 1], [0, 1]]
  assert [[len(t.turns) for t in g] for g in groups] == [[1, 2], [3, 4]]


def test_the_policy_is_asked_for_living_conversations_only(stage, spoken):
  said = stage.toy.encode('zz')
  policy = spoken(
    [said, stage.toy.encode(ANSWER)],
    [stage.toy.encode(ANSWER)],
  )
  stage.play(policy, group=2)
  prompt = stage.toy.encode('question what ')
  invalid = stage.toy.encode(wording.WORDS.invalid)
  assert policy.ticks == [[0, 1], [0]]
  assert policy.contexts == {
    0: [prompt, prompt + said + invalid],
    1: [prompt],
  }
  assert policy.released == [1, 0]  # each once, when it ended


@pytest.mark.parametrize(
  'query',
  [
    'say "hi" {now}',
    'a|b\nc',
    '}}{{',
    "it's 100%\\n",
    '東京 の 🗼',
    '{0} {query}',
  ],
)
def test_any_query_survives_the_round_trip(stage, query):
  action = Action(Kind.SEARCH, {'query': query})
  asked = []

  def resolve(requests):
    asked.extend(requests)
    return [(types.Document('1', query, query),) for _ in requests]

  script = ScriptPolicy(Script((action,)), stage.environment, stage.toy)
  ((trajectory,),) = stage.play(script, resolve=resolve)
  assert trajectory.turns[0].action == action
  assert asked[0] == types.Search(query, topk=1, corpus='')
  assert query.strip() in trajectory.turns[0].reply
  assert json.loads(json.dumps(action.arguments)) == action.arguments
