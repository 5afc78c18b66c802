# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Weights arrive in their places, or one line says which do not."""

import dataclasses

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from searchrl_jax import sharding
from searchrl_jax.models import config as configs
from searchrl_jax.models import decoder, hf_names, loading

CONFIG = configs.DecoderConfig(
  vocabulary=24,
  width=8,
  layers=3,
  heads=4,
  kv_heads=2,
  head_width=6,
  mlp_width=16,
  rope_base=100.0,
  attention_bias=True,
  tied=False,
)
TIED = dataclasses.replace(CONFIG, tied=True)
Q = 'model.layers.1.self_attn.q_proj.weight'


class Weights:
  """A source that holds its weights."""

  def __init__(self, weights):
    self.weights = weights
    self.shapes = {name: array.shape for name, array in weights.items()}
    self.reads = []

  def __str__(self):
    return 'a test'

  def names_in_order(self):
    return list(self.weights)

  def read(self, name):
    self.reads.append(name)
    return self.weights[name]


def published(config, dtype=np.float32):
  """Weights whose every number is another one."""
  rng = np.random.default_rng(0)
  return {
    name: rng.normal(size=place.shape).astype(dtype)
    for name, place in hf_names.places(config).items()
  }


def refusal(weights, config=CONFIG):
  source = Weights(weights)
  with pytest.raises(ValueError) as error:
    loading.load(source, config, None)
  assert '\n' not in str(error.value)
  return str(error.value), source


# --- where weights go --------------------------------------------------------


def test_a_matrix_is_turned_and_stands_at_its_layer():
  weights = published(CONFIG)
  params = loading.load(Weights(weights), CONFIG, None)
  np.testing.assert_array_equal(
    params['layers']['attention']['q'][1], weights[Q].T
  )
  np.testing.assert_array_equal(params['embed'], weights[hf_names.EMBEDDING])
  np.testing.assert_array_equal(
    params['layers']['attention']['k_bias'][2],
    weights['model.layers.2.self_attn.k_proj.bias'],
  )


@pytest.mark.parametrize('config', [CONFIG, TIED], ids=['untied', 'tied'])
def test_loaded_parameters_are_those_of_the_model(config):
  params = loading.load(Weights(published(config)), config, None)
  shapes = jax.eval_shape(decoder.make_model(config).init, jax.random.key(0))
  assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, shapes)


def test_the_order_of_the_files_does_not_matter():
  weights = published(CONFIG)
  backwards = dict(reversed(weights.items()))
  a = loading.load(Weights(weights), CONFIG, None)
  b = loading.load(Weights(backwards), CONFIG, None)
  jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize('stored', [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize('wanted', [jnp.float32, jnp.bfloat16])
def test_weights_take_the_dtype_of_the_config(stored, wanted):
  weights = published(CONFIG, stored)
  config = dataclasses.replace(CONFIG, param_dtype=wanted)
  params = loading.load(Weights(weights), config, None)
  assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype(wanted)}
  expected = weights[Q].T.astype(wanted)
  np.testing.assert_array_equal(
    np.asarray(params['layers']['attention']['q'][1]), expected
  )


def test_adapters_are_not_looked_for():
  config = dataclasses.replace(CONFIG, lora=configs.Lora(rank=2))
  a = loading.load(Weights(published(CONFIG)), config, None)
  b = loading.load(Weights(published(CONFIG)), CONFIG, None)
  jax.tree.map(np.testing.assert_array_equal, a, b)


def test_parameters_do_not_share_memory_with_their_source():
  # JAX keeps an aligned array of the host as it is.
  weights = published(CONFIG)
  params = loading.load(Weights(weights), CONFIG, None)
  before = np.array(params['embed'])
  weights[hf_names.EMBEDDING][:] = 0
  np.testing.assert_array_equal(params['embed'], before)


@pytest.mark.parametrize(
  'sizes', [(1, 8, 1), (1, 1, 2), (2, 2, 2)], ids=['fsdp', 'tensor', 'all']
)
def test_a_sharded_load_equals_a_single_one(sizes):
  devices = jax.devices()[: np.prod(sizes)]
  mesh = sharding.make_mesh(*sizes, devices=devices)
  model = decoder.make_model(CONFIG)
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  shardings = sharding.param_shardings(mesh, shapes, model.axes(shapes))
  weights = published(CONFIG)
  spread = loading.load(Weights(weights), CONFIG, shardings)
  single = loading.load(Weights(weights), CONFIG, None)
  jax.tree.map(np.testing.assert_array_equal, spread, single)
  placed = jax.tree.map(lambda x, s: x.sharding == s, spread, shardings)
  assert all(jax.tree.leaves(placed))


# --- a head that is the embedding --------------------------------------------


def test_a_repeated_embedding_may_stand_as_the_head():
  weights = published(TIED)
  weights[hf_names.HEAD] = weights[hf_names.EMBEDDING].copy()
  assert 'head' not in loading.load(Weights(weights), TIED, None)


def test_a_head_that_is_not_the_embedding_is_refused():
  weights = published(TIED)
  weights[hf_names.HEAD] = weights[hf_names.EMBEDDING].copy()
  weights[hf_names.HEAD][-1, -1] += 1
  message, _ = refusal(weights, TIED)
  assert 'lm_head.weight is not model.embed_tokens.weight' in message
  assert 'tie_word_embeddings' in message


def test_tables_of_angles_are_passed_over():
  weights = published(CONFIG)
  weights['model.layers.0.self_attn.rotary_emb.inv_freq'] = np.ones(3)
  weights['model.rotary_emb.inv_freq'] = np.ones(3)
  loading.load(Weights(weights), CONFIG, None)


# --- faults ------------------------------------------------------------------


def test_missing_weights_are_counted_and_the_first_named():
  weights = published(CONFIG)
  gone = [name for name in weights if name.startswith('model.layers.2.')]
  for name in gone:
    del weights[name]
  message, source = refusal(weights)
  assert (
    f'{len(gone)} missing ({gone[0]}, {gone[1]}, {gone[2]}, ...)' in message
  )
  assert source.reads == []  # nothing was read for nothing


def test_an_unknown_weight_is_named():
  weights = published(CONFIG)
  weights['model.layers.3.mlp.up_proj.weight'] = np.ones((16, 8), np.float32)
  message, source = refusal(weights)
  assert '1 unknown (model.layers.3.mlp.up_proj.weight)' in message
  assert source.reads == []


def test_a_bias_the_config_does_not_have_is_unknown():
  message, _ = refusal(
    published(CONFIG), dataclasses.replace(CONFIG, attention_bias=False)
  )
  assert '9 unknown (model.layers.0.self_attn.q_proj.bias' in message


def test_a_turned_matrix_is_named_with_both_shapes():
  weights = published(CONFIG)
  weights[Q] = np.ascontiguousarray(weights[Q].T)
  message, source = refusal(weights)
  assert f'{Q} is (8, 24) instead of (24, 8)' in message
  assert source.reads == []


def test_a_name_that_comes_twice_is_refused():
  weights = Weights(published(CONFIG))
  names = [*weights.weights, Q]
  weights.names_in_order = lambda: names
  with pytest.raises(ValueError, match=rf'1 repeated \({Q}\)'):
    loading.load(weights, CONFIG, None)


def test_all_kinds_of_faults_stand_in_one_line():
  weights = published(CONFIG)
  del weights[hf_names.FINAL_NORM]
  weights['extra'] = np.ones(1, np.float32)
  weights[Q] = weights[Q][:-1]
  message, _ = refusal(weights)
  assert '1 missing (model.norm.weight); 1 unknown (extra); ' in message
  assert f'1 of another shape ({Q} is (23, 8) instead of (24, 8))' in message


@pytest.mark.parametrize('dtype', [np.int8, ml_dtypes.float8_e4m3fn])
def test_quantised_weights_are_refused(dtype):
  weights = published(CONFIG)
  weights[Q] = weights[Q].astype(dtype)
  message, _ = refusal(weights)
  assert Q in message and np.dtype(dtype).name in message


def test_a_source_that_reads_another_shape_than_it_announced_is_refused():
  weights = Weights(published(CONFIG))
  weights.weights[Q] = weights.weights[Q][:-1]
  with pytest.raises(ValueError, match='announced as'):
    loading.load(weights, CONFIG, None)
