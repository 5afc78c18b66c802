# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes of all weights on each device, without any weight or device.

Parameters are shapes, and where they lie is read off the table of `sharding`
that places the real ones: these numbers are exact.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh

from searchrl_jax import sharding
from searchrl_jax.models import decoder as decoders
from searchrl_jax.models import lora
from searchrl_jax.models.config import DecoderConfig
from searchrl_jax.training.optimizer import OptimizerConfig, make_optimizer
from searchrl_jax.training.state import state_shardings


class Backend(enum.Enum):
  """What compiles a run.

  CPU computes bfloat16 in float32, which doubles what it keeps, and stores the
  results of most operations. An accelerator fuses those between two matrix
  products.
  """

  CPU = 'cpu'
  ACCELERATOR = 'accelerator'


@dataclasses.dataclass(frozen=True)
class Devices:
  """Sizes of the mesh; it may be larger than this machine.

  Attributes:
    data, fsdp, tensor: see `sharding`.
    backend: of all of them.
  """

  data: int
  fsdp: int
  tensor: int
  backend: Backend

  @property
  def row_parts(self) -> int:
    """Into how many parts rows are split."""
    return self.data * self.fsdp

  @property
  def mesh(self) -> AbstractMesh:
    """The sizes by name, without devices."""
    return AbstractMesh((self.data, self.fsdp, self.tensor), sharding.MESH_AXES)


@dataclasses.dataclass(frozen=True)
class Weights:
  """Bytes on each device, all of whose weights are in their places.

  Attributes:
    learned, frozen: parameters of the learner.
    gradients: one float32 number for each that learns.
    optimizer: moments and counters.
    sampler: what rollouts use, whole on every device.
    tables: embedding and head as one device multiplies them, float32.
    layer: the matrices of one layer, likewise.
  """

  learned: int
  frozen: int
  gradients: int
  optimizer: int
  sampler: int
  tables: int
  layer: int


@functools.cache
def weigh(decoder: DecoderConfig, devices: Devices) -> Weights:
  """Bytes of all weights, from shapes and the table of shardings alone.

  Raises:
    ValueError: a matrix cannot be split over the mesh.
  """
  model = model_of(decoder, devices)
  params = shapes_of(decoder)
  axes = model.axes(params)
  placed = sharding.param_shardings(devices.mesh, params, axes)
  learned, frozen = parted(decoder, params)
  places, frozen_places = parted(decoder, placed)
  optimizer = make_optimizer(OptimizerConfig(), 1)
  moments = state_shardings(devices.mesh, optimizer, learned, places).opt_state
  gathered = dataclasses.replace(devices, data=1, fsdp=1)
  whole = sharding.param_shardings(gathered.mesh, params, axes)
  layers = _bytes(_float32(params['layers']), whole['layers'])
  return Weights(
    learned=_bytes(learned, places),
    frozen=_bytes(frozen, frozen_places),
    gradients=_bytes(_float32(learned), places),
    optimizer=_bytes(jax.eval_shape(optimizer.init, learned), moments),
    sampler=total_bytes(jax.eval_shape(model.unstack, params)),
    tables=_bytes(_float32(params), whole) - layers,
    layer=layers // decoder.layers,
  )


def parted(decoder, params):
  """(what learns, what is frozen)."""
  return (params, {}) if decoder.lora is None else lora.split(params)


@functools.cache
def shapes_of(decoder: DecoderConfig) -> Any:
  return jax.eval_shape(
    decoders.build_model(decoder, unrolled=False).init, jax.random.key(0)
  )


def model_of(decoder: DecoderConfig, devices: Devices) -> decoders.Model:
  """The model as its backend lays it out."""
  unrolled = devices.backend is Backend.CPU
  return decoders.build_model(decoder, unrolled=unrolled)


def _float32(shapes):
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, jnp.float32), shapes
  )


def _bytes(shapes, places) -> int:
  """Bytes of the parts that one device holds."""
  parts = jax.tree.map(
    lambda x, place: math.prod(place.shard_shape(x.shape)) * x.dtype.itemsize,
    shapes,
    places,
  )
  return sum(jax.tree.leaves(parts))


def total_bytes(shapes) -> int:
  return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(shapes))
