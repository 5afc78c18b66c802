# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Our parameters -> a directory that `transformers` loads.

  directory/config.json
            model.safetensors              where one file is enough, else
            model.safetensors.index.json
            model-00001-of-00002.safetensors ...

It is written beside its place and moved there whole: a directory that exists
is complete. Weights leave the devices one at a time.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import types
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax import lax

from searchrl_jax.models import hf_config, hf_names, safetensors_format
from searchrl_jax.models.config import DecoderConfig
from searchrl_jax.models.safetensors_files import INDEX, SINGLE

CONFIG = 'config.json'
_TOKEN_IDS = ('bos_token_id', 'eos_token_id', 'pad_token_id')


def export(
  directory: str | pathlib.Path,
  params: Any,
  config: DecoderConfig,
  *,
  token_ids: Mapping[str, Any] = types.MappingProxyType({}),
  shard_bytes: int = 5_000_000_000,
  beside: Callable[[pathlib.Path], None] = lambda directory: None,
) -> None:
  """Writes a model. A tied head is not written: readers make it again.

  Args:
    directory: where to; it must not exist, or be empty.
    params: the parameters, adapters merged, in the dtype they are written in.
    config: their sizes.
    token_ids: `bos_token_id`, `eos_token_id` and `pad_token_id` as far as they
      are known; who generates text from the directory stops by the second.
    shard_bytes: weights of one file; a single weight may be larger.
    beside: writes what else belongs there, such as a tokenizer.

  Raises:
    ValueError: the directory is in use, no published family has such a model,
      or the parameters are not those of the config or spread over several
      processes.
  """
  directory = pathlib.Path(directory).resolve()
  _check(directory, token_ids)
  raw = hf_config.to_hf(config) | dict(token_ids)
  shards = _shards(_entries(params, config), shard_bytes)
  raw['dtype'] = raw['torch_dtype'] = params['embed'].dtype.name
  unfinished = directory.with_name(f'.{directory.name}.{uuid.uuid4().hex[:8]}')
  unfinished.mkdir(parents=True)
  try:
    _write(unfinished, raw, shards)
    beside(unfinished)
    unfinished.replace(directory)
  except BaseException:
    shutil.rmtree(unfinished, ignore_errors=True)
    raise


def _check(directory, token_ids):
  if directory.exists() and (
    not directory.is_dir() or any(directory.iterdir())
  ):
    raise ValueError(
      f'{directory} exists and is not empty: choose another directory'
    )
  unknown = sorted(set(token_ids) - set(_TOKEN_IDS))
  if unknown:
    raise ValueError(
      f'{", ".join(unknown)} is no id of a token: give some of '
      f'{", ".join(_TOKEN_IDS)}'
    )


def _write(directory, raw, shards):
  text = json.dumps(raw, indent=2, sort_keys=True) + '\n'
  (directory / CONFIG).write_text(text, encoding='utf-8')
  if len(shards) == 1:
    safetensors_format.write(directory / SINGLE, shards[0])
    return
  file_of = {}
  for number, shard in enumerate(shards, 1):
    file = f'model-{number:05}-of-{len(shards):05}.safetensors'
    safetensors_format.write(directory / file, shard)
    file_of |= {entry.name: file for entry in shard}
  size = sum(entry.nbytes for shard in shards for entry in shard)
  index = {'metadata': {'total_size': size}, 'weight_map': file_of}
  (directory / INDEX).write_text(json.dumps(index, indent=2) + '\n')


def _entries(params, config):
  """The weights to write, after comparing the parameters with the config."""
  found = {
    tuple(key.key for key in path): leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(params)
  }
  places = hf_names.places(config)
  expected = {
    place.path: (
      *(() if place.layer is None else (config.layers,)),
      *place.held_shape,
    )
    for place in places.values()
  }
  for path in [*expected, *found]:
    have = found[path].shape if path in found else 'missing'
    want = expected.get(path, 'none')
    if have != want:
      raise ValueError(
        f'parameter {"/".join(path)} is {have} where the config has {want}: '
        'export the parameters of this config, with adapters merged'
      )
  if not all(
    getattr(leaf, 'is_fully_addressable', True) for leaf in found.values()
  ):
    raise ValueError(
      'parameters are spread over several processes: export a checkpoint from '
      'one process'
    )
  return [
    safetensors_format.Entry(
      name,
      np.dtype(found[place.path].dtype),
      place.shape,
      lambda place=place: _fetch(found[place.path], place),
    )
    for name, place in places.items()
  ]


def _fetch(param, place):
  """One weight in the published orientation, on the host."""
  if place.layer is not None:
    # An index that is data: one program for all layers.
    layer = np.int32(place.layer)
    param = lax.dynamic_index_in_dim(param, layer, 0, keepdims=False)
  weight = np.asarray(param)
  return weight.T if place.transposed else weight


def _shards(entries, shard_bytes):
  """Entries in order, each shard as full as `shard_bytes` allows."""
  shards, size = [[]], 0
  for entry in entries:
    if shards[-1] and size + entry.nbytes > shard_bytes:
      shards.append([])
      size = 0
    shards[-1].append(entry)
    size += entry.nbytes
  return shards
