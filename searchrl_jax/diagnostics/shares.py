# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Where the time of a run went, from its rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from searchrl_jax import metrics

PARTS = (
  'compilation',
  'warm start',
  'rollout',
  'rewards',
  'update',
  'evaluation',
  'other',
)


def seconds_by_part(
  metrics_rows: Iterable[metrics.Row], evaluation_rows: Iterable[metrics.Row]
) -> dict[str, float]:
  """Adds up the seconds of a run by what they were spent on.

  A row may carry `seconds_compilation`, the part of its seconds spent in
  compiling; a step's other parts are then without it.

      seconds_total = compilation + rollout + rewards + update + evaluation
                      + other

  The steps of a warm start count as one part, whatever they did. Evaluations
  of a step are in the step's row, what they compiled included; those of no
  step, such as before the first, are counted by their own rows, whose
  `seconds` include compilation.

  Args:
    metrics_rows: rows of `metrics.jsonl`.
    evaluation_rows: rows of `evaluation.jsonl`.

  Returns:
    Seconds for each of `PARTS`, in that order, 0 where nothing was spent.
  """
  seconds = dict.fromkeys(PARTS, 0.0)
  steps = set()
  for row in metrics_rows:
    steps.add(row['step'])
    compilation = _seconds(row, 'seconds_compilation')
    evaluation = _seconds(row, 'seconds_evaluation')
    total = _seconds(row, 'seconds_total') - evaluation
    seconds['compilation'] += compilation
    seconds['evaluation'] += evaluation
    if row['phase'] == 'warm_start':
      seconds['warm start'] += max(0.0, total - compilation)
      continue
    rest = total - compilation
    for part in ('rollout', 'rewards', 'update'):
      spent = _seconds(row, f'seconds_{part}')
      seconds[part] += spent
      rest -= spent
    seconds['other'] += max(0.0, rest)
  for row in evaluation_rows:
    if row['step'] in steps:
      continue
    compilation = _seconds(row, 'seconds_compilation')
    seconds['compilation'] += compilation
    spent = _seconds(row, 'seconds')
    seconds['evaluation'] += max(0.0, spent - compilation)
  return seconds


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
  """Each part's share of all seconds; all 0 where no second was spent."""
  total = sum(seconds.values())
  return {k: v / total if total else 0.0 for k, v in seconds.items()}


def line(seconds: Mapping[str, float]) -> str:
  """One line for the end of a run, parts without seconds left out.

  300 s: compilation 12%, warm start 40%, rollout 22%, update 20%, ...
  """
  parts = [
    f'{part} {share:.0%}'
    for part, share in shares(seconds).items()
    if seconds[part] > 0
  ]
  return f'{sum(seconds.values()):.0f} s: {", ".join(parts) or "nothing yet"}'


def _seconds(row: metrics.Row, name: str) -> float:
  """A row's seconds, 0 where it has none: phases report different parts."""
  value = row.get(name)
  return float(value) if value is not None else 0.0
