# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The gradient of the whole loss equals PyTorch's, for every weight.

From tokens to gradients on both sides: packed rows, log-probs in chunks,
micro-batches and accumulation on ours; a mask, whole logits, a loop over
segments and autograd on theirs.
"""

import dataclasses

import jax
import numpy as np
import pytest
import torch

from searchrl_jax import packing, sharding
from searchrl_jax.models import decoder, hf_names, lora
from searchrl_jax.models.config import Lora, Remat
from searchrl_jax.training import losses, optimizer, state, step
from searchrl_jax.types import Targets
from tests.parity import families, ours, their_loss, theirs

TEMPERATURE = 0.8
CLIPPED = losses.LossConfig(kl_weight=0.3, entropy_weight=0.1)
LOSSES = {
  'dapo': CLIPPED,
  'grpo': dataclasses.replace(CLIPPED, aggregation='segment_mean'),
  'dr-grpo': dataclasses.replace(
    CLIPPED, aggregation='constant_length', constant_length=7.0, kl='none'
  ),
  'gspo': dataclasses.replace(
    CLIPPED,
    ratio='sequence',
    clip_low=0.02,
    clip_high=0.03,
    aggregation='segment_mean',
    kl='k2',
  ),
  'off-policy': dataclasses.replace(
    CLIPPED, off_policy='truncated', truncate_at=1.05
  ),
  'band': dataclasses.replace(
    CLIPPED, off_policy='band', band_low=0.95, band_high=1.1
  ),
  'llds': dataclasses.replace(CLIPPED, llds=True, llds_weight=0.5),
  'likelihood': losses.LossConfig(surrogate='likelihood', kl='none'),
}
# Turns of the segments of each packed row: tokens given, then sampled.
#   row 0   g g g s s g s s s | g g s s s s | g s s
ROWS = (
  (((3, 2), (1, 3)), ((2, 4),), ((1, 2),)),
  (((5, 7),), ((1, 1), (2, 3))),
  (((2, 12), (4, 1)),),
  (((1, 1),), ((1, 1),), ((9, 3), (1, 4))),
  (((18, 1),),),
)
LENGTH = 22


def make_batch(model):
  """Packed rows, and targets near the model's own log-probs."""
  rng = np.random.default_rng(0)
  batch = packing.empty(len(ROWS), LENGTH)
  for row, segments in enumerate(ROWS):
    start = 0
    for number, turns in enumerate(segments, start=1):
      first = start
      for turn, (given, sampled) in enumerate(turns):
        drawn = slice(start + given, start + given + sampled)
        batch.sampled[row, drawn], batch.turn_id[row, drawn] = True, turn
        start = drawn.stop
      batch.segment_ids[row, first:start] = number
      batch.positions[row, first:start] = np.arange(start - first)
  shape = batch.tokens.shape
  batch.tokens[:] = rng.integers(0, model.config.vocab_size, shape)
  with torch.no_grad():
    logps = their_loss.scores(model, batch, TEMPERATURE)[0].numpy()

  def near(center, spread):
    return (center + spread * rng.normal(size=shape)).astype(np.float32)

  old = near(logps, 0.3)
  batch.sampler_logps[:] = near(old, 0.1)
  targets = Targets(
    near(np.zeros(shape), 1.0),
    old,
    near(logps, 0.5),
    # A quarter of the tokens do not count, some count half.
    rng.choice([0.0, 0.5, 1.0, 1.0], shape).astype(np.float32),
  )
  # What does not count may hold anything.
  dead = ~batch.sampled | (targets.weight == 0)
  targets.advantage[dead] = np.nan
  targets.old_logps[dead] = np.inf
  return batch, targets


def their_gradients(model, batch, targets, config):
  """(loss, gradient of every weight under its name)."""
  model.zero_grad()
  value = their_loss.loss(
    *their_loss.scores(model, batch, TEMPERATURE), batch, targets, config
  )
  value.backward()
  grads = {name: w.grad.numpy() for name, w in model.named_parameters()}
  return value.item(), grads


def our_gradients(loaded, batch, targets, config, frozen=None):
  """(metrics, gradients) by the programs of a run."""
  mesh = sharding.make_mesh(devices=jax.devices()[:1])
  params = loaded.params
  model = loaded.model
  axes, join = model.axes(params), step.all_learn
  if model.config.lora:
    params, frozen = lora.split(params)
    axes, join = lora.split(axes)[0], lora.join
  adam = optimizer.make_optimizer(optimizer.OptimizerConfig(), 1)
  shardings = state.state_shardings(
    mesh, adam, params, sharding.param_shardings(mesh, params, axes)
  )
  scores = step.make_token_scores(
    model.apply,
    model.unembedding,
    join=join,
    chunk=13,
    temperature=TEMPERATURE,
  )
  gradients = step.make_gradients(
    scores,
    losses.make_loss(config),
    mesh,
    shardings,
    micro_rows=2,
    frozen=frozen or {},
  )
  grads, metrics = gradients(params, batch, targets)
  return jax.device_get(metrics), jax.device_get(grads)


def assert_same(got, wanted, name):
  largest = np.abs(wanted).max()
  assert largest > 0, f'{name} has no gradient: nothing is compared'
  np.testing.assert_allclose(
    got, wanted, rtol=1e-3, atol=1e-4 * largest, err_msg=name
  )


def compare(model, loaded, config):
  batch, targets = make_batch(model)
  value, wanted = their_gradients(model, batch, targets, config)
  metrics, grads = our_gradients(loaded, batch, targets, config)
  np.testing.assert_allclose(metrics['loss'], value, rtol=1e-4, atol=1e-5)
  got = ours.published(loaded.model.config, grads)
  assert set(got) == set(wanted)
  for name, gradient in got.items():
    assert_same(gradient, wanted[name], name)
  return metrics


@pytest.mark.parametrize('name', families.FAMILIES)
def test_of_every_family(name, tmp_path):
  model = theirs.make(families.draw(name, seed=2), seed=2)
  loaded = ours.load(theirs.save(model, tmp_path))
  metrics = compare(model, loaded, CLIPPED)
  # The clip cuts some tokens and leaves others.
  cut = metrics['clip_low_fraction'] + metrics['clip_high_fraction']
  assert 0.05 < cut < 0.95


@pytest.mark.parametrize('config', LOSSES.values(), ids=LOSSES.keys())
def test_of_every_loss(config, tmp_path):
  model = theirs.make(families.draw('qwen3', seed=3), seed=3)
  compare(model, ours.load(theirs.save(model, tmp_path)), config)


@pytest.mark.parametrize('remat', Remat)
def test_whatever_is_made_again(remat, tmp_path):
  model = theirs.make(families.draw('llama-bias', seed=3), seed=3)
  compare(model, ours.load(theirs.save(model, tmp_path), remat=remat), CLIPPED)


def test_of_adapters(tmp_path):
  """With W + s A B in its place, a matrix's gradient G gives s G B' and s A' G.

  PyTorch has the merged weights and no adapters: another road.
  """
  small = Lora(rank=3, alpha=2.0)
  source = theirs.make(families.draw('qwen2', seed=3), seed=3)
  directory = theirs.save(source, tmp_path / 'base')
  config = ours.load(directory, lora=small).model.config
  base = ours.load(directory).params
  rng = np.random.default_rng(5)
  adapters = jax.tree.map(
    lambda x: (0.3 * rng.normal(size=x.shape)).astype(np.float32),
    lora.init(jax.random.key(0), config, base),
  )
  loaded = ours.Loaded(decoder.make_model(config), lora.join(base, adapters))
  plain = dataclasses.replace(config, lora=None)
  with torch.no_grad():
    merged = ours.published(plain, lora.merge(loaded.params, small))
    for name, weight in source.named_parameters():
      weight.copy_(torch.from_numpy(np.array(merged[name])))
  batch, targets = make_batch(source)
  _, whole = their_gradients(source, batch, targets, CLIPPED)
  _, grads = our_gradients(loaded, batch, targets, CLIPPED)
  for name, place in hf_names.places(plain).items():
    if not place.transposed:
      continue
    _, part, key = place.path
    a, b = (adapters['layers'][part][f'{key}_{s}'][place.layer] for s in 'ab')
    gradient = whole[name].T
    got_a, got_b = (
      grads['layers'][part][f'{key}_{s}'][place.layer] for s in 'ab'
    )
    assert_same(got_a, small.scale * gradient @ b.T, f'{name} A')
    assert_same(got_b, small.scale * a.T @ gradient, f'{name} B')
