# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A real model beside PyTorch: decoding and updating, speed and memory.

  python -m benchmarks.models

The sizes are SmolLM2-135M's, the weights random. Every contestant is a
process of its own that keeps its state; they take turns, the others asleep,
in one order and then in the other, so that a noisy minute hits all of them:

  round 1   ours A   theirs A   ours B   ...
  round 2   ... ours B   theirs A   ours A

What a process runs first, to compile or to touch its memory, is not counted.
Prints one JSON object: the median, least and largest figure of each
contestant, its peak memory, and the ratios; what is measured meanwhile goes to
stderr. Where PyTorch is not installed (`pip install -e '.[parity]'`) it says so
and prints our figures alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import json
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from importlib import metadata

import numpy as np

from searchrl_jax.models import presets
from searchrl_jax.models.config import DecoderConfig, Remat


@dataclasses.dataclass(frozen=True)
class Sizes:
  """What is measured."""

  decoder: DecoderConfig
  batch: int = 16  # rows that decode
  prompt: int = 200  # tokens of each prompt
  new_tokens: int = 64
  capacity: int = 512  # of our cache; PyTorch's grows
  rows: int = 4  # of an update, in one pass
  length: int = 512  # tokens of a row
  logps_chunk: int = 512  # our logits exist for so many tokens at a time
  decode_rounds: int = 3
  update_rounds: int = 3

  def prompts(self) -> np.ndarray:
    """Random prompts, `[batch, prompt]`."""
    return self._tokens(0, self.batch, self.prompt)

  def rows_of_tokens(self) -> np.ndarray:
    """Random rows of an update, `[rows, length]`."""
    return self._tokens(1, self.rows, self.length)

  def _tokens(self, seed, *shape):
    rng = np.random.default_rng(seed)
    return rng.integers(0, self.decoder.vocabulary, shape, dtype=np.int32)


# Makes what measures once: sizes -> () -> name of a figure -> figure.
Make = Callable[[Sizes], Callable[[], Mapping[str, float]]]


def _ours(function: str, sizes: Sizes, **settings):
  from benchmarks import models_jax

  return getattr(models_jax, function)(sizes, **settings)


def _theirs(function: str, sizes: Sizes, **settings):
  from benchmarks import models_torch

  return getattr(models_torch, function)(sizes, **settings)


# Each with the recomputation that is fastest for it on CPU.
_full = functools.partial(
  _ours, 'update', bfloat16=False, adapters=False, remat=Remat.PRODUCTS
)
_layers_again = functools.partial(_full, remat=Remat.LAYER)
_update = functools.partial(_theirs, 'update')

OURS_DECODE: dict[str, Make] = {
  'decode_ours': functools.partial(_ours, 'decode', bfloat16=False),
  'decode_ours_bf16': functools.partial(_ours, 'decode', bfloat16=True),
}
THEIRS_DECODE: dict[str, Make] = {
  'decode_torch': functools.partial(_theirs, 'decode', bfloat16=False),
  'decode_torch_bf16': functools.partial(_theirs, 'decode', bfloat16=True),
}
OURS_UPDATE: dict[str, Make] = {
  'update_ours': _full,
  'update_ours_layers_again': _layers_again,
  'update_ours_bf16': functools.partial(_layers_again, bfloat16=True),
  'update_ours_lora': functools.partial(_layers_again, adapters=True),
}
THEIRS_UPDATE: dict[str, Make] = {
  'update_torch': functools.partial(
    _update, checkpointing=False, bfloat16=False
  ),
  'update_torch_checkpointing': functools.partial(
    _update, checkpointing=True, bfloat16=False
  ),
  'update_torch_bf16': functools.partial(
    _update, checkpointing=False, bfloat16=True
  ),
}
# What is printed of whom: the first over the second.
RATIOS = {
  'decode_tokens_per_s': (
    ('decode_ours', 'decode_torch'),
    ('decode_ours_bf16', 'decode_torch'),
    ('decode_ours_bf16', 'decode_torch_bf16'),
  ),
  'update_tokens_per_s': (
    ('update_ours', 'update_torch'),
    ('update_ours_layers_again', 'update_torch_checkpointing'),
    ('update_ours_bf16', 'update_torch'),
    ('update_ours_bf16', 'update_torch_bf16'),
    ('update_ours_bf16', 'update_ours_layers_again'),
    ('update_ours_lora', 'update_ours_layers_again'),
  ),
}


class Contestant:
  """A process that measures when asked."""

  def __init__(self, name: str, make: Make, sizes: Sizes):
    self.name = name
    context = multiprocessing.get_context('spawn')
    self._pipe, theirs = context.Pipe()
    self._process = context.Process(
      target=_serve, args=(theirs, make, sizes), daemon=True
    )
    self._process.start()
    theirs.close()
    self._receive()

  def measure(self) -> Mapping[str, float]:
    """Measures once."""
    self._pipe.send('measure')
    return self._receive()

  def end(self) -> float:
    """Ends the process; returns the most memory it ever held, in MiB."""
    self._pipe.send('end')
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


def _serve(pipe, make: Make, sizes: Sizes) -> None:
  """Runs in the process of a contestant."""
  try:
    measure = make(sizes)
    pipe.send(None)
    while pipe.recv() == 'measure':
      pipe.send(measure())
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
  except Exception:
    pipe.send(traceback.format_exc())


def compete(
  makes: Mapping[str, Make], sizes: Sizes, rounds: int
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
      speeds = ', '.join(f'{name} {value:.1f}' for name, value in run.items())
      print(f'{contestant.name}: {speeds}', file=sys.stderr, flush=True)
  figures = {}
  for contestant in contestants:
    runs = measured[contestant.name]
    mine = {'peak_rss_mib': contestant.end()}
    for figure in runs[0]:
      values = [run[figure] for run in runs]
      mine[figure] = statistics.median(values)
      mine[f'{figure}_min'], mine[f'{figure}_max'] = min(values), max(values)
    figures[contestant.name] = mine
  return figures


def ratios(figures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
  """Medians of one over those of another, of whoever took part."""
  found = {}
  for figure, pairs in RATIOS.items():
    for above, below in pairs:
      if above in figures and below in figures:
        found[f'{above}/{below}'] = (
          figures[above][figure] / figures[below][figure]
        )
  return found


def pytorch_is_there() -> bool:
  """Whether PyTorch is installed."""
  return importlib.util.find_spec('torch') is not None


def _version(name):
  with contextlib.suppress(metadata.PackageNotFoundError):
    return metadata.version(name)
  return 'not installed'


def _machine():
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


def main(sizes: Sizes) -> None:
  """Measures and prints."""
  began = time.perf_counter()
  torch = pytorch_is_there()
  decode = OURS_DECODE | (THEIRS_DECODE if torch else {})
  update = OURS_UPDATE | (THEIRS_UPDATE if torch else {})
  figures = compete(decode, sizes, sizes.decode_rounds)
  figures |= compete(update, sizes, sizes.update_rounds)
  result = {
    'figures': figures,
    'ratios': ratios(figures),
    'pytorch': 'beside it' if torch else 'PyTorch was not there',
    'sizes': {
      name: value for name, value in vars(sizes).items() if name != 'decoder'
    },
    'seconds': time.perf_counter() - began,
    'machine': _machine(),
  }
  print(json.dumps(result, indent=2))


if __name__ == '__main__':
  main(Sizes(presets.PRESETS['smollm2-135m'].config))
