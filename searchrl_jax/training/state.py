# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What training changes: parameters, moments, counters, and where they lie."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding

from searchrl_jax import sharding


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
  """Everything an update changes; also used as a tree of its shardings."""

  params: Any
  opt_state: Any
  step: Any  # [] int32, updates done
  skipped: Any  # [] int32, updates skipped since the start of the run
  skipped_in_row: Any  # [] int32, since the last update that was done


def state_shardings(
  mesh: Mesh,
  optimizer: optax.GradientTransformation,
  params: Any,
  param_shardings: Any,
) -> TrainState:
  """Shardings of a state: moments lie where their parameters do.

  Args:
    mesh: of `sharding.make_mesh`.
    optimizer: its state's structure is read.
    params: arrays or shapes, a dict.
    param_shardings: of `sharding.param_shardings`.
  """
  whole = NamedSharding(mesh, sharding.REPLICATED)
  structure = jax.tree.structure(params)

  def is_moment(node):
    return jax.tree.structure(node) == structure

  opt_state = jax.tree.map(
    lambda node: param_shardings if is_moment(node) else whole,
    jax.eval_shape(optimizer.init, params),
    is_leaf=is_moment,
  )
  return TrainState(param_shardings, opt_state, whole, whole, whole)


def template(
  params: Any,
  optimizer: optax.GradientTransformation,
  shardings: TrainState,
) -> TrainState:
  """The shapes of a state with their shardings; nothing is allocated.

  Args:
    params: arrays or shapes.
    optimizer: its state's structure is read.
    shardings: of `state_shardings`.
  """
  counter = jax.ShapeDtypeStruct((), np.int32)
  opt_state = jax.eval_shape(optimizer.init, params)
  return jax.tree.map(
    lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
    TrainState(params, opt_state, counter, counter, counter),
    shardings,
  )


def init_state(
  params: Any,
  optimizer: optax.GradientTransformation,
  shardings: TrainState,
) -> TrainState:
  """A state before its first update. Copies `params`; they stay usable."""
  params = sharding.reshard(params, shardings.params)
  zeros = [np.zeros((), np.int32) for _ in range(3)]
  counters = sharding.reshard(
    zeros, [shardings.step, shardings.skipped, shardings.skipped_in_row]
  )
  init = jax.jit(optimizer.init, out_shardings=shardings.opt_state)
  return TrainState(params, init(params), *counters)


def restart_optimizer(
  state: TrainState,
  optimizer: optax.GradientTransformation,
  shardings: TrainState,
) -> TrainState:
  """The same parameters and counters with fresh moments: a new phase.

  The old moments are deleted, whoever still holds the state: they would stay
  for the whole of a phase, twice the size of the parameters.
  """
  for leaf in jax.tree.leaves(state.opt_state):
    leaf.delete()
  init = jax.jit(optimizer.init, out_shardings=shardings.opt_state)
  return dataclasses.replace(state, opt_state=init(state.params))
