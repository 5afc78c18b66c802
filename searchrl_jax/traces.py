# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Trajectories on disk: one JSON line each, with scores and credit per turn.

A line holds what a reader needs to see *why* a turn got its credit, and no
token rows:

  {"step": 7, "phase": "rl", "question": {id, text, answers, hops, ...},
   "rollout": 2, "status": "answered", "prompt": "...",
   "turns": [{"kind": "SEARCH", "arguments": {"query": "..."}, "text", "reply",
              "evidence": [{source, text, documents}], "span": {row, start,
              stop}, "seconds", "clipped", "failures",
              "signals": {name: value}, "contribution": 1.0,
              "notes": {name: anything}, "advantage": 1.0972}, ...],
   "scores": {"outcome": 1.0, "success": true, "valid": true},
   "sampled_tokens": 31, "given_tokens": 122}

`signals` is empty where a turn was not judged; `contribution`, the product of
CW-GRPO's two signals, stands only where both do. `notes` is what the method
says of the turn's credit (`types.Explanation`), often nothing. A number that is
not finite is null. The rule for interrupted last lines is that of `metrics.py`.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from searchrl_jax import metrics, types

# The two signals whose product is a search turn's contribution in CW-GRPO.
USEFUL, CORRECT = 'retrieval_useful', 'reasoning_correct'


@dataclasses.dataclass(frozen=True)
class Trace:
  """A line read back: a trajectory without token rows, and its numbers.

  `advantages`, `signals`, `contributions` and `notes` have one entry a turn.
  None stands where a number was not finite or not there; `signals` are empty
  where the turn was not judged, `notes` where there was nothing to say or the
  file was written before there were notes.
  """

  step: int
  phase: str
  trajectory: types.Trajectory
  outcome: float | None
  success: bool
  valid: bool
  sampled_tokens: int
  given_tokens: int
  advantages: tuple[float | None, ...]
  signals: tuple[Mapping[str, float | None], ...]
  contributions: tuple[float | None, ...]
  notes: tuple[Mapping[str, Any], ...]


def write(
  file: metrics.JsonLines,
  *,
  step: int,
  phase: str,
  groups: types.Groups,
  scores: types.Scores,
  advantage_BGS: Any,
  notes: Sequence[Sequence[Sequence[Mapping[str, Any]]]],
) -> None:
  """Appends one line per trajectory, groups and rollouts in order.

  Args:
    file: the `traces.jsonl` of a workdir.
    step: number of the learning step.
    phase: `warm_start`, `rl` or `final`.
    groups: B groups of G finished trajectories.
    scores: their raw numbers, [B, G] and [B, G, S].
    advantage_BGS: what each turn received; NaN where there is no such thing.
    notes: `types.Explanation.notes`: `notes[b][g][t]` says more of a turn.
      Like the arrays, they may be of more groups than are written.

  Raises:
    ValueError: the groups do not fit the arrays or the notes.
  """
  advantage_BGS = np.asarray(advantage_BGS)
  # Fetched once: indexing device arrays number by number would be slow.
  scores = dataclasses.replace(
    scores,
    outcome=np.asarray(scores.outcome),
    success=np.asarray(scores.success),
    valid=np.asarray(scores.valid),
    judged=np.asarray(scores.judged),
    signals={k: np.asarray(v) for k, v in scores.signals.items()},
  )
  for b, group in enumerate(groups):
    for g, trajectory in enumerate(group):
      _check_fit(trajectory, advantage_BGS.shape, notes, (b, g))
      file.append(
        {
          'step': step,
          'phase': phase,
          **_head(trajectory),
          'turns': [
            _turn_row(turn, scores, advantage_BGS, (b, g, s))
            | {'notes': notes[b][g][s]}
            for s, turn in enumerate(trajectory.turns)
          ],
          'scores': {
            'outcome': scores.outcome[b, g],
            'success': bool(scores.success[b, g]),
            'valid': bool(scores.valid[b, g]),
          },
          'sampled_tokens': _count(trajectory, sampled=True),
          'given_tokens': _count(trajectory, sampled=False),
        }
      )


def read(path: str | os.PathLike) -> Iterator[Trace]:
  """Streams the traces of a file.

  Tuples inside arguments and metadata come back as lists, as JSON has it.

  Raises:
    ValueError: a line other than the last is broken, with its number.
  """
  for number, row in enumerate(metrics.read_rows(path), start=1):
    try:
      yield _trace(row)
    except (KeyError, TypeError, ValueError) as error:
      raise ValueError(
        f'{path}, line {number}: not a trace ({error!r}). Remove the line, or '
        'read it with the version that wrote it.'
      ) from error


def _check_fit(trajectory, shape_BGS, notes, place) -> None:
  """Refuses credit and notes of other groups than those written."""
  (b, g), turns = place, len(trajectory.turns)
  wanted = (b + 1, g + 1, turns)
  if any(n > m for n, m in zip(wanted, shape_BGS, strict=True)):
    raise ValueError(
      f'trajectory {g} of group {b} has {turns} turns, which do not fit '
      f'advantages of shape {shape_BGS}: score and credit these very groups.'
    )
  if b >= len(notes) or g >= len(notes[b]) or len(notes[b][g]) != turns:
    raise ValueError(
      f'trajectory {g} of group {b} has {turns} turns, and the notes are not '
      'one for each: explain these very groups.'
    )


def _head(trajectory: types.Trajectory) -> dict:
  return {
    'question': trajectory.question,
    'rollout': trajectory.rollout,
    'status': trajectory.status,
    'prompt': trajectory.prompt,
  }


def _turn_row(turn, scores, advantage_BGS, place) -> dict:
  judged = bool(scores.judged[place])
  signals = {k: v[place] for k, v in scores.signals.items()} if judged else {}
  row = {
    'kind': turn.action.kind.name,
    'arguments': turn.action.arguments,
    'text': turn.text,
    'reply': turn.reply,
    'evidence': turn.evidence,
    'span': turn.span,
    'seconds': turn.seconds,
    'clipped': turn.clipped,
    'failures': turn.failures,
    'signals': signals,
  }
  if USEFUL in signals and CORRECT in signals:
    row['contribution'] = signals[USEFUL] * signals[CORRECT]
  return row | {'advantage': advantage_BGS[place]}


def _count(trajectory: types.Trajectory, *, sampled: bool) -> int:
  return sum(int(np.sum(row.sampled == sampled)) for row in trajectory.rows)


def _trace(row: dict) -> Trace:
  turns = row['turns']
  return Trace(
    step=row['step'],
    phase=row['phase'],
    trajectory=types.Trajectory(
      question=_question(row['question']),
      rollout=row['rollout'],
      prompt=row['prompt'],
      turns=tuple(_turn(turn) for turn in turns),
      rows=(),
      status=types.Status(row['status']),
    ),
    outcome=row['scores']['outcome'],
    success=row['scores']['success'],
    valid=row['scores']['valid'],
    sampled_tokens=row['sampled_tokens'],
    given_tokens=row['given_tokens'],
    advantages=tuple(turn['advantage'] for turn in turns),
    signals=tuple(turn['signals'] for turn in turns),
    contributions=tuple(turn.get('contribution') for turn in turns),
    notes=tuple(turn.get('notes', {}) for turn in turns),
  )


def _question(row: dict) -> types.Question:
  return types.Question(
    **{
      **row,
      'answers': tuple(row['answers']),
      'hops': tuple(types.Hop(**hop) for hop in row['hops']),
      'rubrics': tuple(row['rubrics']),
    }
  )


def _turn(row: dict) -> types.Turn:
  return types.Turn(
    action=types.Action(types.Kind[row['kind']], row['arguments']),
    text=row['text'],
    reply=row['reply'],
    evidence=tuple(
      types.Evidence(
        source=evidence['source'],
        text=evidence['text'],
        documents=tuple(types.Document(**d) for d in evidence['documents']),
      )
      for evidence in row['evidence']
    ),
    span=types.Span(**row['span']),
    seconds=math.nan if row['seconds'] is None else row['seconds'],
    clipped=row['clipped'],
    failures=tuple(row['failures']),
  )
