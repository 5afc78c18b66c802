# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One safetensors file: its table of contents, one weight, a file written.

  8 bytes   length n of the header, little-endian
  n bytes   {"name": {"dtype": "BF16", "shape": [2, 3],
             "data_offsets": [begin, end]}, ...}, JSON
  the rest  the weights without gaps, offsets counted from here

Weights are mapped, not read: whoever takes a part of one reads that part, and
the memory goes with the array. A file is written weight by weight.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

# Floating-point types as they are; codes of quantised weights are not here.
_DTYPE_OF = {
  'F64': np.dtype('<f8'),
  'F32': np.dtype('<f4'),
  'F16': np.dtype('<f2'),
  'BF16': np.dtype(ml_dtypes.bfloat16),
}
_TAG_OF = {dtype: tag for tag, dtype in _DTYPE_OF.items()}
_LARGEST_HEADER = 100_000_000  # bytes, the format's own limit
_DIVISOR = 8  # the header is padded to a multiple


@dataclasses.dataclass(frozen=True)
class Stored:
  """One weight within a file."""

  path: pathlib.Path
  name: str
  dtype: np.dtype
  shape: tuple[int, ...]
  offset: int  # bytes from the start of the file

  @property
  def stop(self) -> int:
    """The first byte behind it."""
    return self.offset + math.prod(self.shape) * self.dtype.itemsize

  def map(self) -> np.ndarray:
    """The weight as a view of the file, read-only."""
    return np.memmap(self.path, self.dtype, 'r', self.offset, self.shape)


def contents(path: pathlib.Path) -> list[Stored]:
  """What a file holds, in the order of its bytes.

  Raises:
    ValueError: the file is missing, cut short or no safetensors file, holds a
      name twice, or numbers that are no floating-point numbers.
  """
  header, start = _header(path)
  found = [
    _stored(path, name, entry, start)
    for name, entry in header
    if name != '__metadata__'
  ]
  found.sort(key=lambda stored: (stored.offset, stored.stop))
  for name, count in collections.Counter(
    weight.name for weight in found
  ).items():
    if count > 1:
      raise _broken(path, f'it holds {name} twice')
  ends = [start, *(stored.stop for stored in found)]
  for end, stored in zip(ends, found, strict=False):
    if stored.offset != end:
      raise _broken(path, f'{stored.name} does not begin where another ends')
  size = path.stat().st_size
  if size < ends[-1]:
    raise ValueError(
      f'{path} is cut short: {size} bytes of {ends[-1]}; get it again'
    )
  if size > ends[-1]:
    raise _broken(path, f'{size - ends[-1]} bytes belong to no weight')
  return found


@dataclasses.dataclass(frozen=True)
class Entry:
  """One weight to be written; `fetch` brings it when its turn has come."""

  name: str
  dtype: np.dtype
  shape: tuple[int, ...]
  fetch: Callable[[], np.ndarray]

  @property
  def nbytes(self) -> int:
    """Size in the file."""
    return math.prod(self.shape) * self.dtype.itemsize


def write(path: pathlib.Path, entries: Iterable[Entry]) -> None:
  """Writes a file, holding one weight at a time.

  Raises:
    ValueError: a weight is of a type that the format or its readers lack.
  """
  entries = list(entries)
  # transformers asks for this to know which orientation matrices have.
  header: dict[str, Any] = {'__metadata__': {'format': 'pt'}}
  ends = itertools.accumulate(entry.nbytes for entry in entries)
  for entry, end in zip(entries, ends, strict=True):
    if entry.dtype not in _TAG_OF:
      raise ValueError(
        f'{entry.name} is {entry.dtype}: weights are written as '
        f'{", ".join(str(dtype) for dtype in _TAG_OF)}'
      )
    header[entry.name] = {
      'dtype': _TAG_OF[entry.dtype],
      'shape': list(entry.shape),
      'data_offsets': [end - entry.nbytes, end],
    }
  text = json.dumps(header, separators=(',', ':')).encode()
  text += b' ' * (-len(text) % _DIVISOR)
  with path.open('wb') as file:
    file.write(len(text).to_bytes(8, 'little'))
    file.write(text)
    for entry in entries:
      _write_weight(file, entry)


def _write_weight(file, entry):
  # A function of its own: a name in a loop would keep one weight alive while
  # the next is fetched.
  array = np.ascontiguousarray(entry.fetch())
  if (array.dtype, array.shape) != (entry.dtype, entry.shape):
    raise ValueError(
      f'{entry.name} was announced as {entry.dtype} {entry.shape} and is '
      f'{array.dtype} {array.shape}'
    )
  file.write(array.reshape(-1).view(np.uint8).data)


def _header(path):
  """The entries of the header, repeated names kept, and where data begin."""
  try:
    with path.open('rb') as file:
      size = path.stat().st_size
      length = int.from_bytes(file.read(8), 'little')
      if size < 8 or not 0 < length <= _LARGEST_HEADER:
        raise _broken(path, 'it has no header')
      if size < 8 + length:
        raise ValueError(f'{path} is cut short within its header; get it again')
      text = file.read(length)
  except OSError as error:
    raise ValueError(f'{path} cannot be read: {error.strerror}') from None
  try:
    # Objects become tuples of pairs: a dict would lose repeated names.
    pairs = json.loads(text, object_pairs_hook=tuple)
  except ValueError:
    pairs = None
  if not isinstance(pairs, tuple):
    raise _broken(path, 'its header is not JSON')
  return pairs, 8 + length


def _stored(path, name, entry, start):
  try:
    entry = dict(entry)
    tag, shape = entry['dtype'], tuple(entry['shape'])
    begin, end = entry['data_offsets']
    sizes = all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end))
  except (TypeError, ValueError, KeyError):
    sizes = False
  if not sizes:
    raise _broken(path, f'the entry of {name} is incomplete')
  if tag not in _DTYPE_OF:
    raise ValueError(
      f'{name} in {path} holds {tag}: quantised weights are not read, choose a '
      'bfloat16, float16 or float32 version of the model'
    )
  stored = Stored(path, name, _DTYPE_OF[tag], shape, start + begin)
  if stored.stop != start + end:
    raise _broken(path, f'{name} has {end - begin} bytes for {shape} {tag}')
  return stored


def _broken(path, why):
  return ValueError(f'{path} is no whole safetensors file: {why}; get it again')
