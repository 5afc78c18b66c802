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

from searchrl_jax.models import decoder as decoders
from searchrl_jax.models import lora
from searchrl_jax.models.config import DecoderConfig, Remat
from searchrl_jax.training.weigh import (
  Backend,
  Devices,
  parted,
  shapes_of,
  total_bytes,
)


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


def layer_bytes(decoder, devices, rows, length) -> int:
  """What is there while the backward pass is in one layer.

  On CPU everything the layer has computed. Where operations between matrix
  products are fused with them, the products and their gradients.
  """
  share = _share(decoder, devices)
  if devices.backend is Backend.CPU:
    share = dataclasses.replace(share, remat=Remat.NOTHING)
    return _kept(share, length).of_a_layer(rows)
  share = dataclasses.replace(share, remat=Remat.PRODUCTS)
  return 2 * _kept(share, length).of_a_layer(rows)


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
