# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A whole decoder under the whole loss, split every way, is one decoder."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from searchrl_jax import sharding
from searchrl_jax.models.config import DecoderConfig
from searchrl_jax.models.decoder import make_model
from searchrl_jax.training import losses, state, step
from searchrl_jax.training.optimizer import OptimizerConfig, make_optimizer
from searchrl_jax.types import Batch, Targets

SIZES = DecoderConfig(
  vocabulary=32,
  width=16,
  layers=2,
  heads=4,
  kv_heads=2,
  head_width=8,
  mlp_width=24,
  rope_base=100.0,
  tied=False,
)
ROWS, LENGTH = 8, 12
LOSS = losses.make_loss(losses.LossConfig(kl='k3'))


@functools.cache
def work():
  """Rows of two segments; every fourth token is given."""
  rng = np.random.default_rng(3)
  shape = (ROWS, LENGTH)
  segment_ids = np.repeat([[1, 2]], ROWS, 0).repeat(LENGTH // 2, 1)
  sampled = np.arange(LENGTH)[None] % 4 > 0
  draw = functools.partial(rng.normal, size=shape)
  batch = Batch(
    tokens=rng.integers(0, SIZES.vocabulary, shape, dtype=np.int32),
    positions=np.tile(np.arange(LENGTH // 2, dtype=np.int32), (ROWS, 2)),
    segment_ids=segment_ids.astype(np.int32),
    sampled=np.repeat(sampled, ROWS, 0),
    turn_id=np.zeros(shape, np.int32),
    trajectory_id=np.zeros(shape, np.int32),
    sampler_logps=(draw() - 3).astype(np.float32),
  )
  drawn = [(draw() - 3).astype(np.float32) for _ in range(2)]
  return batch, Targets(
    draw().astype(np.float32), *drawn, np.ones(shape, np.float32)
  )


def gradients(**sizes):
  """Of the loss, with the parameters split over a mesh of these sizes."""
  mesh = sharding.make_mesh(**sizes)
  model = make_model(SIZES, sharding.keep_rows(mesh))
  params = make_model(SIZES).init(jax.random.key(0))
  placed = sharding.param_shardings(mesh, params, model.axes(params))
  optimizer = make_optimizer(OptimizerConfig(), 1)
  scores = step.make_token_scores(
    model.apply,
    model.unembedding,
    join=step.all_learn,
    chunk=40,
    temperature=1.0,
  )
  made = step.make_gradients(
    scores,
    LOSS,
    mesh,
    state.state_shardings(mesh, optimizer, params, placed),
    micro_rows=ROWS,
    frozen={},
  )
  return made(jax.device_put(params, placed), *work())[0]


@functools.cache
def alone():
  return gradients(devices=jax.devices()[:1])


@pytest.mark.parametrize(
  'sizes',
  [
    {'data': 8},
    {'fsdp': 8},
    {'fsdp': 4, 'tensor': 2},
    {'data': 2, 'fsdp': 2, 'tensor': 2},
  ],
)
def test_gradients_do_not_depend_on_the_mesh(sizes):
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, atol=2e-6),
    gradients(**sizes),
    alone(),
  )


def test_the_stream_between_layers_is_split_by_rows():
  # Left to the compiler, every device keeps all rows where matrices are split
  # over the devices that rows are split over.
  mesh = sharding.make_mesh(fsdp=8)
  wide = dataclasses.replace(SIZES, width=64, mlp_width=256)
  shapes = jax.eval_shape(make_model(wide).init, jax.random.key(0))
  axes = make_model(wide).axes(shapes)
  rows = jax.NamedSharding(mesh, sharding.ROWS)
  given = [jax.ShapeDtypeStruct((32, 128), np.int32) for _ in range(3)]

  def temporary(model):
    run = jax.jit(
      jax.grad(lambda params, *given: model.apply(params, *given).sum()),
      in_shardings=(
        sharding.param_shardings(mesh, shapes, axes),
        rows,
        rows,
        rows,
      ),
    )
    analysis = run.lower(shapes, *given).compile().memory_analysis()
    return analysis.temp_size_in_bytes

  kept = temporary(make_model(wide, sharding.keep_rows(mesh)))
  assert kept < temporary(make_model(wide)) / 2
