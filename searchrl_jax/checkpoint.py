# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: whole or absent, resumable, readable on any mesh.

  workdir/checkpoints/40/             see `checkpoint_format`
  workdir/checkpoints/unreadable-60/  set aside while resuming

A save is synchronous: when it returns, the checkpoint is on disk and the
buffers of the state may be donated. It is written beside its place and renamed
into it, so a process killed at any moment leaves whole checkpoints only. The
kernel may still lose what it had not written when the *machine* fails:
checksums find such a checkpoint, and the one before it is resumed.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import orbax.checkpoint as ocp
from absl import logging
from orbax.checkpoint import checkpoint_managers

from searchrl_jax import checkpoint_format as stored
from searchrl_jax.workdir import as_json


@dataclasses.dataclass(frozen=True)
class Restored:
  """A run as it was after `step`."""

  step: int
  state: Any  # of the template's type
  rng: jax.Array  # a typed key
  data: Any  # state of the data iterator, as JSON gives it back
  progress: Any  # whatever else the run counts, as JSON gives it back
  config: dict


class Checkpoints:
  """The checkpoints of a run, for the process that writes them."""

  def __init__(
    self,
    workdir: str | os.PathLike,
    config: Mapping[str, Any],
    *,
    keep: int,
    best_metric: str,
  ):
    """Opens or creates them, and clears away interrupted saves.

    Args:
      workdir: of the run.
      config: saved with every checkpoint; nested, JSON-able.
      keep: the newest kept; at least 2, so that one may turn out unreadable.
      best_metric: of the `metrics` of a save; the checkpoint with its largest
        value (the newest of equals) is kept beside the newest.

    Raises:
      ValueError: keep below 2.
    """
    if keep < 2:
      raise ValueError(
        f'checkpoint.keep is {keep}; keep at least 2, so that a run survives '
        'an unreadable newest one.'
      )
    self._config = as_json(config)
    self._directory = stored.directory_of(workdir)
    self._best_metric = best_metric
    policies = checkpoint_managers
    self._manager = stored.open_manager(
      self._directory,
      best_fn=self._value,
      cleanup_tmp_directories=True,
      preservation_policy=policies.AnyPreservationPolicy(
        [
          policies.LatestN(keep),
          policies.BestN(get_metric_fn=self._value, n=1),
        ]
      ),
    )

  def save(
    self,
    step: int,
    state: Any,
    *,
    rng: jax.Array,
    data: Any,
    progress: Any,
    metrics: Mapping[str, float],
  ) -> None:
    """Writes a checkpoint; it is on disk when this returns.

    Args:
      step: of the run; a resumed run goes on with step + 1.
      state: dataclass of pytrees of arrays, one field of which is `params`;
        no array may be empty.
      rng: a typed key.
      data: JSON-able state of the data iterator.
      progress: JSON-able rest.
      metrics: of an evaluation of this very state, empty where there is none.

    Raises:
      ValueError: this step, or a later one, is saved already. Replacing it
        would leave a moment without it, and skipping would be silent.
    """
    newest = self.latest()
    if newest is not None and step <= newest:
      raise ValueError(
        f'{self._directory} holds step {newest}, so step {step} cannot be '
        'saved; resume from the newest, or delete the steps to be replaced.'
      )
    arrays = {
      name: jax.tree.map(stored.as_array, tree)
      for name, tree in stored.split_state(state).items()
    }
    meta = {
      'step': step,
      'rng': stored.key_to_json(rng),
      'data': data,
      'progress': progress,
      'checksums': {
        name: stored.checksum(tree) for name, tree in arrays.items()
      },
    }
    items = {name: ocp.args.PyTreeSave(tree) for name, tree in arrays.items()}
    items['meta'] = ocp.args.JsonSave(as_json(meta))
    items['config'] = ocp.args.JsonSave(self._config)
    self._manager.save(
      step,
      args=ocp.args.Composite(**items),
      metrics=as_json(metrics),
      force=True,  # else orbax skips steps it does not like, silently
    )

  def latest(self) -> int | None:
    """The newest step saved, None where there is none."""
    return self._manager.latest_step()

  def best(self) -> int | None:
    """The saved step with the largest best metric, None where none has it."""
    return _best(self._manager, self._best_metric)

  def restore(self, template: Any) -> Restored:
    """The newest checkpoint that can be read.

    An unreadable one is renamed to `unreadable-<step>`, so that the resumed
    run can save its step again.

    Args:
      template: a state of arrays or shapes. Leaves with a sharding come back
        with it, whatever mesh they were saved from; others as numpy arrays.

    Raises:
      ValueError: no checkpoint, none readable, or one of another shape.
    """
    trees = stored.split_state(template)
    step, items, unreadable = _newest_readable(
      self._directory,
      self._manager.all_steps(),
      lambda step: stored.read_items(
        self._manager, self._directory / str(step), step, trees
      ),
    )
    # Only now: where nothing can be read, everything stays in its place.
    for broken in unreadable:
      self._set_aside(broken)
    rest = items['optimizer']
    return Restored(
      step=step,
      state=dataclasses.replace(template, params=items['params'], **rest),
      rng=stored.key_from_json(items['meta']['rng']),
      data=items['meta']['data'],
      progress=items['meta']['progress'],
      config=items['config'],
    )

  def close(self) -> None:
    self._manager.close()

  def _value(self, metrics: Mapping[str, float]) -> float:
    return _value(metrics, self._best_metric)

  def _set_aside(self, step: int) -> None:
    place = self._directory / f'unreadable-{step}'
    number = 2
    while place.exists():
      place = self._directory / f'unreadable-{step}-{number}'
      number += 1
    os.rename(self._directory / str(step), place)
    self._manager.reload()


def saved_steps(workdir: str | os.PathLike) -> list[int]:
  """The steps of a workdir's checkpoints, in order; empty where none."""
  directory = stored.directory_of(workdir)
  if not directory.is_dir():
    return []
  with stored.open_manager(directory, **stored.LOOKING) as manager:
    return sorted(manager.all_steps())


def best_step(workdir: str | os.PathLike, metric: str) -> int | None:
  """The kept step with the largest value of a metric, None where none has it.

  As `Checkpoints.best`, for whoever does not write.
  """
  directory = stored.directory_of(workdir)
  if not directory.is_dir():
    return None
  with stored.open_manager(directory, **stored.LOOKING) as manager:
    return _best(manager, metric)


def _best(manager, metric: str) -> int | None:
  values = {
    step: _value(manager.metrics(step) or {}, metric)
    for step in manager.all_steps()
  }
  measured = [step for step in values if values[step] > -math.inf]
  return max(measured, key=lambda step: (values[step], step), default=None)


def _value(metrics: Mapping[str, Any], name: str) -> float:
  """A metric of a save; -inf where it has none, or NaN."""
  value = metrics.get(name)
  return -math.inf if value is None or math.isnan(value) else value


def restore_params(
  workdir: str | os.PathLike, template: Any, *, step: int | None = None
) -> tuple[int, Any]:
  """Parameters alone, of any run: nothing else is read, nothing written.

  Args:
    workdir: of the run.
    template: arrays or shapes; see `Checkpoints.restore`.
    step: one of `saved_steps`; None takes the newest that can be read.

  Returns:
    The step and the parameters.

  Raises:
    ValueError: no checkpoint, not this step, unreadable, or other shapes; the
      message names the parameter.
  """
  directory = stored.directory_of(workdir)
  steps = saved_steps(workdir)
  if step is not None and step not in steps:
    raise ValueError(
      f'{directory} holds no step {step}; it holds: '
      f'{", ".join(map(str, steps)) or "none"}.'
    )
  if not steps:
    raise _nothing(directory)
  with stored.open_manager(directory, **stored.LOOKING) as manager:

    def read(step):
      return stored.read_items(
        manager, directory / str(step), step, {'params': template}
      )['params']

    if step is not None:
      return step, read(step)
    return _newest_readable(directory, steps, read)[:2]


def _nothing(directory):
  return ValueError(
    f'{directory} holds no checkpoint; choose the workdir of a run that saved '
    'one.'
  )


def _newest_readable(
  directory, steps: Sequence[int], read: Callable[[int], Any]
) -> tuple[int, Any, list[int]]:
  """Reads the newest; where it cannot be read, the one before, and so on.

  Returns:
    Its step, what was read, and the newer steps that could not be.
  """
  unreadable = []
  for step in sorted(steps, reverse=True):
    try:
      return step, read(step), unreadable
    except stored.UnreadableError as error:
      if jax.process_count() > 1:
        raise  # others may have read their part: they must not diverge
      logging.warning('%s Falling back to the one before.', error)
      unreadable.append(step)
  if not steps:
    raise _nothing(directory)
  raise stored.UnreadableError(
    f'{directory}: none of the checkpoints {sorted(steps)} can be read; begin '
    'again in another workdir.'
  )
