# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Files as the safetensors library reads and writes them; damage is named."""

import json
import weakref

import ml_dtypes
import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from searchrl_jax.models import safetensors_format

DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]


def arrays():
  rng = np.random.default_rng(0)
  return {
    np.dtype(dtype).name: rng.normal(size=(3, 5)).astype(dtype)
    for dtype in DTYPES
  }


def entry(name, array):
  return safetensors_format.Entry(name, array.dtype, array.shape, lambda: array)


def file_of(path, header, data=b''):
  """A file of any header, bytes or JSON, and data."""
  text = header if isinstance(header, bytes) else json.dumps(header).encode()
  path.write_bytes(len(text).to_bytes(8, 'little') + text + data)
  return path


def entry_of(dtype='F32', shape=(2,), offsets=(0, 8)):
  return {'dtype': dtype, 'shape': shape, 'data_offsets': offsets}


@pytest.fixture
def path(tmp_path):
  return tmp_path / 'a.safetensors'


def refusal(path):
  with pytest.raises(ValueError) as error:
    safetensors_format.contents(path)
  message = str(error.value)
  assert '\n' not in message and str(path) in message
  return message


# --- both ways ---------------------------------------------------------------


def test_what_the_library_writes_is_read(path):
  safetensors_numpy.save_file(arrays(), path)
  stored = {weight.name: weight for weight in safetensors_format.contents(path)}
  assert stored.keys() == arrays().keys()
  for name, array in arrays().items():
    read = stored[name].map()
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


def test_the_library_reads_what_is_written(path):
  safetensors_format.write(path, [entry(*item) for item in arrays().items()])
  read = safetensors_numpy.load_file(path)
  assert read.keys() == arrays().keys()
  for name, array in arrays().items():
    assert read[name].dtype == array.dtype
    np.testing.assert_array_equal(read[name], array)


def test_weights_come_in_the_order_of_their_bytes(path):
  # The library sorts by dtype, then name: the header's order is another one.
  header = {
    'b': entry_of(offsets=(0, 8)),
    'c': entry_of(offsets=(16, 24)),
    'a': entry_of(offsets=(8, 16)),
  }
  file_of(path, header, np.arange(6, dtype=np.float32).tobytes())
  stored = safetensors_format.contents(path)
  assert [weight.name for weight in stored] == ['b', 'a', 'c']
  np.testing.assert_array_equal(stored[1].map(), [2, 3])


def test_one_weight_is_held_at_a_time(path):
  held = []

  def fetch():
    assert [weight() for weight in held] == [None] * len(held)
    array = np.full(3, len(held), np.float32)
    held.append(weakref.ref(array))
    return array

  entries = [
    safetensors_format.Entry(name, np.dtype(np.float32), (3,), fetch)
    for name in 'abc'
  ]
  safetensors_format.write(path, entries)
  read = safetensors_numpy.load_file(path)
  assert {name: read[name][0] for name in 'abc'} == {'a': 0, 'b': 1, 'c': 2}


def test_a_turned_array_is_written_row_by_row(path):
  array = np.arange(6, dtype=np.float32).reshape(2, 3).T
  safetensors_format.write(path, [entry('a', array)])
  np.testing.assert_array_equal(safetensors_numpy.load_file(path)['a'], array)


def test_integers_are_not_written(path):
  with pytest.raises(ValueError, match='a is int32: weights are written as'):
    safetensors_format.write(path, [entry('a', np.ones(2, np.int32))])


def test_a_weight_that_is_not_the_announced_one_is_not_written(path):
  late = safetensors_format.Entry(
    'a', np.dtype(np.float32), (3,), lambda: np.ones(2, np.float32)
  )
  with pytest.raises(ValueError, match='a was announced as float32'):
    safetensors_format.write(path, [late])


# --- damage ------------------------------------------------------------------


@pytest.mark.parametrize('keep', [0, 7, 40, -1], ids=['0', '7', '40', 'all-1'])
def test_a_file_cut_anywhere_is_named(path, keep):
  safetensors_numpy.save_file(arrays(), path)
  path.write_bytes(path.read_bytes()[:keep])
  message = refusal(path)
  assert 'cut short' in message or 'no header' in message


def test_a_missing_file_is_named(path):
  assert 'cannot be read' in refusal(path)


@pytest.mark.parametrize(
  'content',
  [
    b'<!DOCTYPE html><html>404</html>',
    # What git leaves where its large files were not fetched.
    b'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n',
    b'PK\x03\x04' + b'\xff' * 100,
  ],
)
def test_another_kind_of_file_is_named(path, content):
  path.write_bytes(content)
  assert 'no whole safetensors file' in refusal(path)


@pytest.mark.parametrize(
  ('header', 'why'),
  [
    (b'{"a": ', 'not JSON'),
    ([1, 2], 'not JSON'),
    ({'a': 3}, 'entry of a is incomplete'),
    ({'a': {'dtype': 'F32', 'shape': [2]}}, 'entry of a is incomplete'),
    ({'a': entry_of(offsets=(0, 'x'))}, 'entry of a is incomplete'),
    ({'a': entry_of(shape=(-2,))}, 'entry of a is incomplete'),
    ({'a': entry_of(shape=(3,))}, 'a has 8 bytes for (3,) F32'),
    ({'a': entry_of(offsets=(4, 12))}, 'a does not begin where'),
    (
      {'a': entry_of(), 'b': entry_of(shape=(1,), offsets=(4, 8))},
      'b does not begin where',
    ),
    (
      f'{{"a": {json.dumps(entry_of(shape=(1,), offsets=(0, 4)))}, '
      f'"a": {json.dumps(entry_of(shape=(1,), offsets=(4, 8)))}}}'.encode(),
      'it holds a twice',
    ),
    ({'a': entry_of(shape=(1,), offsets=(0, 4))}, '4 bytes belong to no'),
  ],
)
def test_a_header_that_lies_is_named(path, header, why):
  assert why in refusal(file_of(path, header, bytes(8)))


@pytest.mark.parametrize('dtype', ['I8', 'U8', 'F8_E4M3', 'I32'])
def test_quantised_weights_are_named_with_their_type(path, dtype):
  message = refusal(file_of(path, {'a': entry_of(dtype)}, bytes(8)))
  assert f'a in {path} holds {dtype}: quantised' in message
