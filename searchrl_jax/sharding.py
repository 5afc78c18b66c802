# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Where arrays live: one mesh, one table, and the verbs that place arrays.

  data     rows of a batch; parameters are the same on every device
  fsdp     rows of a batch, and one axis of every matrix
  tensor   heads, inner widths and vocabulary; rows are the same

Data parallel, fully sharded and tensor parallel runs are the same jitted
program; they differ by the three sizes of the mesh only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

MESH_AXES = ('data', 'fsdp', 'tensor')

# Logical axis of a parameter -> mesh axis. The models name the left side.
MESH_AXIS_OF = {
  'layers': None,  # scanned over: every device walks through all layers
  'norm': None,  # too small to be worth a gather
  'embed': 'fsdp',
  'vocabulary': 'tensor',
  'heads': 'tensor',
  'kv_heads': 'tensor',
  'mlp': 'tensor',
  'rank': None,  # of an adapter: too small to be split
}

ROWS = PartitionSpec(('data', 'fsdp'))
REPLICATED = PartitionSpec()


def make_mesh(
  data: int = -1,
  fsdp: int = 1,
  tensor: int = 1,
  devices: Sequence[jax.Device] | None = None,
) -> Mesh:
  """Arranges devices as a mesh ('data', 'fsdp', 'tensor').

  Args:
    data: copies of the model; -1 takes what `fsdp` and `tensor` leave.
    fsdp: parts a matrix is stored in, gathered where it is used.
    tensor: parts a matrix is multiplied in.
    devices: all devices of the run where None.

  Raises:
    ValueError: the sizes do not use up the devices exactly.
  """
  devices = list(jax.devices() if devices is None else devices)
  if min(fsdp, tensor) < 1 or (data < 1 and data != -1):
    raise ValueError(
      f'mesh data={data}, fsdp={fsdp}, tensor={tensor}: sizes are at least 1 '
      '(data may be -1, for what is left).'
    )
  whole = data if data != -1 else max(1, len(devices) // (fsdp * tensor))
  if whole * fsdp * tensor != len(devices):
    raise ValueError(
      f'mesh data={data}, fsdp={fsdp}, tensor={tensor} does not fit '
      f'{len(devices)} devices; the product of the three must be '
      f'{len(devices)}.'
    )
  return jax.make_mesh(
    (whole, fsdp, tensor),
    MESH_AXES,
    # The default is Explicit; ours is code that the compiler partitions.
    axis_types=(AxisType.Auto,) * len(MESH_AXES),
    devices=devices,
  )


def param_shardings(mesh: Mesh, params: Any, axes: Any) -> Any:
  """Shardings of parameters, read off the table.

  Args:
    mesh: of `make_mesh`.
    params: arrays or shapes; read for their shapes only.
    axes: the same tree with a tuple of logical axis names at each leaf.

  Raises:
    ValueError: an axis the table does not know, or cannot split evenly.
  """

  def place(path, param, names):
    name = jax.tree_util.keystr(path, simple=True, separator='/')
    unknown = [axis for axis in names if axis not in MESH_AXIS_OF]
    if unknown or len(names) != len(param.shape):
      raise ValueError(
        f'parameter {name} {tuple(param.shape)} has axes {tuple(names)}; give '
        f'each of its axes one of: {", ".join(MESH_AXIS_OF)}.'
      )
    spec = PartitionSpec(*(MESH_AXIS_OF[axis] for axis in names))
    return _fitting(mesh, spec, param, f'parameter {name}')

  return jax.tree_util.tree_map_with_path(place, params, axes)


def put(mesh: Mesh, tree: Any, spec: PartitionSpec) -> Any:
  """Places host arrays on the mesh, every leaf by the same spec.

  The result may share the memory of its source, which must not change after.

  Raises:
    ValueError: a leaf cannot be split evenly.
  """
  shardings = jax.tree.map(lambda x: _fitting(mesh, spec, x, 'an array'), tree)
  return jax.device_put(tree, shardings)


def put_rows(mesh: Mesh, tree: Any) -> Any:
  """Splits the leading axis, rows, over the axes 'data' and 'fsdp'."""
  return put(mesh, tree, ROWS)


def keep_rows(mesh: Mesh) -> Callable[[jax.Array], jax.Array]:
  """A function that keeps an array split by its rows, inside a program."""

  def place(array):
    return jax.lax.with_sharding_constraint(array, NamedSharding(mesh, ROWS))

  return place


def replicate(mesh: Mesh, tree: Any) -> Any:
  """Gives every device of the mesh the whole of every leaf."""
  return put(mesh, tree, REPLICATED)


def reshard(tree: Any, shardings: Any) -> Any:
  """Moves arrays to other shardings, also to those of another mesh.

  Leaves that are in place already are copied all the same: the result
  outlives the donation of the source, and the source that of the result.
  """
  moved = jax.device_put(tree, shardings)
  # The placed copy keeps the source's buffer on devices that held it, even
  # with may_alias=False; a program's results have buffers of their own.
  copy = jax.jit(
    lambda tree: jax.tree.map(jnp.copy, tree), out_shardings=shardings
  )
  return copy(moved)


def row_parts(mesh: Mesh) -> int:
  """Into how many parts the mesh splits the rows of a batch."""
  return mesh.shape['data'] * mesh.shape['fsdp']


def require_splittable_rows(mesh: Mesh, rows: int, what: str) -> None:
  """Raises a ValueError where `rows` cannot be split over the mesh.

  Args:
    what: the config key of the number, for the message.
  """
  parts = row_parts(mesh)
  if rows < 1 or rows % parts:
    raise ValueError(
      f'{what} is {rows}, but the mesh splits rows over '
      f'data={mesh.shape["data"]} x fsdp={mesh.shape["fsdp"]} devices; choose '
      f'a multiple of {parts}.'
    )


def _fitting(mesh, spec, array, what) -> NamedSharding:
  """The sharding of an array, after checking that every axis divides."""
  if len(spec) > len(array.shape):
    raise ValueError(
      f'{what} of shape {tuple(array.shape)} has fewer axes than {spec}.'
    )
  for size, names in zip(array.shape, spec, strict=False):
    names = (names,) if isinstance(names, str) else names or ()
    parts = math.prod(mesh.shape[name] for name in names)
    if size % parts:
      split = ' x '.join(f'{name}={mesh.shape[name]}' for name in names)
      raise ValueError(
        f'{what} of shape {tuple(array.shape)}: {size} does not split over '
        f'{split} devices; choose sizes that divide it.'
      )
  return NamedSharding(mesh, spec)
