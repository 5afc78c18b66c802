# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Streams of any length, cut down to what fits on a page.

Each of these reads its stream once and holds a bounded number of things, so
that gigabytes of traces can be looked at on a laptop. None draws at random:
the same files give the same page.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable

from searchrl_jax import metrics, traces, types


def thin(rows: Iterable[metrics.Row], *, limit: int) -> list[metrics.Row]:
  """Keeps every k-th row and the last, k the power of two that fits.

      limit 3:  0 1 2 3 4 5 6 7  ->  0 4 7

  Args:
    rows: rows in the order of time.
    limit: rows kept, at least 2.
  """
  kept, last, stride = [], None, 1
  for i, row in enumerate(rows):
    last = i, row
    if i % stride == 0:
      kept.append(last)
    if len(kept) > limit - 1:
      stride *= 2
      kept = kept[::2]
  if last is not None and kept[-1][0] != last[0]:
    kept.append(last)
  return [row for _, row in kept]


class Sample:
  """Some trajectories of some steps, good and bad ones, spread over a run.

  Steps are kept like the rows of `thin`. Of a step, successes and failures
  are taken half and half as far as there are any, those with credit first:
  groups without spread have nothing to show.

  Args:
    limit: trajectories kept in all.
    per_step: trajectories kept of a step.
  """

  def __init__(self, *, limit: int, per_step: int):
    self._steps = limit // per_step - 1  # one more is the last step
    self._per_step = per_step
    self._key = None
    self._ordinal = -1
    self._stride = 1
    self._open = {True: [], False: []}
    self._kept = []  # (ordinal of the step, its traces)

  def add(self, trace: traces.Trace) -> None:
    """Takes in the next trajectory of the stream."""
    if (trace.phase, trace.step) != self._key:
      self._close_step()
      self._key = trace.phase, trace.step
      self._ordinal += 1
    side = self._open[bool(trace.success)]
    side.append(trace)
    side.sort(key=lambda trace: not any(trace.advantages))  # stable
    del side[self._per_step :]

  def traces(self) -> list[traces.Trace]:
    """The sample so far, in the order of time."""
    kept = [trace for _, step in self._kept for trace in step]
    return kept + self._best_of_step()

  def _best_of_step(self) -> list[traces.Trace]:
    good, bad = self._open[True], self._open[False]
    count = self._per_step
    n_good = min(len(good), max(count // 2, count - len(bad)))
    return good[:n_good] + bad[: count - n_good]

  def _close_step(self) -> None:
    if self._ordinal >= 0 and self._ordinal % self._stride == 0:
      self._kept.append((self._ordinal, self._best_of_step()))
    if len(self._kept) > self._steps:
      self._stride *= 2
      self._kept = [k for k in self._kept if k[0] % self._stride == 0]
    self._open = {True: [], False: []}


class Contributions:
  """Mean contribution of the t-th turn, step by step.

  Over the judged search turns of successful trajectories, which is where
  contributions decide the credit. Other turns do not count, not even as 0.
  """

  def __init__(self):
    # phase -> step -> turn -> [sum, count]
    self._sums = collections.defaultdict(
      lambda: collections.defaultdict(
        lambda: collections.defaultdict(lambda: [0.0, 0])
      )
    )

  def add(self, trace: traces.Trace) -> None:
    """Takes in the next trajectory of the stream."""
    if not trace.success:
      return
    for s, turn in enumerate(trace.trajectory.turns):
      contribution = trace.contributions[s]
      if turn.action.kind == types.Kind.SEARCH and contribution is not None:
        cell = self._sums[trace.phase][trace.step][s]
        cell[0] += contribution
        cell[1] += 1

  def by_turn(self, phase: str) -> dict[int, list[tuple[int, float, int]]]:
    """For each turn index, (step, mean contribution, judged turns)."""
    curves = collections.defaultdict(list)
    for step, turns in sorted(self._sums[phase].items()):
      for turn, (total, count) in sorted(turns.items()):
        curves[turn].append((step, total / count, count))
    return dict(sorted(curves.items()))

  @property
  def phases(self) -> list[str]:
    return list(self._sums)
