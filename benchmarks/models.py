# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A real model beside PyTorch: decoding and updating, speed and memory.

  python -m benchmarks.models

The sizes are SmolLM2-135M's, the weights random. Every contestant is a
process of its own that keeps its state; they take turns, see
`benchmarks.contest`.

What a process runs first, to compile or to touch its memory, is not counted.
Prints one JSON object: the median, least and largest figure of each
contestant, its peak memory, and the ratios; what is measured meanwhile goes to
stderr. Where PyTorch is not installed (`pip install -e '.[parity]'`) it says so
and prints our figures alone.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Mapping

import numpy as np

from benchmarks.contest import Make, compete, machine, pytorch_is_there
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
    'machine': machine(),
  }
  print(json.dumps(result, indent=2))


if __name__ == '__main__':
  main(Sizes(presets.PRESETS['smollm2-135m'].config))
