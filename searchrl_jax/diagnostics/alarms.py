# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Warnings that come before the reward shows that a run goes wrong.

A policy that collapses shows it first elsewhere: it stops answering, grows,
loses its entropy or the likelihood of its own good trajectories. Each check
is a pure function of one metric's history; `Alarms` keeps the histories and
the time of the last warning.

  history   .9 .9 .9 .9   .8 .7 .6   .4 .3 .2 .2
            `- window -'             `- window -'
            reference: best window   now: last window
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from searchrl_jax import metrics


@dataclasses.dataclass(frozen=True)
class Thresholds:
  """When to warn. All values are ours, untuned; none is published.

  Attributes:
    window: steps averaged on either side of a comparison.
    every: an alarm is silent for this many steps after it fired.
    answered_fall: fall of the answered share below its best window.
    tokens_growth: factor over the first window of sampled tokens.
    entropy_share: share of the first window's entropy that must be left.
    logp_fall: fall of the mean log-probability below its best window, nats.
    clipped: share of completions cut by a limit, of a single step.
    zero_spread: share of groups without spread, over the last window.
  """

  window: int = 8
  every: int = 20
  answered_fall: float = 0.2
  tokens_growth: float = 2.0
  entropy_share: float = 0.1
  logp_fall: float = 0.5
  clipped: float = 0.5
  zero_spread: float = 0.9


def answered_falls(history: Sequence[float], limits: Thresholds) -> str | None:
  """Warns when the share of answered questions fell from its best window."""
  best, now = _best_and_now(history, limits.window)
  if now >= best - limits.answered_fall:
    return None
  return (
    f'the policy stops answering: {best:.0%} answered before, {now:.0%} now'
  )


def tokens_grow(history: Sequence[float], limits: Thresholds) -> str | None:
  """Warns when sampled tokens outgrew the first window and still grow."""
  first, now = _first_and_now(history, limits.window)
  if now <= limits.tokens_growth * first:
    return None
  before, _ = _first_and_now(history[-2 * limits.window :], limits.window)
  if now <= before:  # long, but no longer growing
    return None
  return f'turns grow: {first:.0f} sampled tokens at first, {now:.0f} now'


def entropy_collapses(
  history: Sequence[float], limits: Thresholds
) -> str | None:
  """Warns when little is left of the first window's entropy."""
  first, now = _first_and_now(history, limits.window)
  if now >= limits.entropy_share * first:
    return None
  return f'the entropy collapses: {first:.3g} nats at first, {now:.3g} now'


def likelihood_collapses(
  history: Sequence[float], limits: Thresholds
) -> str | None:
  """Warns when sampled tokens lost likelihood (arXiv 2512.04220)."""
  best, now = _best_and_now(history, limits.window)
  if now >= best - limits.logp_fall:
    return None
  return (
    f'the likelihood collapses: mean log-probability {best:.2f} before, '
    f'{now:.2f} now'
  )


def most_clipped(history: Sequence[float], limits: Thresholds) -> str | None:
  """Warns at once when a limit cuts most completions of a step."""
  if history[-1] <= limits.clipped:
    return None
  return (
    f'a token limit cuts {history[-1]:.0%} of the completions: raise '
    'max_new_tokens or max_tokens, or shorten the observations'
  )


def little_spread(history: Sequence[float], limits: Thresholds) -> str | None:
  """Warns when hardly any group has both good and bad rollouts."""
  if len(history) < limits.window:
    return None
  now = _mean(history[-limits.window :])
  if now <= limits.zero_spread:
    return None
  return (
    f'{now:.0%} of the groups have no spread and teach nothing: change the '
    'difficulty of the questions or raise the number of rollouts'
  )


# Which metric each check reads.
CHECKS = {
  'clipped_fraction': most_clipped,
  'answered': answered_falls,
  'sampled_tokens': tokens_grow,
  'entropy': entropy_collapses,
  'logp': likelihood_collapses,
  'zero_spread_fraction': little_spread,
}


class Alarms:
  """Feeds rows of `metrics.jsonl` to the checks.

  Only rows of reinforcement learning count: in a warm start the entropy is
  meant to fall. To resume, feed the rows of the run so far.
  """

  def __init__(self, thresholds: Thresholds):
    self._thresholds = thresholds
    self._histories = {name: [] for name in CHECKS}
    self._fired = {}

  def update(self, row: metrics.Row) -> list[str]:
    """Takes in a row and returns the warnings that are due, one line each.

    A metric that is missing, None or not finite leaves its history alone.
    """
    if row['phase'] != 'rl':
      return []
    warnings = []
    for name, check in CHECKS.items():
      value = row.get(name)
      if value is None or not math.isfinite(value):
        continue
      self._histories[name].append(float(value))
      message = check(self._histories[name], self._thresholds)
      if message and self._due(name, row['step']):
        self._fired[name] = row['step']
        warnings.append(f'step {row["step"]}: {message}')
    return warnings

  def _due(self, name: str, step: int) -> bool:
    last = self._fired.get(name)
    return last is None or step - last >= self._thresholds.every


def _mean(values: Sequence[float]) -> float:
  return sum(values) / len(values)


def _first_and_now(history, window: int) -> tuple[float, float]:
  """Means of the first and the last window; equal while they overlap."""
  if len(history) < 2 * window:
    return 0.0, 0.0
  return _mean(history[:window]), _mean(history[-window:])


def _best_and_now(history, window: int) -> tuple[float, float]:
  """Highest mean of any window before the last one, and the last one's."""
  if len(history) < 2 * window:
    return 0.0, 0.0
  total = best = sum(history[:window])
  for i in range(window, len(history) - window):
    total += history[i] - history[i - window]
    best = max(best, total)
  return best / window, _mean(history[-window:])
