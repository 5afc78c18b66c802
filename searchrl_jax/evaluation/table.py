# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of evaluations: of one run, and of methods over seeds.

A method's numbers come from the files of its workdirs, one workdir a seed:

  method | EM sampled | EM greedy | searches per question | useless searches
  per success | steps to EM .60 | tokens generated | seconds
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from rich import table

from searchrl_jax import metrics

TARGET = 0.6  # of the training EM, in `steps_to`
WINDOW = 5  # steps averaged: one batch of training questions is noisy


@dataclasses.dataclass(frozen=True)
class Run:
  """What the table says of one seed; None where the run does not say it."""

  em_sampled: float | None
  em_greedy: float | None
  searches: float | None
  useless_searches: float | None
  steps_to_target: float | None
  tokens: float
  seconds: float


# Column -> (field, format of its numbers).
COLUMNS = {
  'EM sampled': ('em_sampled', '.3f'),
  'EM greedy': ('em_greedy', '.3f'),
  'searches per question': ('searches', '.2f'),
  'useless searches per success': ('useless_searches', '.3f'),
  f'steps to EM {TARGET:.2f}'.replace('0.', '.'): ('steps_to_target', '.1f'),
  'tokens generated': ('tokens', ',.0f'),
  'seconds': ('seconds', '.0f'),
}


def steps_to(
  rows: Iterable[metrics.Row], *, target: float = TARGET, window: int = WINDOW
) -> int | None:
  """Steps of reinforcement learning until the training EM reaches a target.

  The first number of steps whose last `window` have a mean EM of at least
  the target; None where it is never reached.

      em .4 .5 .6 .7 .8, window 3, target .6: means -, -, .5, .6 -> 4 steps
  """
  em = [row['em'] for row in rows if row['phase'] == 'rl']
  for stop in range(window, len(em) + 1):
    last = [value for value in em[stop - window : stop] if value is not None]
    # Rounded: a mean of exact hundredths must not miss the target by 1e-16.
    if last and round(sum(last) / len(last), 9) >= target:
      return stop
  return None


def read_run(
  workdir: str | os.PathLike, *, split: str, trajectories: int
) -> Run:
  """Reads what a finished run says of itself.

  EM, searches and useless searches are of the last evaluation of `split` in
  the phase `final`, searches at sampling temperature. Tokens and seconds are
  those of the reinforcement learning steps alone, without evaluations and
  compilation: a warm start may be shared, and whoever runs first compiles.

  Args:
    workdir: with `metrics.jsonl` and `evaluation.jsonl`.
    split: question set to report.
    trajectories: of a step, questions times rollouts. Rows say how many tokens
      one trajectory sampled on average.

  Raises:
    ValueError: the run has no final evaluation of the split.
  """
  workdir = pathlib.Path(workdir)
  path = workdir / 'evaluation.jsonl'
  final = {'sampled': {}, 'greedy': {}}
  for row in metrics.read_rows(path) if path.exists() else ():
    if row['phase'] == 'final' and row['split'] == split:
      final['greedy' if row['temperature'] == 0 else 'sampled'] = row
  sampled, greedy = final['sampled'], final['greedy']
  if not sampled and not greedy:
    raise ValueError(
      f'{workdir} has no final evaluation of {split!r}: let the run finish, '
      'or name a split that it evaluated.'
    )
  rows = [
    row
    for row in metrics.read_rows(workdir / 'metrics.jsonl')
    if row['phase'] == 'rl'
  ]
  return Run(
    em_sampled=sampled.get('em'),
    em_greedy=greedy.get('em'),
    searches=sampled.get('searches'),
    useless_searches=sampled.get('useless_searches_per_success'),
    steps_to_target=steps_to(rows),
    tokens=trajectories * sum(row['sampled_tokens'] for row in rows),
    seconds=sum(_worked(row) for row in rows),
  )


def _worked(row: metrics.Row) -> float:
  """Seconds of a step but for evaluating and compiling."""
  apart = ('seconds_evaluation', 'seconds_compilation')
  return row['seconds_total'] - sum(row.get(name, 0.0) for name in apart)


def compare(methods: Mapping[str, Sequence[Run]]) -> list[dict[str, str]]:
  """One row a method: mean ± sample std (ddof 1) over its seeds.

  A number that some seeds lack is averaged over those that have it, and says
  how many: `31.0 ± 1.4 (2 of 3)`. Without any it is an em dash.
  """
  rows = []
  for method, runs in methods.items():
    row = {'method': method}
    for column, (field, style) in COLUMNS.items():
      row[column] = _mean_std([getattr(run, field) for run in runs], style)
    rows.append(row)
  return rows


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
  """The comparison as a table for a README."""
  names = ['method', *COLUMNS]
  lines = [names, ['---'] * len(names)]
  lines += [[row[name].replace('|', r'\|') for name in names] for row in rows]
  return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def evaluations(rows: Iterable[metrics.Row]) -> table.Table:
  """The evaluations of one run as a table for a terminal.

  Sets of several sources show the mean over questions and over sources.
  """
  names = ['step', 'phase', 'split', 'T', 'n', 'EM', 'EM macro', 'F1']
  names += ['answered', 'searches', 'useless', 'seconds']
  return _rich(names, [_evaluation(row) for row in rows])


def _evaluation(row: metrics.Row) -> list[str]:
  em = _number(row['em'], '.3f')
  if row['em_stderr'] is not None:
    em += f' ± {row["em_stderr"]:.3f}'
  return [
    str(row['step']),
    row['phase'],
    row['split'],
    f'{row["temperature"]:g}',
    str(row['n']),
    em,
    _number(row.get('em_macro'), '.3f'),  # one source has none
    _number(row['f1'], '.3f'),
    _number(row['answered'], '.3f'),
    _number(row['searches'], '.2f'),
    _number(row['useless_searches_per_success'], '.3f'),
    _number(row['seconds'], '.1f'),
  ]


def _rich(names: Sequence[str], rows: Sequence[Sequence[str]]) -> table.Table:
  made = table.Table()
  for i, name in enumerate(names):
    made.add_column(name, justify='left' if i == 0 else 'right')
  for row in rows:
    # Names are data: rich must not take brackets in them for markup.
    made.add_row(*(cell.replace('[', r'\[') for cell in row))
  return made


def _number(value: float | None, style: str) -> str:
  return '—' if value is None else format(value, style)


def _mean_std(values: Sequence[float | None], style: str) -> str:
  known = [v for v in values if v is not None and math.isfinite(v)]
  if not known:
    return '—'
  text = format(float(np.mean(known)), style)
  if len(known) > 1:
    text += f' ± {float(np.std(known, ddof=1)):{style}}'
  if len(known) < len(values):
    text += f' ({len(known)} of {len(values)})'
  return text
