# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Facts of hand-made trajectories: which are told, by whom, and as what."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.rewards import facts, ngrams

KIND = types.Kind
PAGE = types.Document('0', 'Ada', 'Ada was born in Rome.')
FOUND = (types.Evidence('external', PAGE.text, (PAGE,)),)
NOTHING = (types.Evidence('external', '', ()),)

ROME = ('Ada', 'born in', 'Rome')
ACME = ('Ada', 'employer', 'Acme')
OSLO = ('Bob', 'born in', 'Oslo')


def turn(kind, evidence=(), **arguments):
  action = types.Action(kind, arguments)
  return types.Turn(action, '', '', evidence, types.Span(0, 0, 1), 0.0)


def search(query='x', evidence=FOUND, **arguments):
  return turn(KIND.SEARCH, evidence, query=query, **arguments)


def tell(*triples):
  return turn(KIND.ASSERT, triples=[list(one) for one in triples])


def answer(text='Rome', **arguments):
  return turn(KIND.ANSWER, answer=text, **arguments)


def invalid(**arguments):
  return turn(KIND.INVALID, why='w', **arguments)


def trajectory(*turns, hops=()):
  question = types.Question('q', 'Where?', ('Rome',), hops=hops)
  return types.Trajectory(question, 0, '', turns, (), types.Status.TURN_LIMIT)


class Letters:
  """An embedding that can be read: length and number of vowels."""

  def __init__(self):
    self.asked = []

  def __call__(self, texts):
    self.asked.append(list(texts))
    vowels = [sum(text.lower().count(v) for v in 'aeiou') for text in texts]
    return np.array([[len(t), v] for t, v in zip(texts, vowels, strict=True)])


def facts_of(*groups, embed=None, max_facts=3):
  return facts.facts_of(groups, embed or Letters(), max_facts=max_facts)


def row_of(*triples):
  """The arrays of one trajectory's facts."""
  arrays = facts_of([trajectory(tell(*triples))], max_facts=len(triples))
  return {name: array[0] for name, array in arrays.items()}


# --- what is told ------------------------------------------------------------


def test_asserted_triples_by_turn():
  one = trajectory(search(), tell(ROME, ACME), invalid(), tell(), answer())
  assert facts.asserted(one) == ((), (ROME, ACME), (), (), ())
  assert facts.asserted(trajectory()) == ()


def test_thoughts_state_what_the_query_before_them_asked():
  one = trajectory(
    search('fetok employer', thought='given fetok'),
    search('vepev founder', thought='employer vepev'),
    answer('zurep', thought='founder zurep'),
  )
  assert facts.stated(one) == (
    (),
    (('fetok', 'employer', 'vepev'),),
    (('vepev', 'founder', 'zurep'),),
  )


@pytest.mark.parametrize(
  ('query', 'thought', 'expected'),
  [
    (
      'Tarvin Oskel place of birth',
      'place of birth Fort Dorn',
      ('Tarvin Oskel', 'place of birth', 'Fort Dorn'),
    ),
    ('vepev Founder', 'founder Zurep', ('vepev', 'Founder', 'Zurep')),
    # The longest overlap, not the first: "of" alone would overlap too.
    ('a of b of', 'of b of c', ('a', 'of b of', 'c')),
    # ... that leaves a value and a subject.
    ('x of of', 'of of', ('x of', 'of', 'of')),
    ('founder', 'founder zurep', None),
    ('vepev founder', 'founder', None),
    ('vepev founder', 'vepev founder zurep', None),  # no end of the query
    ('vepev founder', 'the founder zurep', None),
    ('vepev founder', 'founders zurep', None),  # whole words
    ('vepev founder', '', None),
    ('', 'founder zurep', None),
  ],
)
def test_the_overlap_of_query_and_thought(query, thought, expected):
  one = trajectory(search(query), answer(thought=thought))
  assert facts.stated(one) == ((), (expected,) if expected else ())


def test_only_the_latest_earlier_query_is_taken_up():
  one = trajectory(
    # A turn's own query is not earlier.
    search('Ada employer', thought='employer Acme'),
    search('Bob mayor'),
    answer(thought='employer Acme'),
  )
  assert facts.stated(one) == ((), (), ())
  # A malformed turn may hold a thought, and no query.
  one = trajectory(
    search('Ada employer'),
    invalid(thought='employer Acme'),
    answer(thought='employer Acme'),
  )
  assert facts.stated(one) == ((), (ACME,), (ACME,))


def test_told_is_ordered_and_without_repetitions_of_a_trajectory():
  group = [
    trajectory(tell(ROME, ACME), tell(('the ada', 'Born in', 'Rome.'), OSLO)),
    trajectory(),
    trajectory(search(), tell(ROME, ROME)),
  ]
  assert facts.told(group, facts.asserted) == (
    facts.Told(0, 0, ROME),
    facts.Told(0, 0, ACME),
    facts.Told(0, 1, OSLO),
    facts.Told(2, 1, ROME),  # another trajectory may say it again
  )


def test_names_that_normalising_would_empty_are_still_told_apart():
  bands = [('The The', 'is', 'a band'), ('A', 'is', 'a band')]
  told = facts.told([trajectory(tell(*bands, bands[0]))], facts.asserted)
  assert [one.triple for one in told] == bands


# --- as arrays ---------------------------------------------------------------


def test_arrays_by_hand():
  arrays = facts_of(
    [trajectory(search(), tell(ROME, ACME)), trajectory(tell(ROME))],
    [trajectory(answer()), trajectory(search(), search(), tell(OSLO))],
  )
  # G = 2 rollouts of at most 3 facts: M = 6.
  np.testing.assert_array_equal(
    arrays['mask'], [[1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
  )
  np.testing.assert_array_equal(
    arrays['rollout'], [[0, 0, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
  )
  np.testing.assert_array_equal(
    arrays['turn'], [[1, 1, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0]]
  )
  # "Ada born in Rome": 16 characters, 6 vowels; "born in": 7 and 2.
  np.testing.assert_array_equal(arrays['embedding'][0, 2], [16, 6])
  np.testing.assert_array_equal(arrays['relation'][0, 2], [7, 2])
  assert not arrays['embedding'][~arrays['mask']].any()
  key = arrays['key']
  assert key[0, 0] == key[0, 2] != key[0, 1]
  assert key[1, 0] not in key[0, :3]  # ids hold for the whole batch
  types_of = {name: (a.dtype, a.shape) for name, a in arrays.items()}
  assert types_of == {
    'embedding': (np.float32, (2, 6, 2)),
    'relation': (np.float32, (2, 6, 2)),
    'negated': (np.bool_, (2, 6)),
    'numbers': (np.int32, (2, 6)),
    'key': (np.int32, (2, 6)),
    'rollout': (np.int32, (2, 6)),
    'turn': (np.int32, (2, 6)),
    'mask': (np.bool_, (2, 6)),
  }


def test_negation_of_relation_and_object_but_of_one_only():
  row = row_of(
    ('Ada', 'born in', 'Rome'),
    ('Ada', 'not born in', 'Rome'),
    ('Ada', 'born', 'not in Rome'),
    # A film called No: whoever directed it, one of the two did not.
    ('Ada', 'directed', 'No'),
    ('Ada', 'did not direct', 'No'),
    ('No', 'directed by', 'Ada'),
  )
  np.testing.assert_array_equal(row['negated'], [0, 1, 1, 1, 0, 0])


def test_numbers_are_equal_where_the_sets_are():
  row = row_of(
    ('Ada', 'born in', '1,990'),
    ('Ada', 'born in the year', '1990'),
    ('Ada', 'born in', '1991'),
    ('1990', 'saw the birth of', 'Ada'),
    ('Ada', 'lived', '1990-91'),
    ('Ada', 'lived', 'from 1990 to 1991'),
    ('Ada', 'born in', 'Rome'),
    # Digits of two parts are two numbers, whatever stands between.
    ('Flight 5', 'million', 'Ada'),
    ('5', 'is', 'Flight'),
  )
  n = row['numbers']
  assert n[0] == n[1] == n[3] and n[4] == n[5] and n[7] == n[8]
  assert len({int(n[i]) for i in (0, 2, 4, 6, 7)}) == 5


def test_every_text_is_embedded_once():
  embed = Letters()
  facts_of(
    [trajectory(tell(ROME, ACME)), trajectory(tell(ROME))],
    [trajectory(tell(OSLO))] * 2,
    embed=embed,
  )
  (texts,) = embed.asked
  assert sorted(texts) == [
    'Ada born in Rome',
    'Ada employer Acme',
    'Bob born in Oslo',
    'born in',
    'employer',
  ]


def test_without_any_fact_the_shapes_are_the_same():
  groups = [trajectory(answer()), trajectory()]
  # The first has no vector of no text, so it must be asked for one.
  for embed, width in ((Letters(), 2), (ngrams.NgramEmbedding(width=5), 5)):
    arrays = facts_of(groups, embed=embed)
    shape = (1, 6, width)
    assert arrays['embedding'].shape == arrays['relation'].shape == shape
    assert not any(array.any() for array in arrays.values())


def test_errors_say_what_to_do():
  group = [trajectory(), trajectory(tell(ROME, ACME), tell(OSLO))]
  assert facts_of(group, max_facts=3)['mask'].sum() == 3
  with pytest.raises(ValueError, match='3 facts, more than max_facts = 2'):
    facts_of(group, max_facts=2)
  with pytest.raises(ValueError, match=r'shape \(4,\) for 5 texts'):
    facts_of(group, embed=lambda texts: np.zeros(len(texts) - 1))
  with pytest.raises(ValueError, match=r'shape \(3, 7\) for 5 texts'):
    facts_of(group, embed=lambda texts: np.zeros((3, 7)))
  with pytest.raises(ValueError, match='not finite'):
    facts_of(group, embed=lambda texts: np.full((len(texts), 2), np.nan))
  with pytest.raises(ValueError, match=r'facts of 1 turns for a .* of 2'):
    facts.told(group, lambda one: ((),) if one.turns else ())


WORDS = st.sampled_from(['Ada', 'the Ada', 'not', '1990', '1,990', 'The', '!'])
TRIPLES = st.tuples(WORDS, WORDS, WORDS)
TRAJECTORIES = st.lists(st.lists(TRIPLES, max_size=3), max_size=3).map(
  lambda turns: trajectory(*(tell(*triples) for triples in turns))
)


@hypothesis.settings(deadline=None, max_examples=50)
@hypothesis.given(group=st.lists(TRAJECTORIES, min_size=1, max_size=3))
def test_any_group_is_ordered_and_padded_last(group):
  arrays = facts_of(group, max_facts=9)
  (mask,) = arrays['mask']
  count = mask.sum()
  assert mask[:count].all()
  places = list(zip(arrays['rollout'][0], arrays['turn'][0], strict=True))
  assert places[:count] == sorted(places[:count])
  # A key comes once a trajectory, and equal keys have equal numbers.
  keys, numbers = arrays['key'][0, :count], arrays['numbers'][0, :count]
  told = list(zip(arrays['rollout'][0], keys, strict=False))
  assert len(told) == len(set(told))
  assert len(set(zip(keys, numbers, strict=True))) == len(set(keys))


# --- recall ------------------------------------------------------------------


def test_recall_asks_for_both_ends_of_a_hop_in_one_fact():
  hops = (
    types.Hop('Ada', 'employer', 'Acme', '0'),
    types.Hop('Acme', 'city', 'Rome', '1'),
    types.Hop('Rome', 'mayor', 'The The', '2'),
    types.Hop('The The', 'mentor', 'Bob', '3'),
  )
  one = trajectory(
    tell(('the ada', 'works for', 'ACME.')),  # any wording
    tell(('Rome', 'city', 'Acme')),  # the wrong way round
    tell(('Acme', 'city', 'Oslo'), ('Oslo', 'is', 'Rome')),  # in two facts
    tell(('Rome', 'mayor', 'the the')),
    tell(('A', 'mentor', 'Bob')),  # not The The, though both are articles
    hops=hops,
  )
  assert facts.fact_recall(one, facts.asserted) == 2 / 4
  assert facts.fact_recall(one, facts.stated) == 0
  assert facts.fact_recall(trajectory(tell(ROME)), facts.asserted) is None
