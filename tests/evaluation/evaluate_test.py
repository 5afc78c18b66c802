# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""An evaluation says what was asked, how well it went, and how surely."""

import collections
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax import metrics, types
from searchrl_jax.evaluation import evaluate
from searchrl_jax.rewards import scoring


def question(name, *, source='', hops=0):
  return types.Question(
    id=name,
    text=f'Who is {name}?',
    answers=(name,),
    source=source,
    hops=(types.Hop('a', 'b', name, 'd'),) * hops,
  )


def answered(question, answer, rollout=0, searches=1):
  """Searches, then the answer; None ends without one."""
  span = types.Span(0, 0, 1)
  search = types.Action(types.Kind.SEARCH, {'query': 'who'})
  actions = [search] * searches
  if answer is not None:
    actions.append(types.Action(types.Kind.ANSWER, {'answer': answer}))
  return types.Trajectory(
    question=question,
    rollout=rollout,
    prompt='',
    turns=tuple(types.Turn(a, '', '', (), span, 0.0) for a in actions),
    rows=(),
    status=types.Status.ANSWERED if answer else types.Status.TURN_LIMIT,
  )


def score(groups):
  return scoring.score_outcomes(groups, max_turns=5)


def run(play, questions, batch=3, temperature=1.0, **more):
  return evaluate.evaluate(
    play,
    score,
    questions,
    split='test',
    phase='final',
    step=7,
    temperature=temperature,
    settings={'topk': 3},
    data_hash=evaluate.hash_of(questions),
    batch=batch,
    **more,
  )


def test_a_row_by_hand():
  """Four questions: right, right, wrong, unanswered."""
  questions = [
    question('Ann', hops=1),
    question('Bob', hops=1),
    question('Cara', hops=2),
    question('Dan', hops=2),
  ]
  said = {'Ann': 'ann.', 'Bob': 'The Bob', 'Cara': 'Cara Lee', 'Dan': None}
  asked = []

  def play(batch, temperature):
    asked.append((len(batch), temperature))
    return [[answered(q, said[q.id], searches=2)] for q in batch]

  row = run(play, questions, temperature=0.0)
  assert asked == [(3, 0.0), (1, 0.0)]
  seconds = row.pop('seconds')
  assert 0 <= seconds < 60
  assert row == {
    'step': 7,
    'phase': 'final',
    'split': 'test',
    'temperature': 0.0,
    'n': 4,
    'em': 0.5,
    'em_stderr': pytest.approx(0.28868, abs=1e-5),  # .57735 / sqrt(4)
    'f1': pytest.approx((1 + 1 + 2 / 3 + 0) / 4),  # Cara Lee: p 1/2, r 1
    'answered': 0.75,
    'searches': 2.0,
    'useless_searches_per_success': None,  # nobody judged
    # Dan's trajectory has two rounds, those of the others three.
    'prompt_tokens_by_round': [0.0, 0.0, 0.0],
    'trajectories_by_round': [4, 4, 3],
    'em_by_hops': {'1': 1.0, '2': 0.0},
    'settings': {'topk': 3},
    'data_hash': row['data_hash'],
  }
  json.dumps(metrics.plain(row), allow_nan=False)


def test_rollouts_of_a_question_are_one_observation():
  """Two questions, four rollouts each: 1 and .5, and n is 2, not 8.

  Standard error: std of [1, .5] = .35355, / sqrt(2) = .25. Taking the eight
  rollouts for independent would claim .1637.
  """
  questions = [question('Ann'), question('Bob')]
  said = {'Ann': ['Ann'] * 4, 'Bob': ['Bob', 'Bob', 'x', None]}

  def play(batch, temperature):
    return [
      [answered(q, a, g) for g, a in enumerate(said[q.id])] for q in batch
    ]

  row = run(play, questions)
  assert (row['n'], row['em']) == (2, 0.75)
  assert row['em_stderr'] == pytest.approx(0.25)
  assert 'em_by_hops' not in row and 'em_macro' not in row


def test_macro_and_micro():
  """nq 1 of 1, hotpot 1 of 3: micro 2/4, macro (1 + 1/3) / 2."""
  questions = [question('a', source='nq')]
  questions += [question(name, source='hotpot') for name in 'bcd']
  right = {'a', 'b'}

  def play(batch, temperature):
    return [[answered(q, q.id if q.id in right else 'x')] for q in batch]

  # "a" is an article: normalising would empty it, so it is compared as it is.
  row = run(play, questions)
  assert row['em'] == row['em_micro'] == 0.5
  assert row['em_macro'] == pytest.approx(2 / 3)
  assert row['em_by_source'] == {'hotpot': pytest.approx(1 / 3), 'nq': 1.0}


def test_one_question_has_no_standard_error():
  row = run(lambda qs, t: [[answered(q, q.id)] for q in qs], [question('Ann')])
  assert row['em'] == 1 and row['em_stderr'] is None


def test_a_row_takes_what_stands_beside_it():
  """The function sees every group that was played, over all batches."""
  questions = [question(name) for name in ('Ann', 'Bob', 'Cara', 'Dan')]
  seen = []

  def beside(groups):
    seen.extend(one.question.id for group in groups for one in group)
    return {'yardstick': 'search_r1', 'yardstick_prompt_tokens_by_round': [7]}

  def play(batch, temperature):
    return [[answered(q, q.id)] for q in batch]

  row = run(play, questions, beside=beside)
  assert seen == ['Ann', 'Bob', 'Cara', 'Dan']
  assert row['yardstick'] == 'search_r1'
  assert row['yardstick_prompt_tokens_by_round'] == [7]
  alone = run(play, questions)
  assert set(row) - set(alone) == {
    'yardstick',
    'yardstick_prompt_tokens_by_round',
  }
  # A wrong name must not put another number in the place of a result.
  with pytest.raises(ValueError, match='gives em, f1, which a row'):
    run(play, questions, beside=lambda groups: {'f1': 1, 'em': 1, 'x': 1})


def test_nothing_to_ask_and_lost_groups():
  with pytest.raises(ValueError, match="'test' has no questions"):
    run(lambda qs, t: [], [])
  with pytest.raises(ValueError, match=r'2 questions of .* came back as 1'):
    run(lambda qs, t: [[answered(qs[0], 'x')]], [question('a'), question('b')])


def test_the_hash_follows_the_data():
  one, two = question('Ann'), question('Bob')
  hashes = [
    evaluate.hash_of(questions)
    for questions in ([one, two], [two, one], [one], [question('Ann!'), two])
  ]
  assert len(set(hashes)) == 4
  assert evaluate.hash_of([question('Ann'), question('Bob')]) == hashes[0]


SOURCES = st.lists(
  st.tuples(st.sampled_from(['nq', 'hotpot', '2wiki']), st.integers(0, 3)),
  min_size=1,
  max_size=60,
)


@given(SOURCES, st.data())
def test_the_quick_subset_keeps_shares_whatever_the_order(strata, data):
  questions = [
    question(f'q{i}', source=source, hops=hops)
    for i, (source, hops) in enumerate(strata)
  ]
  n = data.draw(st.integers(1, len(questions)))
  chosen = evaluate.stratified(questions, n)
  assert len(chosen) == n
  ids = [q.id for q in chosen]
  assert ids == [q.id for q in questions if q.id in set(ids)]  # order kept
  for stratum, count in collections.Counter(strata).items():
    taken = sum((q.source, len(q.hops)) == stratum for q in chosen)
    assert abs(taken - n * count / len(questions)) < 1
  shuffled = data.draw(st.permutations(questions))
  assert {q.id for q in evaluate.stratified(shuffled, n)} == set(ids)


def test_the_quick_subset_by_hand():
  """6, 3, 1 of ten, five wanted: 3, 1.5, .5 -> the first remainder wins."""
  hops = [1] * 6 + [2] * 3 + [3]
  questions = [question(f'q{i}', hops=h) for i, h in enumerate(hops)]
  chosen = evaluate.stratified(questions, 5)
  assert [len(q.hops) for q in chosen] == [1, 1, 1, 2, 2]
  # Not simply the first of each: the head of a file is no random sample.
  first = ['q0', 'q1', 'q2', 'q6', 'q7']
  assert [q.id for q in chosen] != first
  assert evaluate.stratified(questions, 10) == questions
  assert evaluate.stratified(questions, 99) == questions
  with pytest.raises(ValueError, match='at least 1 question'):
    evaluate.stratified(questions, 0)


def test_standard_error_of_a_proportion():
  """The root of p (1 - p) / (n - 1), p = 512/1025: about 1/64."""
  values = np.arange(1025) % 2
  expected = np.sqrt(512 / 1025 * 513 / 1025 / 1024)
  assert evaluate.standard_error(values) == pytest.approx(expected)
