# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Published weights -> our parameters, straight into their shardings.

All names and shapes are checked before the first weight is read. Then weights
are taken in the order of their files, one at a time: each device gets its part
of a layer's matrix and writes it into its part of the stacked parameter.

  file      q of layer 0 [Q H, D] ─┐ host: one weight, in the dtype of ours
            q of layer 1 [Q H, D] ─┤ devices: turned, written in place
            ...                    ▼
  params    layers/attention/q [layers, D, Q H], never whole on a device where
            its sharding splits it, never whole on the host
"""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from searchrl_jax.models import hf_names
from searchrl_jax.models.config import DecoderConfig

# Tables of angles that old files carry along; ours come from the config.
_COMPUTED = re.compile(r'(.*\.)?rotary_emb\.inv_freq')
_NAMED = 3  # weights that an error names of each kind
_ROWS = 4096  # of a head compared at a time


class WeightSource(Protocol):
  """Weights under their published names, read one at a time.

  `str(source)` is how messages call it.
  """

  shapes: Mapping[str, tuple[int, ...]]

  def names_in_order(self) -> Iterable[str]:
    """All names, in the order they are cheapest read in; on every process of
    a run the same."""

  def read(self, name: str) -> np.ndarray:
    """One weight; may be a view of a file, of which only parts are read."""


def load(source: WeightSource, config: DecoderConfig, shardings: Any) -> Any:
  """Reads a model.

  Args:
    source: its weights.
    config: its sizes. Weights are converted to `param_dtype`; adapters of
      `lora` are left to be made.
    shardings: a tree like the parameters, a sharding at each leaf; or None,
      for the default device. On several processes each reads its parts only.

  Returns:
    The parameters, a nested dict. Host memory beside them stays at about one
    weight.

  Raises:
    ValueError: weights that are unknown, missing, repeated, of another shape
      or no floating-point numbers, or a head that should be the embedding and
      is not.
  """
  places = hf_names.places(config)
  _check_names(source, places)
  if config.tied and hf_names.HEAD in source.shapes:
    _check_tied(source)
  stacks, held = {}, {}
  for name in source.names_in_order():
    if name not in places:
      continue  # a tied head, or computed
    place = places[name]
    sharding = _at(shardings, place.path)
    # The weight has no name here: it would outlive the reading of the next.
    if place.layer is None:
      held[place.path] = _put(
        _read(source, name, place), config.param_dtype, sharding
      )
      continue
    if place.path not in stacks:
      stacks[place.path] = _Stack(place, config, sharding)
    stacks[place.path].write(place.layer, _read(source, name, place))
  held |= {path: stack.value for path, stack in stacks.items()}
  return _nested(held)


class _Stack:
  """A parameter of all layers on its devices, filled layer by layer."""

  def __init__(self, place, config, sharding):
    shape = (config.layers, *place.held_shape)
    self._dtype = jnp.dtype(config.param_dtype)
    self._layer_sharding = _layer_sharding(sharding, place)
    zeros, self._write = _programs(
      shape, self._dtype, place.transposed, sharding
    )
    self.value = zeros()

  def write(self, layer, array):
    """Waits for the write: weights on their way would pile up on the host."""
    weight = _put(array, self._dtype, self._layer_sharding)
    self.value = self._write(self.value, weight, np.int32(layer))
    jax.block_until_ready(self.value)


@functools.lru_cache(maxsize=32)
def _programs(shape, dtype, transposed, sharding):
  """(an empty stack, the write of a layer), one for all stacks that are alike.

  The stack is donated, so that the layer is written into its memory.
  """

  def write(stack, weight, layer):
    weight = weight.T if transposed else weight
    return lax.dynamic_update_index_in_dim(stack, weight, layer, 0)

  zeros = functools.partial(jnp.zeros, shape, dtype)
  return (
    jax.jit(zeros, out_shardings=sharding),
    jax.jit(write, donate_argnums=0, out_shardings=sharding),
  )


def _put(array, dtype, sharding):
  """A weight on its devices; of the host array only the parts are copied."""
  if sharding is None:
    return jax.device_put(_copy(array, dtype))
  parts = {}  # devices may hold the same part

  def part(index):
    key = tuple((s.start, s.stop) for s in index)
    if key not in parts:
      parts[key] = _copy(array[index], dtype)
    return parts[key]

  return jax.make_array_from_callback(array.shape, sharding, part)


def _copy(array, dtype):
  # A copy even where the dtype is the same: JAX may keep the memory it is
  # given, and that of a file must not become a parameter.
  return np.array(array, dtype=dtype, order='C')


def _layer_sharding(sharding, place):
  """The sharding of one layer's weight, in the published orientation."""
  if not isinstance(sharding, NamedSharding):
    return sharding
  axes = len(place.shape) + 1
  spec = (*sharding.spec, *[None] * (axes - len(sharding.spec)))[1:]
  spec = spec[::-1] if place.transposed else spec
  return NamedSharding(sharding.mesh, PartitionSpec(*spec))


def _read(source, name, place):
  array = source.read(name)
  if array.shape != place.shape:
    raise ValueError(
      f'{name} of {source} was announced as {place.shape} and read as '
      f'{array.shape}: the file is damaged, get it again'
    )
  # Below two bytes numbers are codes that need a scale from elsewhere.
  if not jnp.issubdtype(array.dtype, jnp.floating) or array.itemsize < 2:
    raise ValueError(
      f'{name} of {source} holds {array.dtype}: quantised weights are not '
      'read, choose a bfloat16, float16 or float32 version of the model'
    )
  return array


def _check_names(source, places):
  """Raises one line that names what does not fit."""
  counts = collections.Counter(source.names_in_order())
  known = {*places, *filter(_COMPUTED.fullmatch, counts)}
  known.add(hf_names.HEAD)  # where it is tied, it is compared instead
  missing = [name for name in places if name not in counts]
  unknown = [name for name in counts if name not in known]
  repeated = [name for name, count in counts.items() if count > 1]
  shapes = {name: tuple(source.shapes[name]) for name in counts}
  misshaped = [
    f'{name} is {shapes[name]} instead of {place.shape}'
    for name, place in places.items()
    if name in counts and shapes[name] != place.shape
  ]
  faults = {
    'missing': missing,
    'unknown': unknown,
    'repeated': repeated,
    'of another shape': misshaped,
  }
  said = [_listed(kind, names) for kind, names in faults.items() if names]
  if said:
    raise ValueError(
      f'the weights of {source} are not those of its config: '
      f'{"; ".join(said)}. Take both from the same model'
    )


def _listed(kind, names):
  shown = ', '.join(names[:_NAMED])
  more = ', ...' if len(names) > _NAMED else ''
  return f'{len(names)} {kind} ({shown}{more})'


def _check_tied(source):
  """A file may repeat the embedding as the head; another head is a fault."""
  embedding = source.read(hf_names.EMBEDDING)
  head = source.read(hf_names.HEAD)
  same = head.shape == embedding.shape and all(
    np.array_equal(head[i : i + _ROWS], embedding[i : i + _ROWS])
    for i in range(0, len(head), _ROWS)
  )
  if not same:
    raise ValueError(
      f'the config of {source} ties the head to the embedding, but '
      f'{hf_names.HEAD} is not {hf_names.EMBEDDING}: set tie_word_embeddings '
      'to false in config.json, or leave the head out'
    )


def _at(shardings, path):
  for key in path:
    if shardings is None:
      return None
    shardings = shardings[key]
  return shardings


def _nested(flat):
  """{('a', 'b'): x} -> {'a': {'b': x}}."""
  tree = {}
  for path, value in flat.items():
    node = tree
    for key in path[:-1]:
      node = node.setdefault(key, {})
    node[path[-1]] = value
  return tree
