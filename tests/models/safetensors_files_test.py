# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One file or many, and an index that must agree with them."""

import json

import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from searchrl_jax.models.safetensors_files import (
  INDEX,
  SINGLE,
  SafetensorsFiles,
)

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(4, dtype=np.float16)
SHARDS = {'one.safetensors': {'a': A}, 'two.safetensors': {'b': B, 'c': 2 * A}}
FILE_OF = {name: file for file, weights in SHARDS.items() for name in weights}


@pytest.fixture
def model(tmp_path):
  """Writes shards and an index that may differ from them."""

  def write(shards=SHARDS, file_of=FILE_OF):
    for file, weights in shards.items():
      safetensors_numpy.save_file(weights, tmp_path / file)
    (tmp_path / INDEX).write_text(json.dumps({'weight_map': file_of}))
    return tmp_path

  return write


def refusal(directory):
  with pytest.raises(ValueError) as error:
    SafetensorsFiles(directory)
  assert '\n' not in str(error.value)
  return str(error.value)


def test_a_single_file_is_a_model(tmp_path):
  safetensors_numpy.save_file({'a': A, 'b': B}, tmp_path / SINGLE)
  files = SafetensorsFiles(tmp_path)
  assert files.shapes == {'a': (2, 3), 'b': (4,)}
  np.testing.assert_array_equal(files.read('a'), A)
  np.testing.assert_array_equal(files.read('b'), B)
  assert str(files) == str(tmp_path)


def test_shards_are_one_model_read_file_by_file(model):
  files = SafetensorsFiles(model())
  assert files.shapes == {'a': (2, 3), 'b': (4,), 'c': (2, 3)}
  order = [FILE_OF[name] for name in files.names_in_order()]
  assert order == ['one.safetensors', 'two.safetensors', 'two.safetensors']
  np.testing.assert_array_equal(files.read('c'), 2 * A)


def test_a_weight_cannot_be_written_through_its_view(model):
  weight = SafetensorsFiles(model()).read('a')
  with pytest.raises(ValueError, match='read-only'):
    weight[0, 0] = 1


def test_no_weights_at_all(tmp_path):
  message = refusal(tmp_path)
  assert SINGLE in message and INDEX in message
  (tmp_path / 'weights.safetensors').touch()
  assert 'there is weights.safetensors' in refusal(tmp_path)


def test_no_directory(tmp_path):
  assert 'is no directory' in refusal(tmp_path / 'nowhere')


def test_a_missing_shard_is_named(model):
  directory = model()
  (directory / 'two.safetensors').unlink()
  message = refusal(directory)
  assert '1 of the 2 files' in message and 'two.safetensors' in message


def test_a_shard_that_lacks_a_weight_of_the_index(model):
  message = refusal(model(file_of=FILE_OF | {'d': 'one.safetensors'}))
  assert 'has d in one.safetensors, but it is in no file' in message


def test_a_weight_that_stands_in_another_shard(model):
  message = refusal(model(file_of=FILE_OF | {'b': 'one.safetensors'}))
  assert 'b in one.safetensors, but it is in two.safetensors' in message


def test_a_weight_the_index_does_not_have(model):
  file_of = {name: file for name, file in FILE_OF.items() if name != 'c'}
  assert 'has c in no file, but it is in two' in refusal(model(file_of=file_of))


def test_a_weight_in_two_shards(model):
  shards = SHARDS | {'two.safetensors': {'a': A, 'b': B, 'c': A}}
  message = refusal(model(shards))
  assert 'a is repeated: one.safetensors and two.safetensors' in message


def test_a_shard_cut_short_is_named(model):
  directory = model()
  shard = directory / 'two.safetensors'
  shard.write_bytes(shard.read_bytes()[:-1])
  assert f'{shard} is cut short' in refusal(directory)


@pytest.mark.parametrize(
  'file', ['../one.safetensors', '/etc/passwd', '..', 'a/b.safetensors', 'a\\b']
)
def test_an_index_stays_in_its_directory(model, file):
  message = refusal(model(file_of=FILE_OF | {'a': file}))
  assert repr(file) in message and 'beside the index' in message


@pytest.mark.parametrize(
  'text', ['{', '[]', '{}', '{"weight_map": ["a"]}', '{"weight_map": {"a": 1}}']
)
def test_an_index_that_is_none_is_named(tmp_path, text):
  (tmp_path / INDEX).write_text(text)
  message = refusal(tmp_path)
  assert INDEX in message and 'weight_map' in message
