# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a forward pass keeps for its backward pass, counted in its trace.

JAX is asked which arrays it would keep, with shapes in place of numbers. Every
rematerialisation policy and every option of the decoder is counted as it is,
and a change of the decoder is a change of the count.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jax.extend.core import jaxprs_in_params

from searchrl_jax.models import attention, lora
from searchrl_jax.models import decoder as decoders
from searchrl_jax.models.config import DecoderConfig, Remat
from searchrl_jax.training.weigh import (
  Backend,
  Devices,
  parted,
  shapes_of,
  total_bytes,
)

# Blocks of float32 scores that there are while one is differentiated: scores,
# exponentials and the gradients of both; where neighbours are fused, one of
# them is made on the way.
_SCORES = {Backend.CPU: 4, Backend.ACCELERATOR: 3}


def kept_bytes(
  decoder: DecoderConfig, devices: Devices, rows: int, length: int
) -> int:
  """What a device keeps of a forward pass for the backward pass.

  Args:
    decoder: its `remat` decides.
    devices: its tensor axis splits heads and inner widths.
    rows: packed rows of this device.
    length: tokens of each.
  """
  return _kept(_share(decoder, devices), length).of(decoder.layers, rows)


def layer_bytes(
  decoder: DecoderConfig, devices: Devices, rows: int, length: int
) -> int:
  """What is there while the backward pass is in one layer.

  On CPU everything the layer has computed. Where operations between matrix
  products are fused with them: the products and their gradients. Attention
  computes its scores again, when what the SwiGLU computed is gone:

    SwiGLU      | attention's | SwiGLU's          |
    attention   | attention's | scores of a block |    the longer one counts

  Args:
    decoder, devices, rows, length: as for `kept_bytes`.
  """
  share = _share(decoder, devices)
  copies, policy = 1, Remat.NOTHING
  if devices.backend is Backend.ACCELERATOR:
    copies, policy = 2, Remat.PRODUCTS
  whole = dataclasses.replace(share, remat=policy)
  alone = dataclasses.replace(whole, mlp_width=1)
  scores = _SCORES[devices.backend] * rows
  scores *= _block_of_scores(share.heads, share.head_width, length)
  adapted = rows * length * _adapted_width(share)
  adapted *= jnp.dtype(share.compute_dtype).itemsize
  return adapted + max(
    copies * _kept(whole, length).of_a_layer(rows),
    copies * _kept(alone, length).of_a_layer(rows) + scores,
  )


def _adapted_width(decoder: DecoderConfig) -> int:
  """Numbers that adapters give for a token, beside those of the matrices."""
  if decoder.lora is None:
    return 0
  adapters, _ = lora.split(shapes_of(decoder))
  leaves, _ = jax.tree_util.tree_flatten_with_path(adapters)
  return sum(
    leaf.shape[-1] for path, leaf in leaves if path[-1].key.endswith('_b')
  )


@functools.cache
def _block_of_scores(heads: int, head_width: int, length: int) -> int:
  """Bytes of the largest array within the attention of a packed row."""
  one = jax.ShapeDtypeStruct((1, length, heads, head_width), jnp.float32)
  segments = jax.ShapeDtypeStruct((1, length), jnp.int32)

  def attend(q, k, v, segment_ids):
    mask = attention.segment_mask(segment_ids)
    return attention.attend_segments(q, k, v, mask)

  jaxpr = jax.make_jaxpr(attend)(one, one, one, segments).jaxpr
  return max(out.aval.size * out.aval.dtype.itemsize for out in _results(jaxpr))


def _results(jaxpr):
  """Everything a program computes, also in the programs it calls."""
  for equation in jaxpr.eqns:
    yield from equation.outvars
    for inner in jaxprs_in_params(equation.params):
      yield from _results(inner)


def _share(decoder, devices) -> DecoderConfig:
  """The decoder as one device of the tensor axis computes it."""
  parts = devices.tensor
  # Heads that cannot be split are computed whole.
  kv_parts = parts if decoder.kv_heads % parts == 0 else 1
  parts = parts if decoder.heads % parts == 0 else 1
  kv_parts = min(kv_parts, parts)
  dtype = decoder.compute_dtype
  return dataclasses.replace(
    decoder,
    heads=decoder.heads // parts,
    kv_heads=decoder.kv_heads // kv_parts,
    mlp_width=math.ceil(decoder.mlp_width / devices.tensor),
    compute_dtype=jnp.float32 if devices.backend is Backend.CPU else dtype,
  )


@dataclasses.dataclass(frozen=True)
class _Kept:
  """Bytes kept by a forward pass: linear in rows, and linear in layers.

  A scan keeps the same arrays of every layer, a batch the same of every row.
  """

  fixed: int
  row: int
  layer: int
  layer_row: int

  def of(self, layers: int, rows: int) -> int:
    return self.fixed + self.row * rows + layers * self.of_a_layer(rows)

  def of_a_layer(self, rows: int) -> int:
    return self.layer + self.layer_row * rows


def _kept(decoder: DecoderConfig, length: int) -> _Kept:
  return _trace_kept(dataclasses.replace(decoder, layers=1), length)


@functools.cache
def _trace_kept(decoder: DecoderConfig, length: int) -> _Kept:
  """Measured at one and two layers, one and two rows."""
  count = {
    (layers, rows): _residuals(
      dataclasses.replace(decoder, layers=layers), rows, length
    )
    for layers in (1, 2)
    for rows in (1, 2)
  }
  one, two = (count[2, rows] - count[1, rows] for rows in (1, 2))
  layer_row = two - one
  row = count[1, 2] - count[1, 1] - layer_row
  layer = one - layer_row
  fixed = count[1, 1] - row - layer - layer_row
  return _Kept(fixed, row, layer, layer_row)


def _residuals(decoder: DecoderConfig, rows: int, length: int) -> int:
  """Bytes that the traced forward pass hands to the backward pass.

  Parameters among them are there already and not counted.
  """
  model = decoders.build_model(decoder, unrolled=False)
  learned, frozen = parted(decoder, shapes_of(decoder))
  numbers = jax.ShapeDtypeStruct((rows, length), jnp.int32)

  def backward(learned, frozen, tokens, positions, segment_ids):
    def forward(learned):
      params = lora.join(frozen, learned) if frozen else learned
      return model.apply(params, tokens, positions, segment_ids)

    return jax.vjp(forward, learned)[1]

  arguments = (learned, frozen, numbers, numbers, numbers)
  jaxpr = jax.make_jaxpr(backward)(*arguments).jaxpr
  handed = {id(v): v.aval for v in jaxpr.outvars if not hasattr(v, 'val')}
  for argument in jaxpr.invars:
    handed.pop(id(argument), None)
  return total_bytes(handed)
