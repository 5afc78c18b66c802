# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes that a run needs on each device, before anything is allocated.

Some of it is there all the time, the rest while one program runs:

  held       parameters, optimizer, sampler's weights, cache   |==============|
  prefill    the prompts' cache, before it is shared           |=|
  extend     scores of the tokens that a reply appends            |=|
  decode     the head in float32, logits of one token a row         |==|
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

from searchrl_jax.models.config import DecoderConfig
from searchrl_jax.rollout.model_policy import bucket
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
    rows: R, rollouts that decode together.
    group: G, rollouts that share a prompt.
    capacity: C, tokens of a rollout.
    prompt: tokens of the longest prompt; an assumption, nobody has read it.
    reply: tokens of the longest reply of the world.
    reference: whether there is a KL reference; with adapters it is the base,
      elsewhere it has weights of its own.
  """

  micro_rows: int
  length: int
  chunk: int
  rows: int
  group: int
  capacity: int
  prompt: int
  reply: int
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
  cache = _cache(decoder, devices, work.rows, work.capacity)
  held = {
    'parameters': weights.learned,
    'frozen parameters': weights.frozen,
    'optimizer': weights.optimizer,
    'KL reference': 0 if decoder.lora else work.reference * weights.learned,
    'sampler copy': weights.sampler,
    'KV cache': cache,
  }
  prompts = math.ceil(cache / work.group)
  passing = {
    'prefill': {
      'KV cache of the prompts': prompts,
      'activations': _cached_forward(
        decoder, devices, work, work.rows // work.group, work.prompt
      ),
    },
    'extend': {
      'activations': _cached_forward(
        decoder, devices, work, work.rows, work.reply
      )
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


@functools.cache
def _cache(decoder, devices, rows, capacity) -> int:
  """Bytes of the cache of this device's rows."""
  model = model_of(decoder, devices)
  rows = math.ceil(rows / devices.row_parts)
  cache = jax.eval_shape(lambda: model.empty_cache(rows, capacity))
  return total_bytes(cache)


def _cached_forward(decoder, devices, work, rows, tokens) -> int:
  """Rows of this device append tokens: one layer's arrays at a time.

  Scores of every new token against the whole capacity, in float32, and their
  exponentials; or what the SwiGLU has in between, if that is more.
  """
  rows = math.ceil(rows / devices.row_parts)
  width = 1 if tokens == 1 else min(bucket(tokens), work.capacity)
  itemsize = _activation_itemsize(decoder, devices)
  scores = rows * decoder.heads * width * work.capacity * (4 + itemsize)
  heads = 2 * (decoder.heads + decoder.kv_heads) * decoder.head_width
  inner = 3 * decoder.mlp_width
  count = rows * width
  one_layer = 0
  if devices.backend is Backend.ACCELERATOR:  # stacked: a layer is cut out
    cache = _cache(decoder, devices, work.rows, work.capacity)
    one_layer = cache // decoder.layers
  return (
    max(scores + count * heads * itemsize, count * inner * itemsize)
    + _STREAMS * count * decoder.width * itemsize
    + one_layer
  )


def _decode(decoder, devices, work) -> dict[str, int]:
  rows = math.ceil(work.rows / devices.row_parts)
  head = (
    decoder.vocabulary * decoder.width * 4
    if _is_narrow(decoder.compute_dtype)
    else 0
  )
  return {
    'head in float32': head,
    'logits of a token': _DRAWN * rows * decoder.vocabulary * 4,
    'activations': _cached_forward(decoder, devices, work, work.rows, 1),
  }


def _is_narrow(dtype) -> bool:
  return jnp.dtype(dtype).itemsize < 4


def _activation_itemsize(decoder, devices) -> int:
  if devices.backend is Backend.CPU:
    return 4
  return jnp.dtype(decoder.compute_dtype).itemsize
