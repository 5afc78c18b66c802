# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""report.html: a run on one page, drawn from the files of its workdir.

One self-contained file that needs no network and no other file. What is
missing is said to be missing; a run that was stopped after its first step has
a report, too.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

import jinja2

from searchrl_jax import metrics, traces
from searchrl_jax.diagnostics import (
  browser,
  clusters,
  page,
  plots,
  samples,
  shares,
)

ROWS = 2000  # rows of metrics drawn
TRACES, TRACES_OF_STEP = 200, 4
QUESTIONS = 8  # whose clusters of facts are shown
MULTIPLES = (
  'reward',
  'loss',
  'entropy',
  'kl',
  'logp',
  'grad_norm',
  'answered',
  'searches',
  'sampled_tokens',
  'zero_spread_fraction',
  'clipped_fraction',
  'sampler_learner_gap',
  'malformed',
  'facts',
  'clusters',
  'fact_recall',
  'shaping_nonzero_fraction',
)


@dataclasses.dataclass(frozen=True)
class _Run:
  """What was read of a workdir."""

  rows: Mapping[str, Sequence[metrics.Row]]  # by phase
  evaluations: Sequence[metrics.Row]
  sample: Sequence[traces.Trace]
  contributions: samples.Contributions
  questions: Sequence[clusters.Question]
  seconds: Mapping[str, float]
  missing: Sequence[str]

  @property
  def phase(self) -> str:
    """The phase whose curves are shown first: learning, where there is any."""
    return 'rl' if 'rl' in self.rows or not self.rows else [*self.rows][-1]


def write_report(workdir: str | os.PathLike) -> pathlib.Path:
  """Draws `report.html` from the rows and traces in a workdir.

  Reads `metrics.jsonl`, `evaluation.jsonl` and `traces.jsonl`, each of which
  may be missing, empty, or cut off in its last line.

  Returns:
    The path of the page.

  Raises:
    ValueError: one of the files is broken before its last line.
  """
  workdir = pathlib.Path(workdir)
  run = _read(workdir)
  html = _page(workdir.resolve().name, run)
  path = workdir / 'report.html'
  # Renamed into place: a browser never sees half a page.
  beside = path.with_suffix('.html.new')
  beside.write_text(html, encoding='utf-8')
  os.replace(beside, path)
  return path


def _read(workdir: pathlib.Path) -> _Run:
  names = ('metrics.jsonl', 'evaluation.jsonl', 'traces.jsonl')
  paths = [workdir / name for name in names]
  missing = [
    path.name for path in paths if not path.exists() or not path.stat().st_size
  ]
  metrics_path, evaluation_path, traces_path = paths

  def rows(path):
    return metrics.read_rows(path) if path.name not in missing else iter(())

  by_phase = {}
  for row in samples.thin(rows(metrics_path), limit=ROWS):
    by_phase.setdefault(row['phase'], []).append(row)
  sample = samples.Sample(limit=TRACES, per_step=TRACES_OF_STEP)
  contributions = samples.Contributions()
  worth = clusters.Clusters(limit=QUESTIONS)
  if traces_path.name not in missing:
    for trace in traces.read(traces_path):
      sample.add(trace)
      contributions.add(trace)
      worth.add(trace)
  return _Run(
    rows=by_phase,
    evaluations=samples.thin(rows(evaluation_path), limit=ROWS),
    sample=sample.traces(),
    contributions=contributions,
    questions=worth.questions(),
    seconds=shares.seconds_by_part(rows(metrics_path), rows(evaluation_path)),
    missing=missing,
  )


def _page(name: str, run: _Run) -> str:
  rows = run.rows.get(run.phase, ())
  curves = {
    phase: plots.small_multiples(phase_rows, MULTIPLES)
    for phase, phase_rows in sorted(
      run.rows.items(), key=lambda p: p[0] != 'rl'
    )
  }
  phases = run.contributions.phases
  phase = run.phase if run.phase in phases else (phases or [run.phase])[0]
  # Autoescape: whatever is not Markup is text.
  template = jinja2.Environment(
    autoescape=True, trim_blocks=True, lstrip_blocks=True
  ).from_string(page.TEMPLATE)
  return template.render(
    name=name,
    missing=run.missing,
    tiles=_tiles(run),
    learning=plots.learning(rows, run.evaluations),
    curves={k: v for k, v in curves.items() if v is not None},
    contributions=plots.contributions(run.contributions.by_turn(phase)),
    prompts=plots.prompt_tokens(_last_with_prompts(run.evaluations)),
    clusters=run.questions,
    time=plots.seconds(rows, run.seconds),
    time_line=shares.line(run.seconds),
    evaluations=[_evaluation_cells(row) for row in run.evaluations],
    columns=EVALUATION_COLUMNS,
    sample=run.sample,
    scale=browser.scale_of(run.sample),
    red=browser.colour(-1, scale=1),
    blue=browser.colour(1, scale=1),
    unknown=browser.NO_ADVANTAGE,
    controls=browser.CONTROLS,
    style=page.STYLE + browser.STYLE,
    data=browser.data(run.sample),
    script=browser.SCRIPT,
  )


def _last_with_prompts(rows: Sequence[metrics.Row]) -> metrics.Row | None:
  """The last evaluation that says what was read: of `test`, where it can be.

  One with a yardstick is worth more than a later one without.
  """
  rows = [row for row in rows if row.get('prompt_tokens_by_round')]

  def worth(row):
    yardstick = bool(row.get('yardstick_prompt_tokens_by_round'))
    return row['split'] == 'test', yardstick

  # Of equals `max` takes the first.
  return max(reversed(rows), key=worth, default=None)


def _tiles(run: _Run) -> list[tuple[str, str]]:
  """(value, name) of the numbers a reader looks for first."""
  tiles = []
  for name, greedy in (('EM sampled', False), ('EM greedy', True)):
    found = [r for r in run.evaluations if (r['temperature'] == 0) == greedy]
    if found:
      value = f'{_number(found[-1]["em"])} ± {_number(found[-1]["em_stderr"])}'
      tiles.append((value, f'{name}, {found[-1]["phase"]}'))
  for phase, rows in run.rows.items():
    tiles.append((str(rows[-1]['step']), f'last step, {phase}'))
  if any(run.seconds.values()):
    tiles.append((f'{sum(run.seconds.values()):.0f} s', 'measured'))
  return tiles


EVALUATION_COLUMNS = (
  'step',
  'phase',
  'split',
  'temperature',
  'n',
  'em',
  'em_stderr',
  'f1',
  'answered',
  'searches',
  'useless_searches_per_success',
  'seconds',
)


def _evaluation_cells(row: metrics.Row) -> list[str]:
  row = {**row, 'seconds': round(row['seconds'] or 0.0)}
  row['temperature'] = f'{row["temperature"]:g}'
  cells = [_number(row.get(name)) for name in EVALUATION_COLUMNS]
  hops = row.get('em_by_hops') or {}
  return [*cells, '  '.join(f'{k}: {_number(v)}' for k, v in hops.items())]


def _number(value) -> str:
  """A number as people write it, an em dash where there is none."""
  if value is None:
    return '—'
  return f'{value:.3f}' if isinstance(value, float) else str(value)
