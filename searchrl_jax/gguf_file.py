# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A GGUF file: metadata as Python values, tensors read one at a time.

  'GGUF' version | counts | key, type, value ... | name, axes, kind, offset ...
  | padding | tensors, each at its offset, in blocks of its quantisation

The library `gguf` knows the quantisations. The table of contents is read here:
a vocabulary is half a million strings, which the library's reader takes
seconds for, and what is wrong with a file shall be told in one line.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import struct
from typing import Any

import gguf
import numpy as np

_MAGIC = b'GGUF'
_VERSIONS = (2, 3)
_ALIGNMENT = 32  # where the file names none

_VALUES = gguf.GGUFValueType
_NUMBERS = {
  _VALUES.UINT8: '<u1',
  _VALUES.INT8: '<i1',
  _VALUES.UINT16: '<u2',
  _VALUES.INT16: '<i2',
  _VALUES.UINT32: '<u4',
  _VALUES.INT32: '<i4',
  _VALUES.FLOAT32: '<f4',
  _VALUES.BOOL: '?',
  _VALUES.UINT64: '<u8',
  _VALUES.INT64: '<i8',
  _VALUES.FLOAT64: '<f8',
}


@dataclasses.dataclass(frozen=True)
class GgufTensor:
  """One tensor as the file holds it.

  Attributes:
    shape: rows first, as published weights count; the file lists it reversed.
    kind: the quantisation.
    stored: blocks of it, `[..., bytes of a row]` uint8, mapped and not read.
  """

  shape: tuple[int, ...]
  kind: gguf.GGMLQuantizationType
  stored: np.ndarray

  def read(self) -> np.ndarray:
    """The values, dequantised: a new float32 array of `shape`."""
    values = gguf.quants.dequantize(np.asarray(self.stored), self.kind)
    # Float32 comes back as a view of the file: only that is copied.
    return np.require(values.reshape(self.shape), np.float32, 'W')


class GgufFile:
  """A GGUF file, opened; tensors stay on disk until they are read.

  Attributes:
    path: where it lies.
    metadata: key -> number, bool, string or list of them. A float32 is the
      shortest decimal that rounds to it: 1e-05, not 9.999999747378752e-06.
    tensors: name -> tensor, in the order of the file.
  """

  def __init__(self, path: str | os.PathLike[str]):
    """Reads the table of contents.

    Raises:
      ValueError: there is no such file, it is no GGUF file or one of a kind
        that is not read, or it is cut short or damaged.
    """
    self.path = pathlib.Path(path)
    data = _map(self.path)
    _check_kind(self.path, data)
    cursor = _Cursor(data)
    try:
      self.metadata, entries = _contents(cursor)
    except (EOFError, ValueError) as error:
      raise ValueError(
        f'{self.path} is cut short or damaged, {error}; download it again.'
      ) from None
    parts = self.metadata.get('split.count', 1)
    if parts > 1:
      raise ValueError(
        f'{self.path} is one of {parts} parts of a model; join them, for '
        'instance by `llama-gguf-split --merge`, and give the whole file.'
      )
    # Tensors begin at a multiple of it.
    alignment = self.metadata.get('general.alignment', _ALIGNMENT)
    data = data[-(-cursor.at // alignment) * alignment :]
    self.tensors = {
      name: _tensor(self.path, data, name, *entry)
      for name, entry in entries.items()
    }


def _map(path):
  """The bytes of a file, not read yet."""
  if path.is_dir():
    raise ValueError(f'{path} is a directory; give the .gguf file in it.')
  try:
    return np.memmap(path, np.uint8, 'r')
  except FileNotFoundError:
    raise ValueError(f'there is no file {path}; check the path.') from None
  except OSError as error:
    raise ValueError(f'{path} cannot be read: {error.strerror}.') from None
  except ValueError:  # what an empty file gives
    raise ValueError(f'{path} is empty; download it again.') from None


def _check_kind(path, data):
  if data[:4].tobytes() != _MAGIC:
    raise ValueError(
      f'{path} is not a GGUF file: it does not begin with {_MAGIC.decode()}.'
    )
  version = int.from_bytes(data[4:8].tobytes(), 'little')
  if version and not version & 0xFFFF:
    raise ValueError(
      f'{path} is a GGUF file for big-endian machines; convert it anew for '
      'little-endian ones.'
    )
  if len(data) >= 8 and version not in _VERSIONS:
    known = ' and '.join(map(str, _VERSIONS))
    raise ValueError(
      f'{path} is GGUF of version {version}; versions {known} are read, so '
      'convert the model anew.'
    )


def _contents(cursor):
  """Metadata, and for each tensor (shape, number of its kind, offset)."""
  cursor.at = 8  # past magic and version
  tensors, keys = cursor.number('<u8'), cursor.number('<u8')
  metadata, entries = {}, {}
  for _ in range(keys):
    key = cursor.text()
    if key in metadata:
      raise ValueError(f'it repeats the key {key}')
    metadata[key] = cursor.value(_VALUES(cursor.number('<u4')))
  if metadata.get('general.alignment', _ALIGNMENT) < 1:
    raise ValueError('general.alignment is below 1')
  for _ in range(tensors):
    name = cursor.text()
    if name in entries:
      raise ValueError(f'it repeats the tensor {name}')
    axes = cursor.numbers('<u8', cursor.number('<u4'))
    kind, offset = cursor.number('<u4'), cursor.number('<u8')
    entries[name] = (tuple(reversed(axes)), kind, offset)
  return metadata, entries


def _tensor(path, data, name, shape, number, offset):
  try:
    kind = gguf.GGMLQuantizationType(number)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    gguf.quants.dequantize(np.zeros((1, size), np.uint8), kind)
  except (ValueError, KeyError, NotImplementedError):
    raise ValueError(
      f'{path}: {name} has a quantisation that is not read (number {number}); '
      'take another file of the model, F16 or Q8_0 for instance.'
    ) from None
  if not shape or shape[-1] % block:
    raise ValueError(
      f'{path} is damaged: rows of {name} {list(shape)} are no whole blocks '
      f'of {kind.name}; download it again.'
    )
  stored_shape = (*shape[:-1], shape[-1] // block * size)
  stored = data[offset : offset + math.prod(stored_shape)]
  if len(stored) < math.prod(stored_shape):
    raise ValueError(
      f'{path} is cut short, {name} is not whole; download it again.'
    )
  return GgufTensor(shape, kind, stored.reshape(stored_shape))


class _Cursor:
  """Reads values of a file one after the other.

  EOFError where the file ends too soon, ValueError where a value makes no
  sense; both say where.
  """

  def __init__(self, data):
    self._data = memoryview(data)
    self.at = 0

  def _take(self, count):
    taken = self._data[self.at : self.at + count]
    if len(taken) < count:
      raise EOFError(f'it ends within its header at byte {len(self._data)}')
    self.at += count
    return taken

  def numbers(self, dtype, count):
    taken = self._take(count * np.dtype(dtype).itemsize)
    values = np.frombuffer(taken, dtype)
    if dtype == '<f4':
      return [float(str(value)) for value in values]
    return values.tolist()

  def number(self, dtype):
    return self.numbers(dtype, 1)[0]

  def text(self):
    (length,) = struct.unpack('<Q', self._take(8))
    try:
      return str(self._take(length), 'utf-8')
    except UnicodeDecodeError:
      raise ValueError(f'no text before byte {self.at}') from None

  def value(self, kind) -> Any:
    if kind is _VALUES.STRING:
      return self.text()
    if kind is not _VALUES.ARRAY:
      return self.number(_NUMBERS[kind])
    kind, count = _VALUES(self.number('<u4')), self.number('<u8')
    if kind is _VALUES.STRING:
      return [self.text() for _ in range(count)]
    if kind is _VALUES.ARRAY:
      raise ValueError(f'an array of arrays before byte {self.at}')
    return self.numbers(_NUMBERS[kind], count)
