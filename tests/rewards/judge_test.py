# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The judge that knows the gold chain, on trajectories worked by hand."""

import dataclasses

import pytest

from searchrl_jax import types
from searchrl_jax.rewards import judge

# Ada -> spouse -> Bob -> employer -> Acme Corp -> city -> Rome
CHAIN = (
  types.Hop('Ada', 'spouse', 'Bob', 'd-ada'),
  types.Hop('Bob', 'employer', 'Acme Corp', 'd-bob'),
  types.Hop('Acme Corp', 'city', 'Rome', 'd-acme'),
)
QUESTION = types.Question(
  'q', 'Where sits the firm of the spouse of Ada?', ('Rome',), hops=CHAIN
)
ADA = types.Document('d-ada', 'Ada', 'Ada lives with Bob.')
BOB = types.Document('d-bob', 'Bob', 'Bob works at Acme Corp.')
ACME = types.Document('d-acme', 'Acme Corp', 'A firm based in Rome.')
ZOE = types.Document('d-zoe', 'Zoe', 'Zoe knows nobody of interest.')


def search(query, *documents, text=None):
  if text is None:
    text = '\n'.join(document.contents for document in documents)
  evidence = (types.Evidence('external', text, documents),)
  action = types.Action(types.Kind.SEARCH, {'query': query})
  span = types.Span(0, 0, 1)
  return types.Turn(action, '', '', evidence, span, 0.0)


def other(kind, **arguments):
  return dataclasses.replace(
    search(''), action=types.Action(kind, arguments), evidence=()
  )


ANSWER = other(types.Kind.ANSWER, answer='Rome')
INVALID = other(types.Kind.INVALID, why='x')


def judged(*turns, question=QUESTION, by=judge.GroundTruth()):
  trajectory = types.Trajectory(
    question, 0, '', turns, (), types.Status.ANSWERED
  )
  verdicts = by(trajectory)
  return [(v.useful, v.correct) if v.valid else None for v in verdicts]


def test_the_straight_way_is_useful_and_correct_throughout():
  assert judged(
    search('Ada spouse', ADA),
    search('Bob employer', BOB),
    search('Acme Corp city', ACME),
    ANSWER,
  ) == [(1, 1), (1, 1), (1, 1), None]


def test_the_same_search_again_is_neither():
  # Its document was fetched, and its object stands in the evidence.
  assert judged(
    search('Ada spouse', ADA),
    search('Ada spouse', ADA),
    search('Bob employer', BOB),
    ANSWER,
  ) == [(1, 1), (0, 0), (1, 1), None]


def test_a_right_query_that_brings_nothing_is_correct_but_not_useful():
  assert judged(
    search('Ada spouse'),
    search('Ada spouse', ZOE),
    search('spouse of Ada', ADA),
    ANSWER,
  ) == [(0, 1), (0, 1), (1, 1), None]


def test_a_search_about_somebody_else_may_bring_luck_only():
  assert judged(
    search('Zoe', ZOE), search('who is interesting', ADA), ANSWER
  ) == [(0, 0), (1, 0), None]


def test_naming_an_entity_before_it_was_seen_is_a_guess():
  # Bob stands neither in the question nor in the evidence yet. A lucky guess
  # settles Ada's hop too: once Bob is in the evidence, asking for Ada's spouse
  # asks for nothing that is missing.
  assert judged(
    search('Bob employer', BOB),
    search('Ada spouse', ADA),
    search('Acme Corp city', ACME),
    ANSWER,
  ) == [(1, 0), (1, 0), (1, 1), None]
  assert judged(search('Ada spouse Acme Corp', ADA)) == [(1, 0)]


def test_other_names_may_be_watched_too():
  watchful = judge.GroundTruth(
    lambda question: (*judge.chain_entities(question), 'Zoe')
  )
  turns = (search('Ada Zoe', ADA, ZOE), search('Bob Zoe', BOB))
  assert judged(*turns) == [(1, 1), (1, 1)]
  assert judged(*turns, by=watchful) == [(1, 0), (1, 1)]


def test_one_search_may_settle_two_hops_at_once():
  assert judged(
    search('Ada spouse', ADA, BOB),
    search('Bob employer', BOB),  # nothing new: Acme Corp is known
    search('Acme Corp city', ACME),
    ANSWER,
  ) == [(1, 1), (0, 0), (1, 1), None]


def test_a_passage_of_the_subject_that_holds_the_object_serves_as_well():
  told = types.Document('d-9', 'ada', 'Her husband is called Bob.')
  silent = types.Document('d-8', 'Ada', 'Ada likes Bobsleighs.')
  mention = types.Document('d-7', 'Zoe', 'Zoe met Ada and Bob.')
  assert judged(search('Ada spouse', silent)) == [(0, 1)]
  assert judged(search('Ada spouse', mention)) == [(0, 1)]
  assert judged(search('Ada spouse', told)) == [(1, 1)]
  # The hop's own document then brings nothing that is new.
  assert judged(search('Ada spouse', told), search('Zoe', ADA)) == [
    (1, 1),
    (0, 0),
  ]


def test_names_are_found_on_word_boundaries():
  # "Adam" names nobody of the chain; "acme corp." names Acme Corp.
  assert judged(search('Adam spouse', ADA)) == [(1, 0)]
  assert judged(search('Ada spouse', ADA, BOB), search('acme corp. city?')) == [
    (1, 1),
    (0, 1),
  ]


def test_evidence_of_the_same_turn_comes_too_late_for_its_own_query():
  assert judged(search('Bob employer', ADA, BOB)) == [(1, 0)]


def test_a_search_that_was_never_carried_out_brings_nothing():
  unserved = dataclasses.replace(search('Ada spouse'), evidence=())
  assert judged(unserved) == [(0, 1)]


def test_turns_that_are_no_search_have_no_verdict_and_change_nothing():
  assert judged(INVALID, search('Ada spouse', ADA), INVALID, ANSWER) == [
    None,
    (1, 1),
    None,
    None,
  ]
  assert judged() == []


def test_a_question_without_hops_ends_in_one_line():
  question = dataclasses.replace(QUESTION, id='nq-7', hops=())
  with pytest.raises(
    ValueError, match='"nq-7" has no hops: it needs a judge'
  ) as e:
    judged(ANSWER, question=question)
  assert '\n' not in str(e.value)
