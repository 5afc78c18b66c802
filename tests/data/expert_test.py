# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The scripted experts: right without noise, noisy only in decisions."""

import pytest

from searchrl_jax import types
from searchrl_jax.data import lexicon, world
from searchrl_jax.data.expert import Expert, TitleExpert
from searchrl_jax.data.questions import questions

BOTH = pytest.mark.parametrize('rendering', ['words', 'natural'])


def make(rendering='words', seed=11):
  return world.make_world(world.WorldConfig(rendering=rendering), seed)


def taken(action, documents=()):
  """The turn that an action becomes when it brings documents."""
  evidence = (types.Evidence('external', '', tuple(documents)),)
  return types.Turn(action, '', '', evidence, types.Span(0, 0, 0), 0.0)


def play(policy, question, find):
  """The actions of a policy, its queries answered by `find`."""
  turns = []
  while True:
    action = policy(question, turns)
    if action.kind == types.Kind.ANSWER:
      return [*(turn.action for turn in turns), action]
    turns.append(taken(action, find(action.arguments['query'])))
    assert len(turns) < 60


def by_title(made):
  """A dictionary in place of a search engine: the query's name finds it."""
  pages = {document.title: document for document in made.documents}

  def find(query):
    names = [name for name in pages if f'{query} '.startswith(f'{name} ')]
    return [pages[name] for name in names]

  return find


def said(actions):
  """Actions as lines, for comparison by eye."""
  return [
    (
      a.arguments['thought'],
      a.arguments.get('query'),
      a.arguments.get('answer'),
    )
    for a in actions
  ]


@BOTH
def test_without_noise_it_walks_the_chain(rendering):
  made = make(rendering)
  policy = Expert(0, superfluous=0.0, early=0.0)
  for question in questions(made, 0, 60):
    hops = question.hops
    expected = [(f'{lexicon.GIVEN} {hops[0].subject}',)]
    expected += [(f'{hop.relation} {hop.object}',) for hop in hops]
    queries = [f'{hop.subject} {hop.relation}' for hop in hops]
    ends = [(query, None) for query in queries]
    ends.append((None, question.answers[0]))
    assert said(play(policy, question, by_title(made))) == [
      thought + end for thought, end in zip(expected, ends, strict=True)
    ]


def test_a_turn_has_at_most_eight_tokens_and_known_words():
  made = make()
  known = set(world.vocabulary(made.config))
  for question in questions(made, 1, 60):
    for thought, query, answer in said(
      play(Expert(1), question, by_title(made))
    ):
      spoken = [*thought.split(' '), *(query or answer).split(' ')]
      # Four tags and the words between them.
      assert 4 + len(spoken) <= 8
      assert set(spoken) <= known


@BOTH
def test_what_follows_a_thought_depends_on_the_thought_alone(rendering):
  made = make(rendering)
  for question in questions(made, 2, 120):
    path = [question.hops[0].subject, *(h.object for h in question.hops)]
    relations = [lexicon.GIVEN, *(h.relation for h in question.hops)]
    pairs = [f'{r} {v}' for r, v in zip(relations, path, strict=True)]
    read = 0
    for thought, query, answer in said(
      play(Expert(2), question, by_title(made))
    ):
      # Noise: the chain may start anew, never with a value misread.
      assert thought in (pairs[read], pairs[0])
      read = pairs.index(thought)
      if answer is not None:
        assert answer == path[read]
      else:
        assert query == f'{path[read]} {relations[read + 1]}'
        read += 1


def test_noise_comes_at_its_rates():
  made = make(seed=12)
  turns_with_choice = anew = hops_read = stopped = 0
  for question in questions(made, 3, 600):
    policy = Expert(3, max_searches=50)
    actions = play(policy, question, by_title(made))
    first = f'{question.hops[0].subject} {question.hops[0].relation}'
    queries = [a.arguments.get('query') for a in actions]
    turns_with_choice += len(queries) - 1  # all but the first turn
    anew += queries[1:].count(first)
    reached = {q for q in queries[1:] if q not in (None, first)}
    hops_read += len(reached) + 1 - (queries[-1] is None)
    stopped += actions[-1].arguments['answer'] != question.answers[0]
  # About 2100 turns: standard error .011. Turns that stop early have no
  # choice to start anew, which lowers the share by less than .02.
  assert anew / turns_with_choice == pytest.approx(0.4, abs=0.05)
  # 600 questions have 600 hops before the last; standard error .011.
  assert stopped / 600 == pytest.approx(0.08, abs=0.033)


@pytest.mark.parametrize('max_searches', [3, 4, 5])
def test_superfluous_searches_leave_enough_for_the_chain(max_searches):
  made = make()
  policy = Expert(5, superfluous=1.0, early=0.0, max_searches=max_searches)
  for question in questions(made, 5, 30):
    actions = play(policy, question, by_title(made))
    assert actions[-1].arguments['answer'] == question.answers[0]
    # Always straying, it spends every search it has.
    assert len(actions) == max_searches + 1


def test_always_early_it_answers_the_first_value_it_reads():
  made = make()
  for question in questions(made, 6, 30, hops=(2, 3)):
    actions = play(
      Expert(6, superfluous=0.0, early=1.0), question, by_title(made)
    )
    assert [a.kind.name for a in actions] == ['SEARCH', 'ANSWER']
    assert actions[-1].arguments['answer'] == question.hops[0].object
  (single,) = questions(made, 6, 1, hops=(1,))
  actions = play(Expert(6, superfluous=0.0, early=1.0), single, by_title(made))
  assert actions[-1].arguments['answer'] == single.answers[0]


def test_the_same_history_meets_the_same_decision():
  made = make()
  drawn = questions(made, 7, 60)
  find = by_title(made)
  one = [said(play(Expert(7), q, find)) for q in drawn]
  assert one == [said(play(Expert(7), q, find)) for q in reversed(drawn)][::-1]
  assert one != [said(play(Expert(8), q, find)) for q in drawn]


def test_after_a_miss_it_asks_for_the_name_alone_then_in_full_again():
  made = make()
  (question,) = questions(made, 8, 1, hops=(1,))
  hop = question.hops[0]
  policy = Expert(8, superfluous=0.0)
  actions = play(policy, question, lambda query: [])
  full = f'{hop.subject} {hop.relation}'
  given = f'{lexicon.GIVEN} {hop.subject}'
  assert said(actions) == [
    (given, full, None),
    (given, hop.subject, None),
    (given, full, None),
    (given, hop.subject, None),
    # Nothing was read, and nothing is made up.
    (given, None, hop.subject),
  ]


def test_another_page_that_names_the_object_settles_nothing():
  made = make()
  (question,) = questions(made, 9, 1, hops=(1,))
  wrong = types.Document('elsewhere', 'x', f'{question.answers[0]} was here')
  policy = Expert(9, superfluous=0.0)
  turns = [taken(policy(question, []), [wrong])]
  assert policy(question, turns).kind == types.Kind.SEARCH


def test_a_page_that_was_cut_before_the_object_settles_nothing():
  made = make()
  (question,) = questions(made, 9, 1, hops=(1,))
  hop = question.hops[0]
  cut = types.Document(hop.document_id, hop.subject, f'{hop.subject} was')
  policy = Expert(9, superfluous=0.0)
  turns = [taken(policy(question, []), [cut])]
  assert policy(question, turns).kind == types.Kind.SEARCH


def test_with_its_searches_spent_it_answers_the_last_value_read():
  made = make()
  (question,) = questions(made, 10, 1, hops=(3,))
  policy = Expert(10, superfluous=0.0, early=0.0, max_searches=2)
  actions = play(policy, question, by_title(made))
  assert [a.kind.name for a in actions] == ['SEARCH', 'SEARCH', 'ANSWER']
  assert actions[-1].arguments['answer'] == question.hops[1].object


def test_it_needs_a_chain():
  question = types.Question(id='q1', text='who?', answers=('x',))
  with pytest.raises(ValueError, match="'q1' has no gold chain"):
    Expert(0)(question, ())


TITLES = types.Question(
  id='2wiki_9',
  text='Which film came first, Navy Nurse or The Face in the Fog?',
  answers=('Navy Nurse', 'the nurse'),
  metadata={'mentioned_titles': ['Navy Nurse', 'The Face in the Fog']},
)


def test_the_title_expert_searches_what_is_named_then_answers():
  actions = play(TitleExpert(), TITLES, lambda query: [])
  assert [a.arguments.get('query') for a in actions] == [
    'Navy Nurse',
    'The Face in the Fog',
    None,
  ]
  assert actions[-1].arguments['answer'] == 'Navy Nurse'
  assert len(play(TitleExpert(max_searches=1), TITLES, lambda query: [])) == 2


@pytest.mark.parametrize(
  ('metadata', 'query'),
  [
    ({'mentioned_titles': 'Navy Nurse'}, 'Navy Nurse'),
    ({'mentioned_titles': []}, TITLES.text),
    ({}, TITLES.text),
  ],
)
def test_the_title_expert_with_a_bare_title_or_none(metadata, query):
  question = types.Question(
    id='q', text=TITLES.text, answers=('a',), metadata=metadata
  )
  actions = play(TitleExpert(), question, lambda query: [])
  assert [a.arguments.get('query') for a in actions] == [query, None]
