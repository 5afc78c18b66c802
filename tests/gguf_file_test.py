# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""GGUF files give back what a writer put in, or say in one line why not."""

import gguf
import numpy as np
import pytest

from searchrl_jax.gguf_file import GgufFile

_KINDS = gguf.GGMLQuantizationType


@pytest.fixture
def write(tmp_path):
  """Writes a GGUF file by the library's writer; returns its path."""

  def make(fill, name='model.gguf', **options):
    path = tmp_path / name
    writer = gguf.GGUFWriter(path, 'llama', **options)
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path

  return make


def small(writer):
  """A little of everything; the last tensor ends with the file."""
  writer.add_string('text', 'Zürich 東京')
  writer.add_array('words', ['a', '', 'Ġ b'])
  writer.add_array('numbers', [2, 3, 5])
  writer.add_array('scores', [0.1, -1e-5])
  writer.add_bool('yes', True)
  writer.add_float32('small', 1e-5)
  writer.add_uint64('large', 2**40)
  writer.add_tensor('first', np.arange(6, dtype=np.float32).reshape(2, 3))
  writer.add_tensor('last', np.arange(8, dtype=np.float32) / 7)


def refused(path):
  """The line with which a file is refused."""
  with pytest.raises(ValueError) as error:
    GgufFile(path)
  assert '\n' not in str(error.value)
  return str(error.value)


def test_metadata_are_plain_values(write):
  assert GgufFile(write(small)).metadata == {
    'general.architecture': 'llama',
    'text': 'Zürich 東京',
    'words': ['a', '', 'Ġ b'],
    'numbers': [2, 3, 5],
    'scores': [0.1, -1e-5],  # float32 in the file
    'yes': True,
    'small': 1e-5,
    'large': 2**40,
  }


def test_tensors_are_their_values_in_the_order_of_the_file(write):
  tensors = GgufFile(write(small)).tensors
  assert list(tensors) == ['first', 'last']
  np.testing.assert_array_equal(tensors['first'].read(), [[0, 1, 2], [3, 4, 5]])
  first = tensors['first'].read()
  first[:] = 7  # whoever reads owns what was read
  assert tensors['first'].read()[1, 2] == 5


@pytest.mark.parametrize(
  'kind', [_KINDS.F32, _KINDS.F16, _KINDS.BF16, _KINDS.Q8_0, _KINDS.Q4_1]
)
def test_quantised_values_are_as_near_as_their_steps(write, kind):
  values = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
  raw = gguf.quants.quantize(values, kind)
  path = write(lambda writer: writer.add_tensor('x', raw, raw_dtype=kind))
  read = GgufFile(path).tensors['x'].read()
  assert (read.shape, read.dtype) == ((5, 64), np.float32)
  blocks = values.reshape(5, 2, 32)
  # Half a step of a block, and what its own 16-bit scale is off by.
  step = {
    _KINDS.F32: 0,
    _KINDS.F16: 2**-10 * np.abs(values),
    _KINDS.BF16: 2**-7 * np.abs(values),
    _KINDS.Q8_0: np.abs(blocks).max(-1).repeat(32, -1) / 127 * 1.1,
    _KINDS.Q4_1: np.ptp(blocks, axis=-1).repeat(32, -1) / 15 * 1.1,
  }[kind]
  assert np.all(np.abs(read - values) <= step / 2)


def test_a_large_file_agrees_with_the_reader_of_the_library(write):
  def fill(writer):
    small(writer)
    writer.add_array('vocabulary', [chr(0x4E00 + i) for i in range(999)])
    for i in range(9):
      data = np.full((i + 1, 32), i, np.float32)
      raw = gguf.quants.quantize(data, _KINDS.Q8_0)
      writer.add_tensor(f't{i}', raw, raw_dtype=_KINDS.Q8_0)

  path = write(fill)
  ours, theirs = GgufFile(path), gguf.GGUFReader(path)
  assert ours.metadata['vocabulary'] == theirs.fields['vocabulary'].contents()
  assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
  for tensor in theirs.tensors:
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    np.testing.assert_array_equal(ours.tensors[tensor.name].read(), values)


def test_tensors_are_found_at_the_alignment_that_the_file_names(write):
  def fill(writer):
    writer.add_custom_alignment(256)
    small(writer)

  path = write(fill)
  assert GgufFile(path).tensors['last'].read()[7] == 1
  size = (256).to_bytes(4, 'little')
  path.write_bytes(path.read_bytes().replace(size, bytes(4), 1))
  assert 'general.alignment is below 1' in refused(path)


def test_a_file_cut_anywhere_is_refused(write, tmp_path):
  whole = write(small).read_bytes()
  cut = tmp_path / 'cut.gguf'
  for length in range(4, len(whole)):
    cut.write_bytes(whole[:length])
    assert 'cut short' in refused(cut)
  assert 'is not whole' in refused(cut)  # the last cut takes one byte


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    (b'', 'is empty'),
    (b'GG', 'is not a GGUF file'),
    (b'{"model": "no"}', 'is not a GGUF file'),
    (b'GGUF' + b'\x01\0\0\0' + bytes(16), 'is GGUF of version 1'),
  ],
)
def test_other_files_are_refused(tmp_path, content, message):
  path = tmp_path / 'other.gguf'
  path.write_bytes(content)
  assert message in refused(path)


def test_what_is_no_file_is_refused(tmp_path):
  assert 'there is no file' in refused(tmp_path / 'none.gguf')
  assert 'is a directory' in refused(tmp_path)


def test_a_file_of_another_byte_order_is_refused(write):
  path = write(small, endianess=gguf.GGUFEndian.BIG)
  assert 'big-endian' in refused(path)


def test_one_part_of_a_split_model_is_refused(write):
  def fill(writer, parts):
    writer.add_uint16('split.count', parts)
    small(writer)

  assert 'one of 3 parts' in refused(write(lambda writer: fill(writer, 3)))
  GgufFile(write(lambda writer: fill(writer, 1)))


def test_unknown_quantisations_name_their_tensor(write):
  whole = write(small).read_bytes()
  at = whole.index(b'last') + 4 + 4 + 8  # name, number of axes, one axis
  assert whole[at : at + 4] == bytes(4)  # 0 is F32
  path = write(small)
  path.write_bytes(whole[:at] + b'\x63\0\0\0' + whole[at + 4 :])
  assert 'last has a quantisation that is not read (number 99)' in refused(path)


def test_integers_are_no_weights(write):
  path = write(lambda w: w.add_tensor('ids', np.arange(4, dtype=np.int32)))
  assert 'ids has a quantisation that is not read' in refused(path)


def test_repeated_names_are_refused(write):
  whole = write(small).read_bytes()
  path = write(small)
  path.write_bytes(whole.replace(b'small', b'large'))
  assert 'repeats the key large' in refused(path)
