# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The story of a run, in the order of time.

  for every phase        drills, demonstrations, experience
    for every step
      collect            trajectories -> batch and targets
      update             minibatches -> new weights, on device
      log                the metrics of the step before (never wait for these)
      evaluate, save     now and then

Steps are numbered from 1 over the whole run; after step k, k updates of the
run's data are behind. A checkpoint of step k is written after everything that
carries the number k, so that a resumed run repeats nothing.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from searchrl_jax.training.clock import Clock
from searchrl_jax.training.sources import (
  Collected,
  Source,
  TrainingStoppedError,
)
from searchrl_jax.types import Batch, Targets


@dataclasses.dataclass(frozen=True)
class Phase:
  """Steps that share a source of data, an optimizer and a loss.

  `kind` is what the logs call the phase, `warm_start` or `rl`; `name` tells
  the stages of a warm start apart.
  """

  kind: str
  name: str
  steps: int
  source: Source
  # Called once, before the first step: fresh optimizer state, reference.
  begin: Callable[[Any], Any]
  # (state, batch, targets) -> (state, metrics on device)
  update: Callable[[Any, Batch, Targets], tuple[Any, dict]]
  # One step's batch as the minibatches of its updates, epochs included.
  minibatches: Callable[[Batch, Targets], Iterator[tuple[Batch, Targets]]]


@dataclasses.dataclass(frozen=True)
class Hooks:
  """What the loop tells the world, and when."""

  log: Callable[[dict], None]  # a finished step's row
  evaluate: Callable[[int, Phase, int, Any], None]  # step, phase, in phase
  save: Callable[[int, Any], None]  # step, state


def train(
  phases: Sequence[Phase],
  state: Any,
  *,
  done: int,
  clock: Clock,
  hooks: Hooks,
  save_every: int,
  max_skipped: int,
) -> Any:
  """Runs the phases from step `done` + 1 to their end.

  Args:
    phases: in order.
    state: the learner's `TrainState`, as it was after step `done`.
    done: steps already behind (0 for a new run).
    clock: books the seconds.
    hooks: log, evaluate, save.
    save_every: steps between checkpoints; the last step always saves.
    max_skipped: steps in a row without a single finite update that are
      tolerated; one more stops the run.

  Returns:
    The final state.

  Raises:
    TrainingStoppedError: too many steps in a row without a finite update.
  """
  last = sum(phase.steps for phase in phases)
  pending = _Pending(clock, hooks.log, max_skipped)
  first = 1
  for phase in phases:
    for step in range(max(first, done + 1), first + phase.steps):
      in_phase = step - first + 1
      pending.close()
      if in_phase == 1:
        state = phase.begin(state)
      collected = phase.source.collect(step, state.params)
      with clock('update'):
        device_metrics = []
        for batch, targets in phase.minibatches(
          collected.batch, collected.targets
        ):
          state, metrics = phase.update(state, batch, targets)
          device_metrics.append(metrics)
        pending.flush()
      pending.hold(step, phase, collected, device_metrics)
      hooks.evaluate(step, phase, in_phase, state)
      if step % save_every == 0 or step == last:
        with clock('update'):
          jax.block_until_ready(state)
        pending.flush()  # a checkpoint's own step is in the log before it
        hooks.save(step, state)
    first += phase.steps
  return state


class _Pending:
  """The metrics of the last step, fetched when the next one is under way.

  Its seconds are those from its own beginning to that of the next step, or to
  its checkpoint: they are read where it ends, not where it is logged.

    step      |collect 1|update|collect 2|update|evaluate|save|collect 3|...
    logged                     .....1....          ....2
    seconds   |<------ 1 ----->|<---------- 2 ---------->|<------- 3 ----
  """

  def __init__(self, clock: Clock, log: Callable[[dict], None], max_skipped):
    self._clock = clock
    self._log = log
    self._max_skipped = max_skipped
    self._skipped = 0  # steps in a row without a single update
    self._before = clock.snapshot()
    self._spent: dict[str, float] | None = None  # by the held step
    self._held: tuple[dict, list[dict]] | None = None

  def hold(self, step, phase, collected: Collected, device_metrics) -> None:
    row = {
      'step': step,
      'phase': phase.kind,
      'stage': phase.name,
      **collected.metrics,
    }
    self._held = row, device_metrics

  def close(self) -> None:
    """Ends the time of the held step: what follows belongs to the next."""
    if self._held is not None and self._spent is None:
      self._spent = self._seconds()

  def flush(self) -> None:
    """Logs the held row; raises TrainingStoppedError after too many skips."""
    if self._held is None:
      return
    self.close()
    row, device_metrics = self._held
    # What a source says of its batch stands over what the update says.
    row = combine(jax.device_get(device_metrics)) | row | self._spent
    self._held = self._spent = None
    self._log(row)
    nothing_done = row['skipped'] == len(device_metrics)
    self._skipped = self._skipped + 1 if nothing_done else 0
    if self._skipped > self._max_skipped:
      raise TrainingStoppedError(
        f'{self._skipped} steps in a row, up to step {row["step"]}, had only '
        'non-finite losses or gradients; their updates were skipped, so the '
        'last checkpoint is sound. Lower the learning rate, in another workdir.'
      )

  def _seconds(self) -> dict[str, float]:
    """Seconds by activity since the step before ended."""
    now = self._clock.snapshot()
    spent = {
      f'seconds_{name}': now[name] - self._before.get(name, 0.0) for name in now
    }
    self._before = now
    return spent | {'seconds_total': sum(spent.values())}


def combine(metrics: Sequence[dict[str, Any]]) -> dict[str, float]:
  """One step's numbers from those of its updates.

  `skipped` counts; names in `_max` take the largest; others the mean over the
  updates that happened, so that one bad update does not hide the rest.
  """
  kept = [m for m in metrics if not m['skipped']] or list(metrics)
  combined = {}
  for name in metrics[0]:
    if name == 'skipped':
      combined[name] = int(sum(m[name] for m in metrics))
    elif name.endswith('_max'):
      combined[name] = float(max(m[name] for m in kept))
    else:
      combined[name] = float(sum(m[name] for m in kept) / len(kept))
  return combined
