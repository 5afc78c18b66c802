# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What one checkpoint consists of, and how it is read: with suspicion.

  40/params/      arrays; alone enough to use the model
     optimizer/   the rest of the state: moments, counters
     meta/        JSON: step, key, data position, progress, checksums
     config/      JSON: the config it was trained with
     metrics/     JSON: what "best" is decided by

Files may be missing, cut short or changed. That is told apart from a whole
checkpoint of another model: the first is passed over, the second is an error.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import zlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

_ARRAYS = ('params', 'optimizer')


class UnreadableError(ValueError):
  """A checkpoint that is there but cannot be read back."""


def directory_of(workdir: str | os.PathLike) -> pathlib.Path:
  """Where the checkpoints of a workdir lie."""
  return pathlib.Path(workdir).absolute() / 'checkpoints'


# For those who read: nothing is made, cleared or written.
LOOKING = {'create': False, 'save_root_metadata': False}


def open_manager(directory, **options) -> ocp.CheckpointManager:
  """Orbax's manager of a folder of checkpoints with these items."""
  handlers = {name: ocp.PyTreeCheckpointHandler() for name in _ARRAYS}
  handlers |= {name: ocp.JsonCheckpointHandler() for name in ('meta', 'config')}
  return ocp.CheckpointManager(
    directory,
    options=ocp.CheckpointManagerOptions(
      # Asynchronous saves would read buffers that the next update donates.
      enable_async_checkpointing=False,
      **options,
    ),
    item_handlers=handlers,
  )


def read_items(
  manager, place: pathlib.Path, step: int, templates: Mapping[str, Any]
) -> dict:
  """Items of a checkpoint: the trees of the templates, and both JSON items.

  Raises:
    UnreadableError: files are missing, cut short, or not what was written.
    ValueError: the checkpoint is whole but has other shapes.
  """
  args = {
    'meta': ocp.args.JsonRestore(),
    'config': ocp.args.JsonRestore(),
  }
  try:
    saved = manager.item_metadata(step)
    shapes = {name: _shapes(saved[name]) for name in templates}
    if not shapes['params']:  # an optimizer may have no arrays, a model has
      raise LookupError('no description of its arrays')
  except _FAILURES as error:
    raise _unreadable(place, error) from error
  for name, template in templates.items():
    _require_same_shapes(place, shapes[name], _shapes(template))
    args[name] = ocp.args.PyTreeRestore(
      item=template, restore_args=jax.tree.map(_restore_args, template)
    )
  try:
    items = manager.restore(step, args=ocp.args.Composite(**args))
    items = {name: items[name] for name in args}
    sums = {name: items['meta']['checksums'][name] for name in templates}
  except _FAILURES as error:
    raise _unreadable(place, error) from error
  for name, wanted in sums.items():
    got = checksum(items[name])
    if None not in (got, wanted) and got != wanted:
      raise _unreadable(place, f'{name} is not what was written')
  return items


# What orbax raises for files that are missing or broken. Not RuntimeError,
# which is also "out of memory": such a checkpoint is healthy.
_FAILURES = (ValueError, OSError, LookupError, TypeError, AttributeError)


def _unreadable(place, why):
  first = (str(why).splitlines() or [type(why).__name__])[0]
  return UnreadableError(f'{place} cannot be read ({first[:200]}).')


def _restore_args(leaf):
  if getattr(leaf, 'sharding', None) is None:
    return ocp.RestoreArgs(restore_type=np.ndarray, dtype=leaf.dtype)
  return ocp.ArrayRestoreArgs(
    sharding=leaf.sharding, global_shape=leaf.shape, dtype=leaf.dtype
  )


def _shapes(tree) -> dict[str, tuple]:
  """Path of a leaf -> its shape and dtype."""
  leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
  return {
    jax.tree_util.keystr(path, simple=True, separator='/'): (
      tuple(leaf.shape),
      np.dtype(leaf.dtype),
    )
    for path, leaf in leaves
  }


def _require_same_shapes(place, there, here) -> None:
  def words(shapes, name):
    if name not in shapes:
      return 'absent'
    shape, dtype = shapes[name]
    return f'{dtype}{list(shape)}'

  for name in sorted(there.keys() | here.keys()):
    if words(there, name) != words(here, name):
      raise ValueError(
        f'{place}: {name} is {words(there, name)} there and '
        f'{words(here, name)} here; use the model and optimizer it was saved '
        'with.'
      )


def split_state(state) -> dict[str, Any]:
  """A state as two items, so that parameters can be read without the rest."""
  fields = {
    field.name: getattr(state, field.name)
    for field in dataclasses.fields(state)
  }
  return {'params': fields.pop('params'), 'optimizer': fields}


def as_array(leaf):
  return leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)


def key_to_json(key):
  words = np.asarray(jax.random.key_data(key))
  return {'impl': str(jax.random.key_impl(key)), 'words': words.tolist()}


def key_from_json(saved):
  words = np.array(saved['words'], np.uint32)
  return jax.random.wrap_key_data(words, impl=saved['impl'])


def checksum(tree) -> int | None:
  """CRC of all leaves; None where other processes hold parts of them.

  Compressed blocks of random numbers are stored as they are, so a changed
  byte would otherwise come back as a changed weight.
  """
  crc = 0
  for leaf in jax.tree.leaves(tree):
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
      return None
    flat = np.ascontiguousarray(leaf).reshape(-1)
    crc = zlib.crc32(flat.view(np.uint8), crc)
  return crc
