# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Answers are compared in normal form, with any kind of gold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax.rewards import answers


def scores(prediction, gold):
  return (
    float(answers.exact_match(prediction=prediction, gold=gold)),
    answers.f1(prediction=prediction, gold=gold),
    float(answers.contains(prediction=prediction, gold=gold)),
  )


def test_normal_form():
  assert answers.normalise('  The Beatles,\nan  "A-Team"! ') == 'beatles ateam'
  # Articles are dropped as words, not as letters.
  assert answers.normalise('Theatre Anna A.') == 'theatre anna'
  # ASCII punctuation only: other signs may carry the meaning.
  assert answers.normalise('¿Qué?') == '¿qué'


@pytest.mark.parametrize(
  ('prediction', 'gold', 'expected'),
  [
    ('the Paris.', 'Paris', (1, 1, 1)),
    # Two of three words said are not in the gold: p = 1/3, r = 1.
    ('Paris or Lyon', 'Paris', (0, 0.5, 1)),
    # p = 1/2, r = 1/3: 2 / (2 + 3).
    ('New Delhi', 'New York City', (0, 0.4, 0)),
    # Repeated words count once each: one common word of two and one.
    ('Bora Bora', 'Bora', (0, 2 / 3, 1)),
    ('Parisian', 'Paris', (0, 0, 0)),
    ('42', 'forty', (0, 0, 0)),
    # The best gold counts, for each score alone.
    ('Paris or Lyon', ['Paris', 'Paris or Rome'], (0, 2 / 3, 1)),
  ],
)
def test_by_hand(prediction, gold, expected):
  assert scores(prediction, gold) == pytest.approx(expected)


@pytest.mark.parametrize(
  'gold',
  [
    ['Rome', 'Paris'],
    ('Rome', 'Paris'),
    np.array(['Rome', 'Paris']),
    np.array([['Rome'], ['Paris']], object),
    'Paris',
    np.str_('Paris'),
    np.array('Paris'),
  ],
)
def test_gold_may_be_a_list_a_tuple_an_array_or_one_string(gold):
  assert scores('paris', gold) == (1, 1, 1)
  # A bare string is never taken apart into letters.
  assert scores('P', gold) == (0, 0, 0)


@pytest.mark.parametrize('prediction', ['', '   ', '\n', None])
@pytest.mark.parametrize('gold', ['Paris', '', ' ', 'the', '!', ['', 'Paris']])
def test_an_empty_answer_scores_nothing_whatever_the_gold(prediction, gold):
  assert scores(prediction, gold) == (0, 0, 0)


def test_an_answer_that_normalising_empties_is_not_right_by_accident():
  assert scores('the', 'Paris') == (0, 0, 0)
  assert scores('...', ['Paris', 'Rome']) == (0, 0, 0)


def test_a_gold_that_normalising_empties_is_compared_as_it_stands():
  assert scores('The The', 'the  the') == (1, 1, 1)
  assert scores('!!!', '!!!') == (1, 1, 1)
  assert scores('!', '!!!') == (0, 0, 0)
  assert scores('a', 'The') == (0, 0, 0)
  assert scores('anything', 'The') == (0, 0, 0)


def test_no_gold_is_an_error():
  for gold in ([], (), np.array([])):
    with pytest.raises(ValueError, match='no gold answer'):
      answers.exact_match(prediction='x', gold=gold)


def test_prediction_and_gold_cannot_be_swapped():
  for compare in (answers.exact_match, answers.f1, answers.contains):
    with pytest.raises(TypeError):
      compare('Paris or Lyon', 'Paris')


_text = st.text('ab the.!é\n', max_size=12)


@given(_text, st.lists(_text, min_size=1, max_size=3))
def test_scores_agree_with_each_other(prediction, gold):
  match, f1, contained = scores(prediction, gold)
  assert 0 <= match <= f1 <= 1
  assert match <= contained
  assert not contained or f1 > 0
  # More gold answers never hurt.
  assert scores(prediction, [*gold, 'b']) >= (match, f1, contained)
