# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Our rule of form reads the record; the published rules read the text."""

import pytest

from searchrl_jax import types
from searchrl_jax.environments import search_r1, wording
from searchrl_jax.rewards import format

PROMPT = wording.NATURAL.prompt('Where?')
FOUND = '<information>Doc 1(Title: "Ada") lives in Rome</information>'
THINK = '<think>a</think>'
SEARCH = f'{THINK}<search>q</search>\n\n{FOUND}\n\n'


def trajectory(*texts, status=types.Status.ANSWERED):
  span = types.Span(0, 0, 1)
  turns = tuple(
    types.Turn(search_r1.parse(text), text, '', (), span, 0.0) for text in texts
  )
  question = types.Question('q', 'Where?', ('Rome',))
  return types.Trajectory(question, 0, PROMPT, turns, (), status)


@pytest.mark.parametrize(
  ('texts', 'expected'),
  [
    ((f'{THINK} <answer>Rome</answer>',), True),
    ((f'{THINK} <search>q</search>', f'{THINK} <answer>x</answer>'), True),
    # An empty answer is legal, if worthless.
    ((f'{THINK} <answer></answer>',), True),
    (('<answer>Rome</answer>',), False),
    (('<think> </think> <answer>Rome</answer>',), False),
    (('<search>q</search>', f'{THINK} <answer>Rome</answer>'), False),
    ((f'{THINK} <search></search>', f'{THINK} <answer>Rome</answer>'), False),
    ((f'{THINK} <search>q</search>',), False),
    ((), False),
  ],
)
def test_our_rule(texts, expected):
  assert format.well_formed(trajectory(*texts)) is expected


SEARCHES, TELLS, ANSWERS = (
  (types.Kind.SEARCH, {'query': 'q'}),
  (types.Kind.ASSERT, {'triples': [['a', 'b', 'c']]}),
  (types.Kind.ANSWER, {'answer': 'Rome'}),
)


@pytest.mark.parametrize(
  ('actions', 'expected'),
  [
    ((SEARCHES, TELLS, ANSWERS), True),
    ((ANSWERS,), True),  # no thought is asked for
    ((SEARCHES, TELLS), False),
    ((SEARCHES, (types.Kind.INVALID, {'why': 'w'}), ANSWERS), False),
    (((types.Kind.NONE, {}), ANSWERS), False),
    ((), False),
  ],
)
def test_legal_asks_for_actions_only(actions, expected):
  span = types.Span(0, 0, 1)
  turns = tuple(
    types.Turn(types.Action(*action), '', '', (), span, 0.0)
    for action in actions
  )
  question = types.Question('q', 'Where?', ('Rome',))
  status = types.Status.ANSWERED
  one = types.Trajectory(question, 0, PROMPT, turns, (), status)
  assert format.legal(one) is expected
  # Without thoughts the rule of Search-R1 refuses them all.
  assert not format.well_formed(one)


def test_the_rule_of_search_r1_wants_two_answer_elements():
  def em(prompt, response):
    return format.search_r1_em(prompt=prompt, response=response, gold='Rome')

  assert em(PROMPT, '<answer> Rome </answer>') == 1
  # The prompt's example alone is no answer, even where it would be right.
  assert em('<answer> Rome </answer>', 'no idea') == 0
  assert em('no example', '<answer> Rome </answer>') == 0
  assert em('no example', '<answer>x</answer> <answer>Rome</answer>') == 1
  # The last one counts.
  assert em(PROMPT, '<answer>Rome</answer><answer>Oslo</answer>') == 0


def test_the_rule_of_verl_reads_the_response_and_mistrusts_many_tags():
  def em(response):
    return format.verl_em(response=response, gold=['Rome'])

  right, wrong = '<answer>Rome</answer>', '<answer>Oslo</answer>'
  assert em(right) == 1
  assert em('Rome') == 0
  assert em(right + wrong) == 0
  assert em(wrong * 9 + right) == 1  # ten are not above ten
  assert em(wrong * 10 + right) == 0.25
  assert em('</answer>' * 10 + right) == 0.25
  assert em(right * 10 + wrong) == 0


@pytest.mark.parametrize(
  ('response', 'expected'),
  [
    (f'{THINK} <answer>Rome</answer>', 1.0),
    (f'{SEARCH}{SEARCH}{THINK}\n<answer>Rome</answer>\n', 1.0),
    # Right, but ill-formed: no thought; loose words; an element left open; a
    # search without information; a nested tag.
    ('<answer>Rome</answer>', 0.8),
    (f'{THINK} so <answer>Rome</answer>', 0.8),
    (f'<think> {THINK} <answer>Rome</answer>', 0.8),
    (f'{THINK}<search>q</search>{THINK}<answer>Rome</answer>', 0.8),
    (f'{SEARCH}<answer>Rome</answer>', 0.8),
    # Wrong.
    (f'{THINK} <answer>Oslo</answer>', 0.2),
    (f'{SEARCH}{THINK}<answer>Oslo</answer>', 0.2),
    ('<answer>Oslo</answer>', 0.1),
    # No answer.
    (f'{SEARCH}{THINK}', 0.0),
    ('', 0.0),
  ],
)
def test_the_score_of_search_r1_v03(response, expected):
  score = format.search_r1_format_score(
    prompt=PROMPT, response=response, gold='Rome'
  )
  assert score == pytest.approx(expected)


def test_a_prompt_without_example_leaves_well_formed_responses_the_structure():
  score = format.search_r1_format_score(
    prompt='Where?', response=f'{THINK}<answer>Rome</answer>', gold='Rome'
  )
  assert score == pytest.approx(0.2)


def test_a_found_gold_earns_the_retrieval_weight_of_well_formed_wrong_answers():
  def score(response, gold):
    return format.search_r1_format_score(
      prompt=PROMPT, response=response, gold=gold, retrieval=0.1
    )

  well_formed = f'{SEARCH}{THINK}<answer>Oslo</answer>'
  assert score(well_formed, 'Rome') == pytest.approx(0.3)
  assert score(well_formed, ['Bern', 'rome']) == pytest.approx(0.3)
  assert score(well_formed, 'Bern') == pytest.approx(0.2)
  assert score(well_formed, '!') == pytest.approx(0.2)
  # Not where it stands in the answer or a thought, nor for ill-formed ones.
  assert score('<think>Rome</think><answer>Oslo</answer>', 'Rome') == (
    pytest.approx(0.2)
  )
  assert score(f'{SEARCH}<answer>Oslo</answer>', 'Rome') == pytest.approx(0.1)
