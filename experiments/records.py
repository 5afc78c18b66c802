# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a run writes down: metrics, evaluations, traces, warnings."""

import pathlib

import ml_collections

from searchrl_jax import metrics, traces
from searchrl_jax.diagnostics.alarms import Alarms, Thresholds

METRICS, EVALUATION, TRACES = (
  'metrics.jsonl',
  'evaluation.jsonl',
  'traces.jsonl',
)

_WORK = ('rollout', 'rewards', 'packing', 'update')


class Records:
  """The files of a workdir, cut back to where a run goes on."""

  def __init__(self, workdir: pathlib.Path, config: ml_collections.ConfigDict):
    self._workdir = workdir
    self._section = config.traces
    self._rows = config.rollout.questions * config.rollout.group
    self._alarms = Alarms(Thresholds())
    self._evaluation = metrics.JsonLines(workdir / EVALUATION)
    self._traces = metrics.JsonLines(workdir / TRACES)
    self._metrics: metrics.Metrics | None = None

  def resume(self, done: int) -> None:
    """Drops everything after step `done`, or all of it for a new run."""
    first = done + 1 if done else 0
    self._metrics = metrics.Metrics(self._workdir, next_step=first)
    self._evaluation.cut_back(first)
    self._traces.cut_back(first)
    path = self._workdir / METRICS
    if path.exists():
      for row in metrics.read_rows(path):
        self._alarms.update(row)

  def log(self, row: dict, compiled_programs: int) -> dict:
    """Writes a step's row; prints the warnings it gives rise to."""
    tokens = row['sampled_tokens'] + row['given_tokens']
    row['compiled_programs'] = compiled_programs
    if row['phase'] == 'rl':
      # Evaluations, checkpoints and compilation are no part of a step's work.
      worked = sum(row[f'seconds_{part}'] for part in _WORK)
      row['tokens_per_second'] = tokens * self._rows / worked
    self._metrics.write(row)
    for warning in self._alarms.update(row):
      print(f'WARNING: {warning}', flush=True)
    return row

  def evaluation(self, row: dict) -> None:
    """Writes an evaluation's row."""
    self._evaluation.append(row)
    name = f'{row["phase"]}/{row["split"]}/t{row["temperature"]:g}'
    self._metrics.show(row, group=f'evaluation/{name}')

  def traces(self, step, groups, scores, advantage_BGS, explanation) -> None:
    """Writes the first groups of some steps."""
    if step % self._section.every == 0:
      count = self._section.groups
      traces.write(
        self._traces,
        step=step,
        phase='rl',
        groups=groups[:count],
        scores=scores,
        advantage_BGS=advantage_BGS,
        notes=explanation.notes[:count],
      )

  def close(self) -> None:
    for file in (self._metrics, self._evaluation, self._traces):
      if file is not None:
        file.close()
