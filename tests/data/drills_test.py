# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Reading drills tell a passage's facts; planning drills need no passages."""

import re

import pytest

from searchrl_jax import types
from searchrl_jax.data import drills, world
from searchrl_jax.data.expert import Expert
from searchrl_jax.data.questions import questions

BOTH = pytest.mark.parametrize('rendering', ['words', 'natural'])


def make(rendering='words', seed=21):
  return world.make_world(world.WorldConfig(rendering=rendering), seed)


def test_the_target_is_what_a_reader_of_the_passage_would_say():
  # A second road: find phrase and value in the text itself.
  made = make()
  wordings = made.rendering.wordings.values()
  label_of = {w.phrases[0]: w.label for w in wordings}
  pattern = re.compile(f'({"|".join(label_of)}) ([a-z]+)')
  for drill in drills.reading(made, 0, 64):
    pairs = pattern.findall(drill.text)
    target = ' '.join(f'{label_of[p]} {value}' for p, value in pairs)
    assert len(pairs) == 3
    assert drill.answers == (target,)


@BOTH
def test_values_of_the_target_stand_in_the_passage_in_order(rendering):
  for drill in drills.reading(make(rendering), 0, 64):
    rest, target = drill.text, drill.answers[0]
    wordings = world.RENDERINGS[rendering].wordings.values()
    labels = '|'.join(w.label for w in wordings)
    values = re.split(rf'(?:^| )(?:{labels}) ', target)[1:]
    assert len(values) == 3
    for value in values:
      assert value in rest
      rest = rest.split(value, 1)[1]


def test_a_drill_fits_48_tokens():
  drawn = drills.reading(make(), 0, 220)
  lengths = [len(f'{d.text} {d.answers[0]}'.split(' ')) for d in drawn]
  # 48 less the tags of prompt and answer.
  assert max(lengths) <= 32
  known = set(world.vocabulary(make().config))
  assert {w for d in drawn for w in d.answers[0].split(' ')} <= known


def test_every_passage_is_read_before_any_is_read_again():
  drawn = drills.reading(make(), 1, 330)
  assert len({d.text for d in drawn[:220]}) == 220
  assert len({d.text for d in drawn[220:]}) == 110
  assert len({d.id for d in drawn}) == 330
  assert drawn[:10] == drills.reading(make(), 1, 10)
  assert drawn[:10] != drills.reading(make(), 2, 10)


def test_the_reader_answers_the_target_in_one_turn():
  (drill,) = drills.reading(make(), 3, 1)
  action = drills.read_aloud(drill, ())
  assert action.kind == types.Kind.ANSWER
  assert action.arguments == {'answer': drill.answers[0]}


def test_nothing_is_found_for_any_request():
  asked = [types.Search('a b', 1, 'world-1'), types.Open('x')]
  assert drills.nothing_found(asked) == [(), ()]


@BOTH
def test_the_planner_says_what_the_expert_would_say_with_passages(rendering):
  made = make(rendering)
  pages = {document.title: document for document in made.documents}
  expert = Expert(4)
  for question in questions(made, 4, 60):
    seen, blind = [], []
    while True:
      action = expert(question, seen)
      assert drills.Planner(expert)(question, blind) == action
      if action.kind == types.Kind.ANSWER:
        break
      query = action.arguments['query']
      found = tuple(
        pages[hop.subject]
        for hop in question.hops
        if query.startswith(f'{hop.subject} ')
      )
      evidence = (types.Evidence('external', '', found),)
      span = types.Span(0, 0, 0)
      seen.append(types.Turn(action, '', '', evidence, span, 0.0))
      blind.append(types.Turn(action, '', '', (), span, 0.0))
