# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Adapters: apart and together, applied and merged, trained alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from searchrl_jax import sharding
from searchrl_jax.models import decoder, lora
from searchrl_jax.models.config import ADAPTABLE, Lora

CLOSE = {'rtol': 2e-5, 'atol': 2e-5}


@pytest.fixture
def adapted(plain):
  """Adapters beside two matrices of unequal shape, rank 2, scale 1.5."""
  return dataclasses.replace(plain, lora=Lora(2, 3.0, ('v', 'down')))


def batch_of(config, length=7):
  tokens = np.random.default_rng(3).integers(0, config.vocabulary, (2, length))
  positions = np.broadcast_to(np.arange(length), tokens.shape)
  return jnp.asarray(tokens), jnp.asarray(positions), jnp.ones_like(tokens)


def without(config):
  return dataclasses.replace(config, lora=None)


def assert_same(a, b):
  """The same structure, and the very same arrays."""
  assert jax.tree.structure(a) == jax.tree.structure(b)
  for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
    assert x is y


def test_only_targets_have_adapters_of_their_shapes(adapted):
  params = jax.eval_shape(decoder.make_model(adapted).init, jax.random.key(0))
  adapters, base = lora.split(params)
  shapes = jax.tree.map(lambda leaf: leaf.shape, adapters)
  assert shapes == {
    'layers': {
      'attention': {'v_a': (2, 11, 2), 'v_b': (2, 2, 30)},
      'mlp': {'down_a': (2, 13, 2), 'down_b': (2, 2, 11)},
    }
  }
  plain = jax.eval_shape(
    decoder.make_model(without(adapted)).init, jax.random.key(0)
  )
  assert jax.tree.structure(base) == jax.tree.structure(plain)


def test_join_undoes_split_and_copies_nothing(adapted, noisy):
  params = noisy(decoder.make_model(adapted))
  adapters, base = lora.split(params)
  assert_same(lora.join(base, adapters), params)
  # Neither call changed its arguments.
  again, base_again = lora.split(params)
  assert_same(again, adapters)
  assert_same(base_again, base)


def test_a_fresh_adapter_changes_nothing_at_all(adapted):
  # The same seed gives the same matrices with and without adapters, and B = 0
  # makes the hidden states equal, bit for bit.
  model = decoder.make_model(adapted)
  plain = decoder.make_model(without(adapted))
  params, base = (m.init(jax.random.key(5)) for m in (model, plain))
  jax.tree.map(np.testing.assert_array_equal, lora.split(params)[1], base)
  batch = batch_of(adapted)
  np.testing.assert_array_equal(
    jax.jit(model.apply)(params, *batch), jax.jit(plain.apply)(base, *batch)
  )
  merged = lora.merge(params, adapted.lora)
  jax.tree.map(np.testing.assert_array_equal, merged, base)


def test_fresh_adapters_for_a_given_base(adapted):
  wide = dataclasses.replace(adapted, width=400, lora=Lora(16, 32.0, ('q',)))
  base = jax.eval_shape(
    decoder.make_model(without(wide)).init, jax.random.key(0)
  )
  made = lora.init(jax.random.key(0), wide, base)['layers']
  assert set(made) == {'attention'}
  a, b = made['attention']['q_a'], made['attention']['q_b']
  np.testing.assert_array_equal(b, np.zeros((2, 16, 60)))
  np.testing.assert_allclose(np.std(a), 400**-0.5, rtol=0.03)
  assert np.abs(a[0] - a[1]).max() > 0.01  # layers differ


def test_adapters_are_float32_over_a_bfloat16_base(adapted):
  coarse = dataclasses.replace(adapted, param_dtype=jnp.bfloat16)
  model = decoder.make_model(coarse)
  adapters, base = lora.split(jax.eval_shape(model.init, jax.random.key(0)))
  made = lora.init(jax.random.key(0), coarse, base)
  for tree, dtype in ((adapters, 'f4'), (made, 'f4'), (base, jnp.bfloat16)):
    assert {leaf.dtype for leaf in jax.tree.leaves(tree)} == {jnp.dtype(dtype)}
  assert jax.tree.structure(made) == jax.tree.structure(adapters)


def test_merged_by_hand():
  # W = [[1, 2]], A = [[3]], B = [[5, 7]], alpha / rank = 4 / 1:
  # W + 4 A B = [[1 + 60, 2 + 84]].
  params = {
    'o': jnp.array([[[1.0, 2.0]]]),
    'o_a': jnp.array([[[3.0]]]),
    'o_b': jnp.array([[[5.0, 7.0]]]),
    'o_bias': jnp.array([[9.0, 9.0]]),
  }
  merged = lora.merge(params, Lora(1, 4.0))
  np.testing.assert_array_equal(merged['o'], [[[61, 86]]])
  assert set(merged) == {'o', 'o_bias'}


@pytest.mark.parametrize('unrolled', [True, False])
def test_merged_equals_applied(plain, noisy, unrolled):
  # All seven targets; whole rows and, token by token, the cache.
  config = dataclasses.replace(plain, lora=Lora(3, 5.0, ADAPTABLE))
  model = decoder.build_model(config, unrolled=unrolled)
  merged_model = decoder.build_model(without(config), unrolled=unrolled)
  params = noisy(model)
  merged = lora.merge(params, config.lora)
  batch = batch_of(config)
  expected = jax.jit(merged_model.apply)(merged, *batch)
  np.testing.assert_allclose(
    jax.jit(model.apply)(params, *batch), expected, **CLOSE
  )
  base = lora.split(params)[1]
  other = jax.jit(merged_model.apply)(base, *batch)
  assert np.abs(other - expected).max() > 0.1  # the adapters do say something

  rollout, step = model.unstack(params), jax.jit(model.apply_cached)
  cache = model.empty_cache(2, 8)
  for t in range(7):
    one = jnp.ones(2, jnp.int32)
    hidden, cache = step(rollout, batch[0][:, t : t + 1], one, cache)
    np.testing.assert_allclose(hidden[:, 0], expected[:, t], **CLOSE)


def test_adapters_are_trained_alone(adapted, noisy):
  # The gradient of the joined model with respect to adapters is the part of
  # the whole gradient that is theirs; it is nonzero in every layer.
  model = decoder.make_model(adapted)
  params = noisy(model)
  adapters, base = lora.split(params)
  batch = batch_of(adapted)

  def loss(params):
    return jnp.sum(jnp.sin(model.apply(params, *batch)))

  alone = jax.jit(jax.grad(lambda part: loss(lora.join(base, part))))(adapters)
  whole = lora.split(jax.jit(jax.grad(loss))(params))[0]
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
    alone,
    whole,
  )
  for grad in jax.tree.leaves(alone):
    assert (np.abs(grad).max(axis=(1, 2)) > 0).all()


def test_ranks_are_never_split_over_devices(adapted):
  # tensor = 2 divides v's 30 outputs and down's inputs, never the rank: 13
  # inputs of down would not divide, so the mlp is made 14 wide.
  even = dataclasses.replace(
    adapted, width=12, mlp_width=14, vocabulary=24, lora=Lora(3, 3.0)
  )
  model = decoder.make_model(even)
  params = jax.eval_shape(model.init, jax.random.key(0))
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  placed = sharding.param_shardings(mesh, params, model.axes(params))
  mlp = placed['layers']['mlp']
  assert mlp['down_a'].spec == PartitionSpec(None, 'tensor', None)
  assert mlp['down_b'].spec == PartitionSpec(None, None, 'fsdp')


def test_trees_that_do_not_belong_together_are_refused(adapted, noisy):
  params = noisy(decoder.make_model(adapted))
  adapters, base = lora.split(params)
  other = lora.split(
    noisy(decoder.make_model(dataclasses.replace(adapted, mlp_width=17)))
  )[0]
  shallow = jax.tree.map(lambda leaf: leaf[:1], adapters)
  stranger = {'layers': {'attention': {'w_a': params['embed']}}}
  cases = (
    (lambda: lora.split(base), 'no adapters'),
    (lambda: lora.join(params, adapters), 'v_a is in the base already'),
    (lambda: lora.join(base, other), 'down_a of shape .* does not fit'),
    (lambda: lora.join(base, shallow), 'v_a of shape .* does not fit'),
    (lambda: lora.join(base, stranger), 'w_a has no matrix in the base'),
    (lambda: lora.join({'embed': 0}, adapters), 'layers has no matrix'),
    (lambda: lora.merge(params, Lora(4, 3.0)), 'has rank 2, the config says 4'),
    (
      lambda: lora.init(jax.random.key(0), without(adapted), base),
      'config.lora is None',
    ),
  )
  for call, message in cases:
    with pytest.raises(ValueError, match=message) as error:
      call()
    assert '\n' not in str(error.value)
