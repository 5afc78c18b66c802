# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes that a run needs on each device, before anything is allocated.

Some of it is there all the time, the rest while one program runs:

  held       parameters, optimizer, sampler's weights, cache   |==============|
  extend     activations of what one call reads                |=|
  copy       rows of the cache on their way to others            |=|
  decode     logits of one token a row; gathered rows               |==|
  update     gradients, activations, one layer or logits               |===|
  apply      gradients, and what Adam makes of them                        |==|

The need is what is held plus the largest of the others. Weights are exact
(`weigh`), what a forward pass keeps is counted in its trace (`kept`), and the
rest is told from the arrays that a program cannot do without. Tests compare
all of it with what XLA says of the compiled programs.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp

from searchrl_jax.models.cached_attention import COLUMNS
from searchrl_jax.models.config import DecoderConfig
from searchrl_jax.rollout.buckets import widths
from searchrl_jax.training.kept import kept_bytes, layer_bytes
from searchrl_jax.training.weigh import (
  Backend,
  Devices,
  model_of,
  total_bytes,
  weigh,
)

# Logits of a chunk and their gradient; CPU stores the exponentials and what
# arrives at them as well.
_LOGITS = {Backend.CPU: 4, Backend.ACCELERATOR: 2}
# Logits of a decoded token, their logarithms, probabilities and running sum.
_DRAWN = 4
# The residual stream, its norm and the like, beside a layer's inner arrays.
_STREAMS = 4


@dataclasses.dataclass(frozen=True)
class Work:
  """What is done at a time, all devices together.

  Attributes:
    micro_rows: packed rows in one forward and backward pass.
    length: L, tokens of a packed row.
    chunk: tokens whose logits exist at a time.
    rows: R, rollouts in flight, with those kept for asides.
    width: W of them decode together.
    capacity: C, tokens of a rollout.
    append_rows, append_tokens: what one call reads on a device at most.
    reference: whether there is a KL reference; with adapters it is the base,
      elsewhere it has weights of its own.
  """

  micro_rows: int
  length: int
  chunk: int
  rows: int
  width: int
  capacity: int
  append_rows: int
  append_tokens: int
  reference: bool


@dataclasses.dataclass(frozen=True)
class Need:
  """Bytes on each device, by name.

  Attributes:
    held: there all the time.
    passing: program -> what it adds while it runs.
  """

  held: dict[str, int]
  passing: dict[str, dict[str, int]]

  @property
  def fullest(self) -> str:
    """The program that needs the most."""
    return max(self.passing, key=lambda name: sum(self.passing[name].values()))

  @property
  def total(self) -> int:
    """The most there is at a time."""
    return sum(self.held.values()) + sum(self.passing[self.fullest].values())


def need(decoder: DecoderConfig, devices: Devices, work: Work) -> Need:
  """Estimates what a run needs; parameters and optimizer are exact.

  Raises:
    ValueError: a matrix cannot be split over the mesh.
  """
  weights = weigh(decoder, devices)
  rows, slots = rows_of(devices, work)
  cache = _cache(decoder, devices, rows + slots, work.capacity)
  held = {
    'parameters': weights.learned,
    'frozen parameters': weights.frozen,
    'optimizer': weights.optimizer,
    'KL reference': 0 if decoder.lora else work.reference * weights.learned,
    'sampler copy': weights.sampler,
    'KV cache': cache,
  }
  passing = {
    'extend': {'activations': _extend(decoder, devices, work)},
    'copy': {
      'rows of the cache': _cache(decoder, devices, slots, work.capacity)
    },
    'decode': _decode(decoder, devices, work),
    'update': _update(decoder, devices, work, weights),
    'apply': _apply(devices, weights),
  }
  return Need(held, passing)


# --- updates -----------------------------------------------------------------


def _update(decoder, devices, work, weights) -> dict[str, int]:
  """One micro-batch: forward, backward, added to the gradients.

  The logits of a chunk and the layers are worked on one after the other; the
  larger of the two counts.
  """
  rows = math.ceil(work.micro_rows / devices.row_parts)
  tokens = rows * work.length
  kept = kept_bytes(decoder, devices, rows, work.length)
  layer = layer_bytes(decoder, devices, rows, work.length)
  if devices.fsdp > 1:
    layer += weights.tables + weights.layer  # gathered where they are used
  vocabulary = math.ceil(decoder.vocabulary / devices.tensor)
  stream = tokens * decoder.width * _activation_itemsize(decoder, devices)
  # Chunks are cut from the tokens of all devices, and each makes them whole.
  chunk = min(work.chunk, work.micro_rows * work.length)
  logits = _LOGITS[devices.backend] * chunk * vocabulary * 4 + 3 * stream
  parts = {'gradients': weights.gradients, 'activations': kept}
  in_layers = {
    'gradients of a micro-batch': weights.gradients,
    'one layer, made again': layer,
  }
  in_logits = {
    'gradients of the head': 0 if decoder.lora else weights.tables,
    'logits of a chunk': logits,
  }
  if devices.backend is Backend.CPU and _is_narrow(decoder.param_dtype):
    # The compiler widens the matrices of all layers before the first of them.
    parts['parameters in float32'] = decoder.layers * weights.layer
  larger = max(in_layers, in_logits, key=lambda extra: sum(extra.values()))
  return parts | larger


def _apply(devices, weights) -> dict[str, int]:
  """The state is replaced where it lies; what CPU stores of the way there are
  clipped gradients and updates."""
  between = 2 * weights.gradients if devices.backend is Backend.CPU else 0
  return {'gradients': weights.gradients, 'steps of Adam': between}


# --- rollouts ----------------------------------------------------------------


def rows_of(devices: Devices, work: Work) -> tuple[int, int]:
  """(rollouts, slots for prompts) of one device."""
  rows = math.ceil(work.rows / devices.row_parts)
  return rows, min(work.append_rows, rows)


@functools.cache
def _cache(decoder, devices, rows, capacity) -> int:
  """Bytes of the cache of so many rows."""
  model = model_of(decoder, devices)
  cache = jax.eval_shape(lambda: model.empty_cache(rows, capacity))
  return total_bytes(cache)


def _extend(decoder, devices, work) -> int:
  """The widest of the calls that read."""
  _, slots = rows_of(devices, work)
  seen = min(COLUMNS, work.capacity)
  return max(
    _cached_forward(
      decoder,
      devices,
      min(slots, max(1, work.append_tokens // columns)),
      columns,
      seen,
    )
    for columns in widths(work.append_tokens, work.capacity)
  )


def _cached_forward(decoder, devices, rows, tokens, seen) -> int:
  """Rows append tokens: one layer's arrays at a time.

  Scores of every new token against the columns that are seen at a time, in
  float32, their exponentials, and the running sums; or what the SwiGLU has in
  between, if that is more.
  """
  itemsize = _activation_itemsize(decoder, devices)
  count = rows * tokens
  scores = count * decoder.heads * seen * (4 + itemsize)
  sums = 3 * count * decoder.heads * decoder.head_width * 4
  block = 2 * rows * decoder.kv_heads * seen * decoder.head_width * itemsize
  heads = 2 * (decoder.heads + decoder.kv_heads) * decoder.head_width
  attention = scores + sums + block + count * heads * itemsize
  inner = 3 * decoder.mlp_width
  return (
    max(attention, count * inner * itemsize)
    + _STREAMS * count * decoder.width * itemsize
  )


def _decode(decoder, devices, work) -> dict[str, int]:
  rows = math.ceil(work.width / devices.row_parts)
  head = (
    decoder.vocabulary * decoder.width * 4
    if _is_narrow(decoder.compute_dtype)
    else 0
  )
  # A kernel that works where the rows lie makes no array of scores either.
  gathered, seen = 0, 0
  if not model_of(decoder, devices).in_place:
    gathered = _cache(decoder, devices, rows, work.capacity)
    seen = min(COLUMNS, work.capacity)
  return {
    'rows that decode, gathered': gathered,
    'head in float32': head,
    'logits of a token': _DRAWN * rows * decoder.vocabulary * 4,
    'activations': _cached_forward(decoder, devices, rows, 1, seen),
  }


def _is_narrow(dtype) -> bool:
  return jnp.dtype(dtype).itemsize < 4


def _activation_itemsize(decoder, devices) -> int:
  if devices.backend is Backend.CPU:
    return 4
  return jnp.dtype(decoder.compute_dtype).itemsize
