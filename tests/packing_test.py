# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Trajectories become rows, and every token arrives once."""

import dataclasses

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from searchrl_jax import packing, testing, types
from searchrl_jax.rollout import engine, policy


def row(text, first=0):
  """'p' is a given token; a digit is a sampled token of that turn. Tokens are
  numbered from `first`, log-probs are minus the token."""
  tokens = np.arange(first, first + len(text), dtype=np.int32)
  turn_id = np.array([-1 if c == 'p' else int(c) for c in text], np.int32)
  sampled = turn_id >= 0
  logps = np.where(sampled, -tokens, 0).astype(np.float32)
  return types.TokenRow(tokens, sampled, turn_id, logps)


def trajectory(*rows, rollout=0):
  question = types.Question('q', 'q', ('a',))
  return types.Trajectory(
    question, rollout, '', (), rows, types.Status.ANSWERED
  )


def test_a_hand_drawn_batch():
  """Rows of 8. b does not fit behind a, c does; d has two token rows, the
  first of which fits behind b.

    a  p p 0 0          row 0   a a a a c c c .
    b  p p p 0 p 1      row 1   b b b b b b d d
    c  p 0 0            row 2   D D D . . . . .
    d  p 0   D  p p 1   row 3   . . . . . . . .    a multiple of 2
  """
  a = trajectory(row('pp00', 10))
  b = trajectory(row('ppp0p1', 20))
  c = trajectory(row('p00', 30))
  d = trajectory(row('p0', 40), row('pp1', 50))
  batch = packing.pack([[a, b], [c, d]], length=8, multiple=2)
  expected = {
    'tokens': [
      [10, 11, 12, 13, 30, 31, 32, 0],
      [20, 21, 22, 23, 24, 25, 40, 41],
      [50, 51, 52, 0, 0, 0, 0, 0],
      [0] * 8,
    ],
    'positions': [
      [0, 1, 2, 3, 0, 1, 2, 0],
      [0, 1, 2, 3, 4, 5, 0, 1],
      [0, 1, 2, 0, 0, 0, 0, 0],
      [0] * 8,
    ],
    'segment_ids': [
      [1, 1, 1, 1, 2, 2, 2, 0],
      [1, 1, 1, 1, 1, 1, 2, 2],
      [1, 1, 1, 0, 0, 0, 0, 0],
      [0] * 8,
    ],
    'sampled': [
      [0, 0, 1, 1, 0, 1, 1, 0],
      [0, 0, 0, 1, 0, 1, 0, 1],
      [0, 0, 1, 0, 0, 0, 0, 0],
      [0] * 8,
    ],
    'turn_id': [
      [-1, -1, 0, 0, -1, 0, 0, -1],
      [-1, -1, -1, 0, -1, 1, -1, 0],
      [-1, -1, 1, -1, -1, -1, -1, -1],
      [-1] * 8,
    ],
    'trajectory_id': [
      [0, 0, 0, 0, 2, 2, 2, -1],
      [1, 1, 1, 1, 1, 1, 3, 3],
      [3, 3, 3, -1, -1, -1, -1, -1],
      [-1] * 8,
    ],
    'sampler_logps': [
      [0, 0, -12, -13, 0, -31, -32, 0],
      [0, 0, 0, -23, 0, -25, 0, -41],
      [0, 0, -52, 0, 0, 0, 0, 0],
      [0] * 8,
    ],
  }
  for name, array in expected.items():
    np.testing.assert_array_equal(getattr(batch, name), array, err_msg=name)


def test_dtypes_are_those_of_the_batch():
  batch = packing.pack([[trajectory(row('p0'))]], length=4)
  dtypes = {f.name: getattr(batch, f.name).dtype for f in _fields()}
  assert dtypes.pop('sampled') == np.bool_
  assert dtypes.pop('sampler_logps') == np.float32
  assert set(dtypes.values()) == {np.dtype(np.int32)}


def _fields():
  return dataclasses.fields(types.Batch)


def test_a_row_that_is_too_long_is_one_line():
  with pytest.raises(ValueError, match='has 5 tokens and packed rows 4') as e:
    packing.pack([[trajectory(row('ppp00'))]], length=4)
  assert '\n' not in str(e.value)
  batch = packing.pack([[trajectory(row('pp00'))]], length=4)
  assert batch.segment_ids.tolist() == [[1, 1, 1, 1]]


@pytest.mark.parametrize('multiple, rows', [(1, 3), (2, 4), (3, 3), (8, 8)])
def test_rows_are_rounded_up(multiple, rows):
  members = [trajectory(row('p00')) for _ in range(3)]
  batch = packing.pack([members], length=5, multiple=multiple)
  assert batch.tokens.shape == (rows, 5)
  assert not batch.segment_ids[3:].any()


def test_what_is_not_kept_leaves_the_numbers_of_the_others():
  members = [
    [trajectory(row('p0', 10 * (2 * b + g))) for g in (0, 1)] for b in (0, 1)
  ]
  keep = np.array([[False, True], [True, False]])
  batch = packing.pack(members, length=4, keep=keep)
  assert batch.trajectory_id.tolist() == [[1, 1, 2, 2]]
  assert batch.tokens.tolist() == [[10, 11, 20, 21]]


def test_nothing_to_keep_is_a_batch_of_padding():
  batch = packing.pack(
    [[trajectory(row('p0'))]], length=4, multiple=2, keep=[[False]]
  )
  assert batch.tokens.shape == (2, 4)
  assert not batch.segment_ids.any()
  assert not batch.sampled.any()


# --- properties --------------------------------------------------------------


@st.composite
def groups(draw):
  """B groups of G trajectories of one to three rows; tokens are unique."""
  b, g = draw(st.integers(1, 3)), draw(st.integers(1, 3))
  texts = st.lists(
    st.text('p012', min_size=1, max_size=9), min_size=1, max_size=3
  )
  first, made = 1, []
  for _ in range(b):
    members = []
    for rollout in range(g):
      rows = []
      for text in draw(texts):
        rows.append(row(text, first))
        first += len(text)
      members.append(trajectory(*rows, rollout=rollout))
    made.append(members)
  return made


def unpack(batch):
  """(trajectory_id, row of tokens) of every segment, in order of tokens."""
  segments = []
  for n in range(len(batch.tokens)):
    for segment in range(1, batch.segment_ids[n].max(initial=0) + 1):
      at = np.flatnonzero(batch.segment_ids[n] == segment)
      assert (np.diff(at) == 1).all()  # in one piece
      assert batch.positions[n, at].tolist() == list(range(len(at)))
      (number,) = set(batch.trajectory_id[n, at].tolist())
      segments.append(
        (
          number,
          types.TokenRow(
            batch.tokens[n, at],
            batch.sampled[n, at],
            batch.turn_id[n, at],
            batch.sampler_logps[n, at],
          ),
        )
      )
  return sorted(segments, key=lambda pair: pair[1].tokens[0])


@hypothesis.given(groups(), st.integers(9, 30), st.integers(1, 4))
def test_unpacking_gives_back_what_was_packed(made, length, multiple):
  batch = packing.pack(made, length=length, multiple=multiple)
  group = len(made[0])
  original = [
    (b * group + g, token_row)
    for b, members in enumerate(made)
    for g, member in enumerate(members)
    for token_row in member.rows
  ]
  unpacked = unpack(batch)
  assert len(unpacked) == len(original)
  for (number, one), (other_number, other) in zip(
    unpacked, original, strict=True
  ):
    assert number == other_number
    for field in dataclasses.fields(types.TokenRow):
      np.testing.assert_array_equal(
        getattr(one, field.name), getattr(other, field.name)
      )
  # Every sampled token once, and nothing sampled in the padding.
  assert batch.sampled.sum() == sum(r.sampled.sum() for _, r in original)
  padding = batch.segment_ids == 0
  assert not batch.sampled[padding].any()
  assert (batch.trajectory_id[padding] == -1).all()
  assert (batch.turn_id[~batch.sampled] == -1).all()


@hypothesis.given(groups(), st.integers(9, 30))
def test_no_two_half_empty_rows_in_a_row(made, length):
  """First fit: at most one row is half empty or less."""
  batch = packing.pack(made, length=length)
  used = (batch.segment_ids > 0).sum(axis=1)
  assert (used * 2 <= length).sum() <= 1


def test_who_ends_first_does_not_matter():
  """Question 0 takes three turns and question 1 one, together and apart."""
  toy = testing.ToyTokenizer()

  def script(question, turns):
    if len(turns) == int(question.text):
      return types.Action(types.Kind.ANSWER, {'answer': 'x'})
    return types.Action(types.Kind.ASSERT, {'triples': ['y']})

  def play(*texts):
    environment = testing.Notebook()
    return engine.rollout(
      policy.ScriptPolicy(script, environment, toy),
      environment,
      [types.Question(text, text, ('x',)) for text in texts],
      testing.DictionarySearch({}),
      toy,
      group=1,
      limits=engine.Limits(20, 60, 40),
    )

  together = packing.pack(play('2', '0'), length=40)
  apart = packing.pack([*play('2'), *play('0')], length=40)
  assert set(together.trajectory_id[together.sampled]) == {0, 1}
  for field in _fields():
    np.testing.assert_array_equal(
      getattr(together, field.name), getattr(apart, field.name)
    )
