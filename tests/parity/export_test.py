# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What we export, `transformers` loads, and both say the same."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from searchrl_jax.models import decoder, export, lora
from searchrl_jax.models.config import Lora
from tests.parity import families, ours, theirs

CLOSE = {'rtol': 1e-4, 'atol': 1e-4}
FAMILIES = tuple(families.FAMILIES)


def tokens_of(config, length=30):
  return np.random.default_rng(1).integers(0, config.vocabulary, length)


def config_of(name, tmp_path, **changes):
  """A config of a family, as we read it."""
  model = theirs.make(families.draw(name, seed=1), seed=1)
  loaded = ours.load(theirs.save(model, tmp_path / 'source'), **changes)
  return loaded.model.config


def noisy(params, seed=0):
  """Nothing keeps its first value: norms leave 1, biases and B leave 0."""
  rng = np.random.default_rng(seed)
  return jax.tree.map(
    lambda x: (x + 0.1 * rng.normal(size=x.shape)).astype(x.dtype), params
  )


@pytest.mark.parametrize(
  'name, shard_bytes',
  [('qwen2', 10**9), *((name, 10_000) for name in FAMILIES)],
)
def test_pytorch_gives_the_same_logits(name, shard_bytes, tmp_path):
  config = config_of(name, tmp_path)
  model = decoder.make_model(config)
  mine = ours.Loaded(model, noisy(model.init(jax.random.key(0))))
  directory = tmp_path / 'export'
  export.export(directory, mine.params, config, shard_bytes=shard_bytes)
  files = list(directory.glob('*.safetensors'))
  assert (len(files) > 1) == (shard_bytes == 10_000)
  tokens = tokens_of(config)
  _, logits = mine.alone(tokens)
  wanted = theirs.alone(theirs.load(directory), tokens)
  np.testing.assert_allclose(logits, wanted.logits, **CLOSE)


@pytest.mark.parametrize('name', ['qwen2-untied', 'smollm2'])
def test_bfloat16_weights_arrive_bit_for_bit(name, tmp_path):
  config = config_of(name, tmp_path, param_dtype=jnp.bfloat16)
  model = decoder.make_model(config)
  params = noisy(model.init(jax.random.key(0)))
  directory = tmp_path / 'export'
  export.export(directory, params, config, shard_bytes=20_000)
  loaded = theirs.load(directory, torch.bfloat16)
  state = loaded.state_dict()
  for name, weight in ours.published(config, params).items():
    assert state[name].dtype == torch.bfloat16
    np.testing.assert_array_equal(
      state[name].float().numpy(), weight.astype(np.float32), err_msg=name
    )
  # And computed in float32, the same logits.
  mine = ours.Loaded(decoder.make_model(config_of_float32(config)), params)
  _, logits = mine.alone(tokens_of(config))
  wanted = theirs.alone(loaded.float(), tokens_of(config))
  np.testing.assert_allclose(logits, wanted.logits, **CLOSE)


def config_of_float32(config):
  return dataclasses.replace(config, compute_dtype=jnp.float32)


@pytest.mark.parametrize('name', FAMILIES)
def test_merged_adapters_equal_applied_ones(name, tmp_path):
  adapted = config_of(name, tmp_path, lora=Lora(rank=3, alpha=5.0))
  model = decoder.make_model(adapted)
  params = noisy(model.init(jax.random.key(0)))
  tokens = tokens_of(adapted)
  _, applied = ours.Loaded(model, params).alone(tokens)

  plain = dataclasses.replace(adapted, lora=None)
  merged = lora.merge(params, adapted.lora)
  _, here = ours.Loaded(decoder.make_model(plain), merged).alone(tokens)
  np.testing.assert_allclose(here, applied, **CLOSE)

  export.export(tmp_path / 'export', merged, plain)
  there = theirs.alone(theirs.load(tmp_path / 'export'), tokens)
  np.testing.assert_allclose(there.logits, applied, **CLOSE)
  # The adapters matter: each matrix is another one with them.
  _, base = lora.split(params)
  for part, name in (('attention', 'q'), ('mlp', 'down')):
    change = merged['layers'][part][name] - base['layers'][part][name]
    assert np.abs(change).max() > 0.02
