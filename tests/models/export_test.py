# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What is exported is whole, is what transformers expects, and comes back."""

import dataclasses
import itertools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformers
from safetensors import numpy as safetensors_numpy

from searchrl_jax import sharding
from searchrl_jax.models import config as configs
from searchrl_jax.models import (
  decoder,
  export,
  hf_config,
  hf_names,
  loading,
  safetensors_format,
)
from searchrl_jax.models.safetensors_files import (
  INDEX,
  SINGLE,
  SafetensorsFiles,
)

QWEN2 = configs.DecoderConfig(
  vocabulary=24,
  width=8,
  layers=3,
  heads=4,
  kv_heads=2,
  head_width=6,
  mlp_width=16,
  rope_base=100.0,
  context=64,
  attention_bias=True,
)
QWEN3 = dataclasses.replace(
  QWEN2, attention_bias=False, qk_norm=True, tied=False
)
LLAMA = dataclasses.replace(
  QWEN2, attention_bias=False, rope_scaling=configs.LinearScaling(2.0)
)
FAMILIES = {'qwen2': QWEN2, 'qwen3': QWEN3, 'llama': LLAMA}
Q = 'model.layers.2.self_attn.q_proj.weight'


@pytest.fixture
def directory(tmp_path):
  return tmp_path / 'model'


def read_back(directory):
  """Config and parameters, as a run would read them."""
  config = hf_config.from_hf(
    json.loads((directory / export.CONFIG).read_text())
  )
  dtype = config_dtype(directory)
  config = dataclasses.replace(config, param_dtype=dtype)
  return config, loading.load(SafetensorsFiles(directory), config, None)


def config_dtype(directory):
  return jnp.dtype(json.loads((directory / export.CONFIG).read_text())['dtype'])


def refusal(directory, params, config, **options):
  before = sorted(directory.parent.iterdir())
  with pytest.raises(ValueError) as error:
    export.export(directory, params, config, **options)
  assert '\n' not in str(error.value)
  assert sorted(directory.parent.iterdir()) == before
  return str(error.value)


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize('shard_bytes', [10**9, 500], ids=['one', 'many'])
@pytest.mark.parametrize('config', FAMILIES.values(), ids=FAMILIES.keys())
def test_every_bit_comes_back(directory, noisy, config, shard_bytes, dtype):
  config = dataclasses.replace(config, param_dtype=dtype)
  params = noisy(decoder.make_model(config))
  export.export(directory, params, config, shard_bytes=shard_bytes)
  read_config, read = read_back(directory)
  assert read_config == config
  jax.tree.map(np.testing.assert_array_equal, read, params)
  assert jax.tree.map(jnp.dtype, read) == jax.tree.map(jnp.dtype, params)


@pytest.mark.parametrize('family', FAMILIES)
def test_transformers_knows_the_model(directory, noisy, family):
  config = FAMILIES[family]
  export.export(
    directory,
    noisy(decoder.make_model(config)),
    config,
    token_ids={'eos_token_id': [3, 5]},
  )
  read = transformers.AutoConfig.from_pretrained(directory)
  assert read.model_type == family
  assert (read.eos_token_id, read.bos_token_id) == ([3, 5], None)
  assert hf_config.from_hf(read.to_dict()) == config


def test_matrices_are_written_with_their_outputs_first(directory, noisy):
  params = noisy(decoder.make_model(QWEN2))
  export.export(directory, params, QWEN2)
  weights = safetensors_numpy.load_file(directory / SINGLE)
  assert weights.keys() == hf_names.places(QWEN2).keys()
  assert weights[Q].shape == (24, 8)
  np.testing.assert_array_equal(
    weights[Q], params['layers']['attention']['q'][2].T
  )


def test_a_tied_head_is_not_written_and_another_is(directory, noisy):
  export.export(directory, noisy(decoder.make_model(QWEN2)), QWEN2)
  assert hf_names.HEAD not in SafetensorsFiles(directory).shapes
  other = directory.with_name('other')
  export.export(other, noisy(decoder.make_model(QWEN3)), QWEN3)
  assert SafetensorsFiles(other).shapes[hf_names.HEAD] == (24, 8)


def test_shards_are_filled_up_to_their_size(directory, noisy):
  export.export(
    directory, noisy(decoder.make_model(LLAMA)), LLAMA, shard_bytes=2000
  )
  index = json.loads((directory / INDEX).read_text())
  files = sorted(set(index['weight_map'].values()))
  count = len(files)
  assert files == [
    f'model-{i + 1:05}-of-{count:05}.safetensors' for i in range(count)
  ]
  sizes = [
    sum(array.nbytes for array in safetensors_numpy.load_file(path).values())
    for path in (directory / file for file in files)
  ]
  assert max(sizes) <= 2000
  # Two neighbours would not have fitted into one.
  assert all(a + b > 2000 for a, b in itertools.pairwise(sizes))
  places = hf_names.places(LLAMA).values()
  total = 4 * sum(math.prod(place.shape) for place in places)
  assert index['metadata']['total_size'] == sum(sizes) == total


def test_a_weight_larger_than_a_shard_has_one_to_itself(directory, noisy):
  export.export(
    directory, noisy(decoder.make_model(LLAMA)), LLAMA, shard_bytes=1
  )
  index = json.loads((directory / INDEX).read_text())
  assert len(set(index['weight_map'].values())) == len(hf_names.places(LLAMA))


def test_sharded_parameters_are_written_whole(directory, noisy):
  model = decoder.make_model(QWEN3)
  params = noisy(model)
  mesh = sharding.make_mesh(2, 2, 2)
  shardings = sharding.param_shardings(mesh, params, model.axes(params))
  export.export(directory, jax.device_put(params, shardings), QWEN3)
  _, read = read_back(directory)
  jax.tree.map(np.testing.assert_array_equal, read, params)


def test_an_empty_directory_may_be_there(directory, noisy):
  directory.mkdir()
  export.export(directory, noisy(decoder.make_model(LLAMA)), LLAMA)
  assert read_back(directory)[0] == LLAMA


# --- refusals: nothing is left behind ----------------------------------------


def test_a_directory_in_use_is_not_touched(directory, noisy):
  directory.mkdir()
  (directory / 'notes.txt').write_text('mine')
  params = noisy(decoder.make_model(LLAMA))
  assert 'not empty' in refusal(directory, params, LLAMA)
  assert [path.name for path in directory.iterdir()] == ['notes.txt']


def test_a_file_of_that_name_is_not_touched(directory, noisy):
  directory.write_text('mine')
  params = noisy(decoder.make_model(LLAMA))
  assert 'exists' in refusal(directory, params, LLAMA)
  assert directory.read_text() == 'mine'


def test_adapters_must_be_merged(directory, noisy):
  params = noisy(decoder.make_model(LLAMA))
  params['layers']['attention']['q_a'] = jnp.ones((3, 8, 2))
  message = refusal(directory, params, LLAMA)
  assert (
    'layers/attention/q_a is (3, 8, 2) where the config has none' in message
  )
  assert 'merged' in message


def test_parameters_of_another_config_are_named(directory, noisy):
  params = noisy(decoder.make_model(LLAMA))
  message = refusal(directory, params, QWEN2)
  assert 'layers/attention/q_bias is missing' in message
  more = dataclasses.replace(LLAMA, layers=4)
  assert 'where the config has (4, 8)' in refusal(directory, params, more)


def test_a_model_of_no_family_is_refused(directory, noisy):
  config = dataclasses.replace(QWEN2, qk_norm=True)
  params = noisy(decoder.make_model(config))
  assert 'cannot be exported' in refusal(directory, params, config)


def test_only_ids_of_tokens_are_taken_over(directory, noisy):
  params = noisy(decoder.make_model(LLAMA))
  message = refusal(directory, params, LLAMA, token_ids={'hidden_size': 3})
  assert 'hidden_size' in message and 'eos_token_id' in message


def test_a_write_that_fails_leaves_nothing(directory, noisy, monkeypatch):
  def full(path, entries):
    path.write_bytes(b'half')
    raise OSError(28, 'No space left on device')

  monkeypatch.setattr(safetensors_format, 'write', full)
  with pytest.raises(OSError, match='No space left'):
    export.export(directory, noisy(decoder.make_model(LLAMA)), LLAMA)
  assert list(directory.parent.iterdir()) == []
