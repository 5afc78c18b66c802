# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a trajectory said, and what it was credited with, survives the disk."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchrl_jax import metrics, traces, types

NASTY = 'He said "hi" {"a": 1}\n\r\n\t| 東京 🙂 \u2028 </script> \\ \x00 \ud83d'


def token_row(sampled):
  n = len(sampled)
  return types.TokenRow(
    tokens=np.arange(n, dtype=np.int32),
    sampled=np.asarray(sampled, bool),
    turn_id=np.where(sampled, 0, -1).astype(np.int32),
    logps=np.zeros(n, np.float32),
  )


def trajectory(turns=2, rollout=0, text=NASTY):
  """Searches, then an answer; the strings are as nasty as `text`."""
  document = types.Document(id='d1', title=text, text=text)
  search = types.Turn(
    action=types.Action(
      types.Kind.SEARCH, {'query': text, 'thought': text, 'n': [1, None]}
    ),
    text=text,
    reply=text,
    evidence=(types.Evidence('external', text, (document,)),),
    span=types.Span(0, 3, 7),
    seconds=0.25,
    clipped=True,
    failures=(text,),
  )
  answer = types.Turn(
    action=types.Action(types.Kind.ANSWER, {'answer': text}),
    text=text,
    reply='',
    evidence=(),
    span=types.Span(0, 11, 13),
    seconds=0.5,
  )
  return types.Trajectory(
    question=types.Question(
      id='q',
      text=text,
      answers=(text, 'b'),
      source='nq',
      corpus='wiki',
      hops=(types.Hop(text, 'spouse', 'Ann', 'd1'),),
      rubrics=('<E0> is tall',),
      metadata={'split': text, 'list': [1, {'a': None}]},
    ),
    rollout=rollout,
    prompt=text,
    turns=(search,) * (turns - 1) + (answer,),
    rows=(token_row([0, 0, 0, 1, 1]), token_row([0, 1])),
    status=types.Status.ANSWERED,
  )


def scores_of(groups, *, signals, judged):
  shape = (len(groups), len(groups[0]))
  return types.Scores(
    outcome=np.full(shape, 0.5, np.float32),
    success=np.ones(shape, bool),
    valid=np.ones(shape, bool),
    kind=np.ones(judged.shape, np.int32),
    judged=judged,
    signals=signals,
  )


def no_notes(groups):
  return [[[{} for _ in one.turns] for one in group] for group in groups]


def save(path, groups, scores, advantage_BGS, step=0, notes=None):
  file = metrics.JsonLines(path)
  traces.write(
    file,
    step=step,
    phase='rl',
    groups=groups,
    scores=scores,
    advantage_BGS=advantage_BGS,
    notes=no_notes(groups) if notes is None else notes,
  )
  file.close()


def plain_scores(groups, turns):
  judged = np.zeros((len(groups), len(groups[0]), turns), bool)
  return scores_of(groups, signals={}, judged=judged)


def test_a_trajectory_comes_back_without_its_token_rows(tmp_path):
  groups = [[trajectory(rollout=0), trajectory(rollout=1)]]
  save(tmp_path / 't', groups, plain_scores(groups, 2), np.zeros((1, 2, 2)))
  back = list(traces.read(tmp_path / 't'))
  expected = [dataclasses.replace(t, rows=()) for t in groups[0]]
  assert [trace.trajectory for trace in back] == expected
  assert (tmp_path / 't').read_bytes().count(b'\n') == 2
  # sampled 2 + 1, given 3 + 1: over both rows, never the sum of the two
  assert (back[0].sampled_tokens, back[0].given_tokens) == (3, 4)
  assert (back[0].step, back[0].phase, back[0].outcome) == (0, 'rl', 0.5)


@settings(max_examples=50, deadline=None)
@given(text=st.text())
def test_any_text_comes_back(tmp_path_factory, text):
  path = tmp_path_factory.mktemp('any') / 't'
  groups = [[trajectory(text=text)]]
  save(path, groups, plain_scores(groups, 2), np.zeros((1, 1, 2)))
  [back] = traces.read(path)
  assert back.trajectory == dataclasses.replace(groups[0][0], rows=())


def test_numbers_land_on_their_own_turn(tmp_path):
  """Unequal lengths, distinct primes: a leak between rows cannot hide."""
  groups = [
    [trajectory(3, 0), trajectory(2, 1)],
    [trajectory(1, 0), trajectory(3, 1)],
  ]
  primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37]
  advantage_BGS = np.asarray(primes, np.float32).reshape(2, 2, 3)
  judged = np.zeros((2, 2, 3), bool)
  judged[0, 0, :2] = judged[1, 1, 1] = True
  useful, correct = np.zeros((2, 2, 2, 3), np.float32)
  useful[0, 0, :2], correct[0, 0, :2] = [1, 0.5], [1, 0.5]
  useful[1, 1, 1], correct[1, 1, 1] = 1, 0
  signals = {'retrieval_useful': useful, 'reasoning_correct': correct}
  scores = scores_of(groups, signals=signals, judged=judged)
  save(tmp_path / 't', groups, scores, advantage_BGS)
  back = list(traces.read(tmp_path / 't'))
  assert [trace.advantages for trace in back] == [
    (2, 3, 5),
    (7, 11),  # 13 is padding
    (17,),  # 19, 23 are padding
    (29, 31, 37),
  ]
  assert back[0].contributions == (1, 0.25, None)  # .5 * .5; answer unjudged
  assert back[3].contributions == (None, 0, None)
  assert back[0].signals[1] == {
    'retrieval_useful': 0.5,
    'reasoning_correct': 0.5,
  }
  assert back[0].signals[2] == {} and back[1].signals == ({}, {})


def test_one_signal_alone_makes_no_contribution(tmp_path):
  groups = [[trajectory(2)]]
  judged = np.ones((1, 1, 2), bool)
  ones = np.ones((1, 1, 2), np.float32)
  scores = scores_of(groups, signals={'retrieval_useful': ones}, judged=judged)
  save(tmp_path / 't', groups, scores, np.zeros((1, 1, 2)))
  [back] = traces.read(tmp_path / 't')
  assert back.contributions == (None, None)
  assert back.signals[0] == {'retrieval_useful': 1}


def test_non_finite_numbers_are_null(tmp_path):
  groups = [[trajectory(2)]]
  turn = dataclasses.replace(groups[0][0].turns[0], seconds=math.inf)
  answer = groups[0][0].turns[1]
  groups = [[dataclasses.replace(groups[0][0], turns=(turn, answer))]]
  scores = dataclasses.replace(
    plain_scores(groups, 2), outcome=np.full((1, 1), np.nan)
  )
  advantage_BGS = np.asarray([[[np.nan, -np.inf]]])
  save(tmp_path / 't', groups, scores, advantage_BGS)

  def refuse(name):
    raise AssertionError(f'{name} is not JSON')

  json.loads((tmp_path / 't').read_text(), parse_constant=refuse)
  [back] = traces.read(tmp_path / 't')
  assert back.outcome is None and back.advantages == (None, None)
  assert math.isnan(back.trajectory.turns[0].seconds)


def test_notes_stand_on_their_own_turn(tmp_path):
  """Whatever they hold; numbers that are not finite become null."""
  groups = [[trajectory(2, 0), trajectory(1, 1)], [trajectory(1, 0)]]
  fact = {
    'fact': [NASTY, 'spouse', 'Ann'],
    'cluster': np.int32(4),
    'utility': np.float32(0.25),
    'new': True,
  }
  notes = [
    [[{'shaping': 2.0, 'facts': [fact]}, {}], [{'shaping': math.nan}]],
    [[{'penalty': -3.0}]],
  ]
  # Those of a group that is not recorded do no harm.
  notes.append([[{'shaping': 5.0}]])
  save(
    tmp_path / 't',
    groups,
    scores_of(groups, signals={}, judged=np.zeros((2, 2, 2), bool)),
    np.zeros((2, 2, 2)),
    notes=notes,
  )
  back = [trace.notes for trace in traces.read(tmp_path / 't')]
  told = {'fact': [NASTY, 'spouse', 'Ann'], 'cluster': 4, 'utility': 0.25}
  assert back == [
    ({'shaping': 2.0, 'facts': [told | {'new': True}]}, {}),
    ({'shaping': None},),
    ({'penalty': -3.0},),
  ]


def test_files_from_before_there_were_notes_are_read(tmp_path):
  path = tmp_path / 't'
  groups = [[trajectory(3)]]
  notes = [[[{'shaping': 2.0}, {}, {}]]]
  save(path, groups, plain_scores(groups, 3), np.zeros((1, 1, 3)), notes=notes)
  row = json.loads(path.read_text())
  for turn in row['turns']:
    del turn['notes']
  path.write_text(json.dumps(row) + '\n')
  [back] = traces.read(path)
  assert back.notes == ({}, {}, {})
  assert back.trajectory == dataclasses.replace(groups[0][0], rows=())


def test_no_turns_at_all(tmp_path):
  """A prompt that fills the context ends before its first turn."""
  empty = dataclasses.replace(
    trajectory(), turns=(), rows=(), status=types.Status.CONTEXT_LIMIT
  )
  groups = [[empty]]
  save(tmp_path / 't', groups, plain_scores(groups, 0), np.zeros((1, 1, 0)))
  [back] = traces.read(tmp_path / 't')
  assert back.trajectory == empty and back.advantages == ()


def test_credit_of_other_groups_is_refused(tmp_path):
  groups = [[trajectory(3)]]
  with pytest.raises(ValueError, match='3 turns, which do not fit'):
    save(tmp_path / 't', groups, plain_scores(groups, 3), np.zeros((1, 1, 2)))


@pytest.mark.parametrize(
  'notes',
  [
    [],  # of no group
    [[]],  # of no rollout
    [[[{}, {}]]],  # of two turns
    [[[{}, {}, {}, {}]]],
  ],
)
def test_notes_of_other_groups_are_refused(tmp_path, notes):
  groups = [[trajectory(3)]]
  scores = plain_scores(groups, 3)
  with pytest.raises(ValueError, match='3 turns, and the notes are not one'):
    save(tmp_path / 't', groups, scores, np.zeros((1, 1, 3)), notes=notes)
  assert not (tmp_path / 't').exists()


def test_a_killed_writer_and_a_broken_line(tmp_path):
  path = tmp_path / 't'
  for step in range(3):
    groups = [[trajectory()]]
    save(path, groups, plain_scores(groups, 2), np.zeros((1, 1, 2)), step)
  content = path.read_bytes()
  path.write_bytes(content[:-20])
  assert [trace.step for trace in traces.read(path)] == [0, 1]

  lines = content.decode().splitlines(keepends=True)
  path.write_text(lines[0] + lines[1][:50] + '\n' + lines[2])
  with pytest.raises(ValueError, match='line 2: not a JSON object'):
    list(traces.read(path))
  path.write_text(lines[0] + '{"step": 4}\n' + lines[2])
  with pytest.raises(ValueError, match='line 2: not a trace'):
    list(traces.read(path))
