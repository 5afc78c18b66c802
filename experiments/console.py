# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a person sees while a run goes on, and when it ends."""

import pathlib
import time

import rich.console
import rich.progress

from experiments.records import EVALUATION, METRICS
from searchrl_jax import metrics
from searchrl_jax.diagnostics import shares
from searchrl_jax.evaluation import table

# The most telling numbers, with the names of the bar.
_TELLING = {
  'loss': 'loss',
  'em': 'em',
  'searches': 'searches',
  'useless_searches_per_success': 'useless',
  'entropy': 'entropy',
}
_WIDTH = 120  # of a file, which has none of its own
_LAST = 10  # steps of reinforcement learning that the summary averages
_QUIET_SECONDS = 15  # between lines where no terminal shows a bar


class Progress:
  """A bar in a terminal, a line now and then elsewhere."""

  def __init__(self, name: str, total: int, done: int):
    self._console = rich.console.Console()
    self._name, self._total = name, total
    self._bar = rich.progress.Progress(
      rich.progress.TextColumn('{task.description}'),
      rich.progress.BarColumn(),
      rich.progress.MofNCompleteColumn(),
      rich.progress.TimeRemainingColumn(),
      rich.progress.TextColumn('{task.fields[telling]}'),
      console=self._console,
      disable=not self._console.is_terminal,
    )
    self._task = self._bar.add_task(
      name, total=total, completed=done, telling=''
    )
    self._last_line = 0.0

  def __enter__(self):
    self._bar.start()
    return self

  def __exit__(self, *_):
    self._bar.stop()

  def show(self, row: dict) -> None:
    """Moves the bar to the row's step."""
    telling = ' '.join(
      f'{short} {row[name]:.3f}'
      for name, short in _TELLING.items()
      if row.get(name) is not None
    )
    if self._console.is_terminal:
      self._bar.update(
        self._task,
        completed=row['step'],
        description=f'{self._name} {row["stage"]}',
        telling=telling,
      )
    elif time.monotonic() - self._last_line > _QUIET_SECONDS:
      self._last_line = time.monotonic()
      print(
        f'step {row["step"]}/{self._total} {row["stage"]} {telling}',
        flush=True,
      )


def summary(workdir: pathlib.Path, report: pathlib.Path) -> None:
  """The evaluations of a run, where its time went, where to look."""
  console = rich.console.Console()
  if not console.is_terminal:
    console = rich.console.Console(width=_WIDTH)
  steps = list(metrics.read_rows(workdir / METRICS))
  rows = []
  if (workdir / EVALUATION).exists():
    rows = list(metrics.read_rows(workdir / EVALUATION))
  console.print(table.evaluations(rows))
  learning = [row for row in steps if row['phase'] == 'rl'][-_LAST:]
  if learning:
    console.print(_form(learning))
  console.print(shares.line(shares.seconds_by_part(steps, rows)))
  console.print(f'report: {report}')


def _form(rows: list[dict]) -> str:
  """Whether the policy is understood, and whether its rollouts differ."""
  searches = sum(row['searches'] for row in rows)
  tried = searches + sum(row['malformed'] for row in rows)
  formed = f'{searches / tried:.0%}' if tried else 'none'
  silent = sum(row['zero_spread_fraction'] for row in rows) / len(rows)
  return (
    f'last {len(rows)} steps: well-formed searches {formed} of the turns that '
    f'were no answer, zero-spread groups {silent:.0%}'
  )
