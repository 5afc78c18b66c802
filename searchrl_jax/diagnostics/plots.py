# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The figures of the report, as SVG images that stand in the page itself.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart.
Every function returns an `<img>` element, or None where there is nothing to
draw.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence

import markupsafe
import matplotlib
import numpy as np
from matplotlib import figure

from searchrl_jax import metrics

BLUE, ORANGE, GREEN, PURPLE = '#0072B2', '#D55E00', '#009E73', '#CC79A7'
SKY, YELLOW, GREY = '#56B4E9', '#E69F00', '#7a828c'
TURNS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW)
STYLE = {
  'font.size': 9,
  'axes.spines.top': False,
  'axes.edgecolor': '#9aa3ad',
  'axes.labelcolor': '#39424e',
  'axes.titlesize': 9,
  'axes.titlelocation': 'left',
  'xtick.color': '#5c6672',
  'ytick.color': '#5c6672',
  'axes.grid': True,
  'grid.color': '#e8ebef',
  'axes.axisbelow': True,
  'legend.frameon': False,
  'svg.hashsalt': 'searchrl',  # the same run draws the same bytes
}

Points = tuple[np.ndarray, np.ndarray]  # steps, values: finite, equal lengths


def learning(
  rows: Sequence[metrics.Row], evaluations: Sequence[metrics.Row]
) -> markupsafe.Markup | None:
  """EM (left axis) and useless searches per success (right axis) by step."""
  em, useless = (
    _points(rows, 'em'),
    _points(rows, 'useless_searches_per_success'),
  )
  if not len(em[0]) and not len(useless[0]) and not evaluations:
    return None
  with matplotlib.rc_context(STYLE):
    canvas = figure.Figure(figsize=(9.6, 3.7), layout='constrained')
    left = canvas.add_subplot()
    right = left.twinx()
    right.grid(False)
    _curve(left, em, BLUE, 'EM, training')
    _curve(right, useless, ORANGE, 'useless searches per success', style='--')
    begin = rows[0]['step'] if rows else 0
    for greedy, marker, colour in ((False, 'o', BLUE), (True, 'D', GREEN)):
      _evaluations(left, evaluations, greedy, marker, colour, begin)
    left.set(xlabel='step', ylim=(0, 1.02))
    left.set_ylabel('exact match', color=BLUE)
    right.set_ylabel('useless searches per success', color=ORANGE)
    right.set_ylim(bottom=0)
    right.spines['right'].set_visible(True)
    handles = [
      handle
      for axis in (left, right)
      for handle in zip(*axis.get_legend_handles_labels(), strict=True)
    ]
    if handles:
      canvas.legend(
        *zip(*handles, strict=True), loc='outside upper left', ncols=4
      )
    return _image(canvas, 'exact match and useless searches by step')


def small_multiples(
  rows: Sequence[metrics.Row], names: Sequence[str]
) -> markupsafe.Markup | None:
  """One small curve per metric that the rows have."""
  curves = {name: _points(rows, name) for name in names}
  curves = {name: points for name, points in curves.items() if len(points[0])}
  if not curves:
    return None
  columns = 4
  lines = math.ceil(len(curves) / columns)
  with matplotlib.rc_context(STYLE):
    canvas = figure.Figure(figsize=(9.6, 1.75 * lines), layout='constrained')
    for i, (name, points) in enumerate(curves.items()):
      axis = canvas.add_subplot(lines, columns, i + 1)
      axis.spines['right'].set_visible(False)
      _curve(axis, points, BLUE, name)
      axis.set_title(name.replace('_', ' '))
      axis.locator_params(nbins=4)
      axis.margins(x=0.02)
    return _image(canvas, ', '.join(curves))


def contributions(
  curves: Mapping[int, Sequence[tuple[int, float, int]]],
) -> markupsafe.Markup | None:
  """Mean contribution by turn: over training, and its first and last third."""
  if not curves:
    return None
  steps = sorted({step for points in curves.values() for step, *_ in points})
  with matplotlib.rc_context(STYLE):
    canvas = figure.Figure(figsize=(9.6, 3.1), layout='constrained')
    over, thirds = canvas.subplots(1, 2, width_ratios=(2, 1), sharey=True)
    for turn, points in list(curves.items())[: len(TURNS)]:
      x, y, _ = (np.asarray(column) for column in zip(*points, strict=True))
      _curve(over, (x, y), TURNS[turn % len(TURNS)], f'turn {turn + 1}')
    over.set(xlabel='step', ylabel='mean contribution', ylim=(-0.02, 1.05))
    parts = (
      ('first third', steps[: max(1, len(steps) // 3)], -0.2, SKY),
      ('last third', steps[-max(1, len(steps) // 3) :], 0.2, BLUE),
    )
    for label, part, offset, colour in parts:
      means = [_mean_within(points, set(part)) for points in curves.values()]
      x = np.asarray(list(curves)) + 1 + offset
      thirds.bar(x, means, width=0.36, color=colour, label=label)
    canvas.legend(ncols=8, loc='outside upper left', fontsize=8)
    thirds.set(xlabel='turn', xticks=[turn + 1 for turn in curves])
    for axis in (over, thirds):
      axis.spines['right'].set_visible(False)
    return _image(canvas, 'mean contribution by turn')


def prompt_tokens(row: metrics.Row | None) -> markupsafe.Markup | None:
  """Mean prompt tokens by round of an evaluation, beside its yardstick's.

  Args:
    row: of an evaluation; `yardstick` and its tokens may be missing.
  """
  if row is None or not row.get('prompt_tokens_by_round'):
    return None
  curves = [('this run', row['prompt_tokens_by_round'], BLUE, '-')]
  beside = row.get('yardstick_prompt_tokens_by_round') or ()
  if beside:
    name = f'the same searches in {row.get("yardstick", "another method")}'
    curves.append((name, beside, ORANGE, '--'))
  title = (
    f'{row["split"]}, {row["phase"]}, step {row["step"]}, '
    f'temperature {row["temperature"]:g}'
  )
  with matplotlib.rc_context(STYLE):
    canvas = figure.Figure(figsize=(9.6, 2.7), layout='constrained')
    axis = canvas.add_subplot()
    axis.spines['right'].set_visible(False)
    for name, tokens, colour, style in curves:
      # Names are data: a dollar sign begins no formula.
      name = name.replace('$', r'\$')
      rounds = range(1, len(tokens) + 1)
      axis.plot(
        rounds,
        tokens,
        style,
        marker='o',
        markersize=4,
        color=colour,
        label=name,
      )
    longest = max(len(tokens) for _, tokens, *_ in curves)
    axis.set_title(title.replace('$', r'\$'))
    axis.set(xlabel='round', ylabel='mean prompt tokens')
    axis.set_xticks(range(1, longest + 1))
    axis.set_ylim(bottom=0)
    axis.legend(loc='upper left', bbox_to_anchor=(1, 1))
    names = ' and '.join(name for name, *_ in curves)
    return _image(canvas, f'mean prompt tokens by round: {names}; {title}')


def seconds(
  rows: Sequence[metrics.Row], totals: Mapping[str, float]
) -> markupsafe.Markup | None:
  """Seconds of each step by what they were spent on, and of the whole run."""
  totals = {part: spent for part, spent in totals.items() if spent > 0}
  if not totals:
    return None
  names = ('seconds_rollout', 'seconds_rewards', 'seconds_update')
  rows = [row for row in rows if row.get('seconds_total') is not None]
  with matplotlib.rc_context(STYLE):
    canvas = figure.Figure(figsize=(9.6, 2.9), layout='constrained')
    steps, run = canvas.subplots(1, 2, width_ratios=(3, 2))
    if rows:
      parts = np.asarray([[row.get(n) or 0.0 for n in names] for row in rows]).T
      total = np.asarray([row['seconds_total'] for row in rows])
      other = np.maximum(total - parts.sum(0), 0)
      steps.stackplot(
        [row['step'] for row in rows],
        [*parts, other],
        labels=['rollout', 'rewards', 'update', 'other'],
        colors=[BLUE, GREEN, ORANGE, '#c9cfd6'],
      )
      # The first steps compile: do not let them hide all others.
      steps.set_ylim(0, 1.3 * float(np.quantile(total, 0.95)) or 1)
      steps.margins(x=0)
      steps.legend(ncols=4, loc='upper right', fontsize=8)
    steps.set(xlabel='step', ylabel='seconds of a step')
    bars = run.barh(list(totals), list(totals.values()), color=BLUE, height=0.6)
    share = sum(totals.values())
    run.bar_label(
      bars, [f'{s:.0f} s, {s / share:.0%}' for s in totals.values()], padding=3
    )
    run.set(xlabel='seconds of the run', xlim=(0, 1.45 * max(totals.values())))
    run.invert_yaxis()
    run.grid(False, axis='y')
    for axis in (steps, run):
      axis.spines['right'].set_visible(False)
    return _image(canvas, 'where the time went')


def _points(rows: Sequence[metrics.Row], name: str) -> Points:
  """The steps at which a metric has a value, and the values."""
  pairs = [(r['step'], r[name]) for r in rows if r.get(name) is not None]
  steps, values = zip(*pairs, strict=True) if pairs else ((), ())
  return np.asarray(steps, float), np.asarray(values, float)


def _curve(axis, points: Points, colour: str, label: str, style='-') -> None:
  """The values, pale, and over them their running mean."""
  steps, values = points
  if not len(steps):
    return
  reach = len(values) // 40  # a mean over a twentieth of the curve
  smooth = [
    values[max(0, i - reach) : i + reach + 1].mean() for i in range(len(values))
  ]
  if reach:
    axis.plot(steps, values, color=colour, alpha=0.22, linewidth=0.8)
  marker = 'o' if len(values) == 1 else None
  axis.plot(
    steps,
    smooth,
    style,
    color=colour,
    label=label,
    linewidth=1.7,
    marker=marker,
  )


def _evaluations(axis, rows, greedy, marker, colour, begin) -> None:
  """Evaluated EM with its standard error.

  Of those before the curves begin only the last is shown, where they begin:
  it is where learning starts from.
  """
  rows = [row for row in rows if (row['temperature'] == 0) == greedy]
  rows = [row for row in rows if row['em'] is not None]
  if not rows:
    return
  before = [row for row in rows if row['step'] < begin]
  rows = before[-1:] + [row for row in rows if row['step'] >= begin]
  steps = [max(begin, row['step']) for row in rows]
  axis.errorbar(
    steps,
    [row['em'] for row in rows],
    yerr=[row['em_stderr'] or 0.0 for row in rows],
    fmt=marker,
    color=colour,
    markersize=6,
    markeredgecolor='white',
    capsize=2,
    linewidth=1,
    label=f'EM, evaluation, {"greedy" if greedy else "sampled"}',
  )


def _mean_within(points, steps: set[int]) -> float:
  """Mean over the judged turns of some steps, weighted by their number."""
  chosen = [(mean, count) for step, mean, count in points if step in steps]
  weight = sum(count for _, count in chosen)
  return sum(m * n for m, n in chosen) / weight if weight else math.nan


def _image(canvas: figure.Figure, description: str) -> markupsafe.Markup:
  """An `<img>` whose source is the picture itself."""
  file = io.BytesIO()
  canvas.savefig(file, format='svg', metadata={'Date': None})
  data = base64.b64encode(file.getvalue()).decode('ascii')
  return markupsafe.Markup(
    '<img alt="{}" src="data:image/svg+xml;base64,{}">'
  ).format(description, data)
