# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Contestants of a benchmark: processes that take turns, the others asleep.

They run in one order and then in the other, so that a noisy minute hits all
of them:

  round 1   ours A   theirs A   ours B   ...
  round 2   ... ours B   theirs A   ours A
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

Figures = Mapping[str, float]
# Makes what measures: sizes -> (what) -> name of a figure -> figure.
Make = Callable[[Any], Callable[..., Figures]]


class Contestant:
  """A process that measures when asked."""

  def __init__(self, name: str, make: Make, sizes: Any):
    self.name = name
    context = multiprocessing.get_context('spawn')
    self._pipe, theirs = context.Pipe()
    self._process = context.Process(
      target=_serve, args=(theirs, make, sizes), daemon=True
    )
    self._process.start()
    theirs.close()
    self._receive()

  def measure(self, *what) -> Figures:
    """Measures once."""
    self._pipe.send(what)
    return self._receive()

  def end(self) -> float:
    """Ends the process; returns the most memory it ever held, in MiB."""
    self._pipe.send(None)
    peak = self._receive()
    self._process.join()
    return peak

  def _receive(self):
    try:
      result = self._pipe.recv()
    except EOFError:
      raise RuntimeError(
        f'{self.name}: its process died, perhaps for want of memory'
      ) from None
    if isinstance(result, str):
      raise RuntimeError(f'{self.name}: {result}')
    return result


def _serve(pipe, make: Make, sizes: Any) -> None:
  """Runs in the process of a contestant."""
  try:
    measure = make(sizes)
    pipe.send(None)
    while (what := pipe.recv()) is not None:
      pipe.send(measure(*what))
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
  except Exception:
    pipe.send(traceback.format_exc())


def compete(
  makes: Mapping[str, Make], sizes: Any, rounds: int
) -> dict[str, dict[str, float]]:
  """Lets contestants take turns; returns name -> figures of each.

  Every figure stands there thrice, as its median and with the endings `_min`
  and `_max`; beside them stands `peak_rss_mib`.
  """
  contestants = [Contestant(name, make, sizes) for name, make in makes.items()]
  measured = {contestant.name: [] for contestant in contestants}
  for turn in range(rounds):
    for contestant in contestants[:: -1 if turn % 2 else 1]:
      run = contestant.measure()
      measured[contestant.name].append(run)
      say(contestant.name, run)
  figures = {}
  for contestant in contestants:
    mine = {'peak_rss_mib': contestant.end()}
    figures[contestant.name] = mine | summary(measured[contestant.name])
  return figures


def say(name: str, figures: Figures) -> None:
  """What was measured meanwhile, to stderr."""
  told = ', '.join(f'{figure} {value:.1f}' for figure, value in figures.items())
  print(f'{name}: {told}', file=sys.stderr, flush=True)


def summary(runs: list[Figures]) -> dict[str, float]:
  """The median, least and largest of every figure of some runs."""
  found = {}
  for figure in runs[0]:
    values = [run[figure] for run in runs]
    found[figure] = statistics.median(values)
    found[f'{figure}_min'], found[f'{figure}_max'] = min(values), max(values)
  return found


def pytorch_is_there() -> bool:
  """Whether PyTorch is installed."""
  return importlib.util.find_spec('torch') is not None


def _version(name):
  with contextlib.suppress(metadata.PackageNotFoundError):
    return metadata.version(name)
  return 'not installed'


def machine() -> dict[str, Any]:
  """What the figures are of."""
  return {
    'processor': platform.processor() or platform.machine(),
    'threads': len(os.sched_getaffinity(0)),
    'memory_gib': os.sysconf('SC_PAGE_SIZE')
    * os.sysconf('SC_PHYS_PAGES')
    / 2**30,
    'versions': {
      name: _version(name) for name in ('jax', 'torch', 'transformers')
    },
  }
