# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Weights weigh on every device what was said of their shapes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import sharding
from searchrl_jax.models import decoder as decoders
from searchrl_jax.models import lora, presets
from searchrl_jax.models.config import DecoderConfig, Lora
from searchrl_jax.training import state
from searchrl_jax.training.optimizer import OptimizerConfig, make_optimizer
from searchrl_jax.training.weigh import Backend, Devices, weigh

SMALL = DecoderConfig(
  vocabulary=64,
  width=32,
  layers=3,
  heads=8,
  kv_heads=2,
  head_width=32,
  mlp_width=48,
  rope_base=1e4,
  tied=False,
)


@pytest.mark.parametrize(
  'sizes, adapters',
  [((8, 1, 1), None), ((1, 4, 2), None), ((2, 2, 2), Lora(rank=4))],
  ids=str,
)
def test_weights_lie_on_every_device_as_planned(sizes, adapters):
  decoder = dataclasses.replace(SMALL, lora=adapters)
  mesh = sharding.make_mesh(*sizes, devices=jax.devices())
  model = decoders.build_model(decoder, unrolled=True)
  params = jax.eval_shape(model.init, jax.random.key(0))
  places = sharding.param_shardings(mesh, params, model.axes(params))
  params = jax.device_put(
    jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), params), places
  )
  frozen = {}
  if adapters:
    (params, frozen), (places, _) = lora.split(params), lora.split(places)
  optimizer = make_optimizer(OptimizerConfig(), 1)
  shardings = state.state_shardings(mesh, optimizer, params, places)
  begun = state.init_state(params, optimizer, shardings)
  weights = weigh(decoder, Devices(*sizes, Backend.CPU))
  for place in mesh.devices.flat:

    def on(tree, place=place):
      return sum(
        shard.data.nbytes
        for leaf in jax.tree.leaves(tree)
        for shard in leaf.addressable_shards
        if shard.device == place
      )

    assert on(begun.params) == weights.learned
    assert on(begun.opt_state) == weights.optimizer
    assert on(frozen) == weights.frozen
    # Adam has two moments of every number that learns, and one gradient.
    assert on(begun.opt_state[1].mu) == weights.gradients


def test_a_preset_weighs_what_it_is_known_to():
  # Qwen2.5-7B: 7.6e9 numbers; a cloud of 1024 devices need not be here.
  decoder = dataclasses.replace(
    presets.PRESETS['qwen2.5-7b'].config, compute_dtype=jnp.dtype(jnp.bfloat16)
  )
  alone = weigh(decoder, Devices(1, 1, 1, Backend.ACCELERATOR))
  assert alone.learned == 4 * 7_615_616_512
  assert alone.sampler == pytest.approx(2 * 7_615_616_512, rel=1e-4)
  many = weigh(decoder, Devices(32, 16, 2, Backend.ACCELERATOR))
  # Matrices are split 32 times, norms and biases less.
  assert many.learned == pytest.approx(alone.learned / 32, rel=1e-2)
  assert many.sampler == alone.sampler


def test_what_cannot_be_split_is_refused_by_name():
  with pytest.raises(ValueError, match='32 does not split over fsdp=3'):
    weigh(SMALL, Devices(1, 3, 1, Backend.ACCELERATOR))
