# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Questions over a world: their chains are in the passages, and only one."""

import collections
import itertools
import re

import pytest

from searchrl_jax.data import lexicon, world
from searchrl_jax.data.questions import questions

BOTH = pytest.mark.parametrize('rendering', ['words', 'natural'])


def make(rendering='words', seed=7, **sizes):
  return world.make_world(world.WorldConfig(rendering=rendering, **sizes), seed)


def test_drawn_by_seed_and_by_prefix():
  made = make()
  assert questions(made, 1, 30) == questions(made, 1, 30)
  assert questions(made, 1, 30)[:10] == questions(made, 1, 10)
  texts = {q.text for q in questions(made, 1, 30)}
  assert texts != {q.text for q in questions(made, 2, 30)}


def test_evenly_over_hops():
  drawn = questions(make(), 0, 90)
  assert [q.metadata['hops'] for q in drawn[:4]] == [1, 2, 3, 1]
  assert collections.Counter(len(q.hops) for q in drawn) == {
    1: 30,
    2: 30,
    3: 30,
  }
  assert {len(q.hops) for q in questions(make(), 0, 9, hops=(2,))} == {2}


@BOTH
def test_the_chain_is_connected_told_and_leads_to_the_answer(rendering):
  made = make(rendering)
  documents = {d.id: d for d in made.documents}
  phrases = {
    wording.label: wording.phrases
    for wording in made.rendering.wordings.values()
  }
  for question in questions(made, 3, 90):
    hops = question.hops
    assert question.corpus == made.name
    assert question.answers == (hops[-1].object,)
    for hop, following in itertools.pairwise(hops):
      assert hop.object == following.subject
    for hop in hops:
      assert documents[hop.document_id].title == hop.subject
      text = documents[hop.document_id].text
      assert any(f'{p} {hop.object}' in text for p in phrases[hop.relation])


@BOTH
def test_chains_meet_no_entity_twice_and_hide_all_but_the_first(rendering):
  made = make(rendering)
  names = [entity.name for entity in made.entities]
  for question in questions(made, 4, 90):
    path = [question.hops[0].subject, *(h.object for h in question.hops)]
    assert len(set(path)) == len(path)
    # On word boundaries, so that no name hides in a longer word.
    named = [n for n in names if re.search(rf'\b{n}\b', question.text)]
    assert named == [path[0]]


def test_a_chain_is_asked_once():
  drawn = questions(make(), 5, 300)
  chains = {(q.hops[0].subject, *(h.relation for h in q.hops)) for q in drawn}
  assert len(chains) == 300
  assert len({q.id for q in drawn}) == 300


def test_question_text_in_words():
  made = make()
  for question in questions(made, 6, 60):
    assert question.text.endswith(' ?')
    person = {e.name: e.type for e in made.entities}[
      question.answers[0]
    ] == lexicon.EntityType.PERSON
    assert question.text.split(' ')[:3] == [
      'who' if person else 'what',
      'is',
      'the',
    ]


def test_nesting_asks_for_the_last_relation_first():
  for question in questions(make(), 6, 60, hops=(2,)):
    first, second = (h.relation for h in question.hops)
    asks = make().rendering.wordings
    by_label = {w.label: w.asks for w in asks.values()}
    subject = question.hops[0].subject
    inner = [ask.format(x=subject) for ask in by_label[first]]
    outer = [ask.format(x=x) for ask in by_label[second] for x in inner]
    assert any(f' {text} ?' in question.text for text in outer)


def test_both_phrasings_are_used():
  drawn = questions(make(), 6, 200, hops=(1,))
  asked = collections.Counter()
  wordings = make().rendering.wordings
  for question in drawn:
    for wording in wordings.values():
      for ask in wording.asks:
        if ask.format(x=question.hops[0].subject) in question.text:
          asked[ask] += 1
  assert len(asked) == 30


def test_natural_questions_read_as_english():
  for question in questions(make('natural'), 6, 30):
    assert re.fullmatch(r'(Who|What) is the [^?{}]+\?', question.text)


def test_rubrics_hide_the_answer_behind_e0():
  for question in questions(make(), 8, 30, hops=(3,)):
    first, second, third = question.hops
    assert question.rubrics == (
      f'the {first.relation} of {first.subject} is <E1>',
      f'the {second.relation} of <E1> is <E2>',
      f'the {third.relation} of <E2> is <E0>',
    )
  for question in questions(make(), 8, 3, hops=(1,)):
    hop = question.hops[0]
    assert question.rubrics == (f'the {hop.relation} of {hop.subject} is <E0>',)


def test_a_world_can_run_out_of_questions():
  tiny = make(persons=2, cities=2, companies=2, films=2, countries=2)
  # 10 entities with 3 relations each: 30 questions of one hop, no more.
  assert len(questions(tiny, 0, 30, hops=(1,))) == 30
  with pytest.raises(ValueError, match='no further question of 1 hops'):
    questions(tiny, 0, 31, hops=(1,))
