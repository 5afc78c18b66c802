# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Small decoders of unequal, mostly prime sizes: no two axes can be swapped."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
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
    PLAIN, heads=5, kv_heads=1, attention_bias=True, remat=config.Remat.NOTHING
  ),
  'everything': dataclasses.replace(
    PLAIN,
    heads=3,
    qk_norm=True,
    attention_bias=True,
    output_bias=True,
    mlp_bias=True,
    tied=False,
    rope_scaling=config.YarnScaling(4.0, 50, 1.25, 8.0, 1.0),
    lora=config.Lora(rank=2, alpha=3.0),
    remat=config.Remat.PRODUCTS,
  ),
}
NORMS = ('norm', 'q_norm', 'k_norm')


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
  """Random parameters in which scales leave 1 and biases leave 0."""

  def make(model, seed=0):
    rng = np.random.default_rng(seed)

    def draw(path, leaf):
      center = 1.0 if path[-1].key in NORMS else 0.0
      values = center + 0.3 * rng.normal(size=leaf.shape)
      return jnp.asarray(values, leaf.dtype)

    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree_util.tree_map_with_path(draw, shapes)

  return make


@pytest.fixture
def alone():
  """Hidden states `[n, D]` of one row of tokens, nothing around it."""

  def run(model, params, tokens):
    tokens = jnp.asarray(tokens, jnp.int32)[None]
    positions = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    segments = jnp.ones_like(tokens)
    return jax.jit(model.apply)(params, tokens, positions, segments)[0]

  return run


@pytest.fixture
def whole():
  """Hidden states of rows run whole, as one batch padded at the right."""

  def run(model, params, rows):
    length = max(len(row) for row in rows)
    tokens = np.zeros((len(rows), length), np.int32)
    segments = np.zeros((len(rows), length), np.int32)
    for r, row in enumerate(rows):
      tokens[r, : len(row)], segments[r, : len(row)] = row, 1
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), tokens.shape)
    hidden = jax.jit(model.apply)(params, tokens, positions, segments)
    return [hidden[r, : len(row)] for r, row in enumerate(rows)]

  return run
