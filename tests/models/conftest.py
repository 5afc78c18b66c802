# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Small decoders of unequal, mostly prime sizes: no two axes can be swapped."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from searchrl_jax.models import config

PLAIN = config.DecoderConfig(
  vocabulary=23,
  width=11,
  layers=2,
  heads=6,
  kv_heads=3,
  head_width=10,
  mlp_width=13,
  rope_base=100.0,
  tied=True,
)
VARIANTS = {
  'plain': PLAIN,
  'untied-qk-norm': dataclasses.replace(PLAIN, qk_norm=True, tied=False),
  'one-kv-head-bias': dataclasses.replace(
    PLAIN, heads=5, kv_heads=1, attention_bias=True, remat=False
  ),
  'everything': dataclasses.replace(
    PLAIN, heads=3, qk_norm=True, attention_bias=True, tied=False
  ),
}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def variant(request):
  """A config of each family."""
  return request.param


@pytest.fixture
def plain():
  """The config without any option."""
  return PLAIN


@pytest.fixture
def noisy():
  """Fresh parameters disturbed: scales leave 1 and biases leave 0."""

  def make(model, seed=0):
    params = model.init(jax.random.key(seed))
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
    leaves = [
      leaf + 0.3 * jax.random.normal(key, leaf.shape).astype(leaf.dtype)
      for leaf, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(tree, leaves)

  return make


@pytest.fixture
def alone():
  """Hidden states `[n, D]` of one row of tokens, nothing around it."""

  def run(model, params, tokens):
    tokens = jnp.asarray(tokens, jnp.int32)[None]
    positions = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    return model.apply(params, tokens, positions, jnp.ones_like(tokens))[0]

  return run
