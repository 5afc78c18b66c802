# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Words of negation deny; what only looks like one does not."""

import hypothesis
import hypothesis.strategies as st
import pytest

from searchrl_jax.rewards.negation import negated


@pytest.mark.parametrize(
  'text',
  [
    'not born in',
    'NOT born in',
    'was never married to',
    "isn't the capital of",
    'isn’t the capital of',
    'didnt win',
    'cannot be seen from',
    'has no children',
    'is no longer part of',
    'none',
    'nobody',
    'without',
    'non-member of',
    'neither in Rome nor in Oslo',  # one negation, not two
    'not in Rome nor in Oslo',
    'nor in Oslo',
    'not_born_in',
    'notBornIn',
    '不是',
    '不出生于',
    '没有参加',
    '未获得',
    '並非',
    '不 位于',
  ],
)
def test_denied(text):
  assert negated(text)


@pytest.mark.parametrize(
  'text',
  [
    '',
    'born in',
    'North Norway',
    'Notre Dame',
    'knot',
    'nonet',
    'another',
    'Nora',
    'can',
    'want',
    'parent',  # ends in nt
    'No. 5',
    'No 10 Downing Street',
    'not only in',
    'none other than',
    'nothing but',
    'never not in use',  # two cancel
    "isn't without",
    '不丹',
    '无锡',
    '非洲',
    '未来',
    '沉没',
  ],
)
def test_not_denied(text):
  assert not negated(text)


def test_a_third_negation_denies_again():
  assert [negated('not ' * n + 'in use') for n in range(4)] == [
    False,
    True,
    False,
    True,
  ]


@hypothesis.given(text=st.text())
def test_denying_a_text_turns_the_verdict(text):
  hypothesis.assume('nor' not in text.lower())  # "not A nor B" is one
  assert negated(f'not : {text}') != negated(text)
