# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The loss in hand-worked numbers, what it logs, and what it refuses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.training import aggregation, losses


def batch_of(segments, turns):
  zeros = np.zeros(segments.shape, np.int32)
  return types.Batch(
    tokens=zeros,
    positions=zeros,
    segment_ids=segments.astype(np.int32),
    sampled=turns >= 0,
    turn_id=turns.astype(np.int32),
    trajectory_id=zeros,
    sampler_logps=zeros.astype(np.float32),
  )


def whole(config, logps, entropy, batch, targets):
  counts = aggregation.count(batch, targets)
  return losses.make_loss(config)(logps, entropy, batch, targets, counts)


def take(tree, rows):
  return jax.tree.map(lambda x: x[rows], tree)


def lengths_one_and_three():
  """Two rows; ratio 1 at every token, advantages +1 and -1."""
  turns = np.array([[-1, 0, -1, -1], [-1, 0, 0, 0]])
  batch = batch_of(np.array([[1, 1, 0, 0], [1, 1, 1, 1]]), turns)
  sampled = batch.sampled.astype(np.float32)
  same = -sampled  # log-prob -1 everywhere, for every policy
  batch = dataclasses.replace(batch, sampler_logps=same)
  sign = np.array([[1.0], [-1.0]], np.float32)
  return same, batch, types.Targets(sign * sampled, same, same, sampled)


@pytest.mark.parametrize('split', [[[0, 1]], [[0], [1]], [[1], [0]]])
def test_lengths_one_and_three(split):
  # -(1 * 1 + 3 * (-1)) / 4 = .5. The mean of the rows' own means would be
  # (-1 + 1) / 2 = 0.
  logps, batch, targets = lengths_one_and_three()
  counts = aggregation.count(batch, targets)
  loss = losses.make_loss(losses.LossConfig(kl='none'))
  total = 0.0
  for rows in split:
    rows = np.array(rows)
    part = take(batch, rows)
    total += loss(
      logps[rows], 0 * logps[rows], part, take(targets, rows), counts
    )[0]
  np.testing.assert_allclose(total, 0.5, rtol=1e-6)


def test_lengths_one_and_three_on_eight_devices():
  logps, batch, targets = jax.tree.map(
    lambda x: np.tile(x, (8, 1)), lengths_one_and_three()
  )
  mesh = jax.make_mesh(
    (8,), ('data',), axis_types=(jax.sharding.AxisType.Auto,)
  )
  spec = jax.sharding.PartitionSpec('data')
  placed = jax.device_put(
    (logps, batch, targets), jax.sharding.NamedSharding(mesh, spec)
  )

  @jax.jit
  def loss(logps, batch, targets):
    config = losses.LossConfig(kl='none')
    return whole(config, logps, 0 * logps, batch, targets)[0]

  assert len(placed[0].sharding.device_set) == 8
  np.testing.assert_allclose(loss(*placed), 0.5, rtol=1e-6)


def test_the_second_update_compares_with_before_the_first():
  # One token, A = 1. The first update raised its log-prob by log 1.5: beyond
  # the clip, so the second must not push further. A ratio against the learner
  # of a moment ago is always 1 and would push with gradient -1.
  turns = np.array([[0]])
  batch = batch_of(np.array([[1]]), turns)
  one = np.ones((1, 1), np.float32)
  old = -2 * one
  targets = types.Targets(one, old, old, one)
  config = losses.LossConfig(kl='none')

  def loss(logps):
    return whole(config, logps, one, batch, targets)

  (first, _), push = jax.value_and_grad(loss, has_aux=True)(jnp.array(old))
  np.testing.assert_allclose([first, push[0, 0]], [-1, -1])
  now = jnp.array(old) + np.log(1.5)
  (second, metrics), push = jax.value_and_grad(loss, has_aux=True)(now)
  np.testing.assert_allclose(second, -1.28, rtol=1e-6)
  assert push[0, 0] == 0
  assert metrics['clip_high_fraction'] == 1


def test_metrics_of_four_tokens():
  # A given token of log-prob -50 stands among them and enters nothing.
  turns = np.array([[0, 0, -1, 1, 1]])
  batch = batch_of(np.ones((1, 5), int), turns)

  def row(*values):
    return np.array([values], np.float32)

  logps = row(-1.0, -1.0, -50.0, -2.0, -2.0)
  batch = dataclasses.replace(
    batch, sampler_logps=row(-1.1, -1.0, 0.0, -2.0, -1.7)
  )
  log_ratio = np.log(row(1.5, 0.5, 1.0, 0.5, 1.0))
  targets = types.Targets(
    advantage=row(1, 1, 9, -1, -1),
    old_logps=logps - log_ratio,
    ref_logps=logps + row(0.5, 0, 9, 0, 0),
    weight=row(1, 1, 1, 1, 1),
  )
  config = losses.LossConfig(kl='k1', kl_weight=0.1, entropy_weight=0.01)
  entropy = row(1, 2, 99, 3, 4)
  loss, metrics = whole(config, jnp.array(logps), entropy, batch, targets)
  expected = {
    'logp': -6 / 4,
    'entropy': 10 / 4,
    'kl': 0.1487 / 4,  # k3, whichever estimate is trained on
    'clip_high_fraction': 1 / 4,  # r = 1.5 with A > 0
    'clip_low_fraction': 1 / 4,  # r = .5 with A < 0; with A > 0 it learns
    'ratio_max': 1.5,
    'sampler_learner_gap': (0.1 + 0.3) / 4,
    'off_policy_weight': 1,
    'loss_surrogate': (-1.28 - 0.5 + 0.8 + 1.0) / 4,
    'loss_kl': 0.1 * -0.5 / 4,
    'loss_entropy': -0.01 * 10 / 4,
    'loss_llds': 0,
  }
  for name, value in expected.items():
    np.testing.assert_allclose(metrics[name], value, atol=2e-5, err_msg=name)
  parts = sum(v for k, v in metrics.items() if k.startswith('loss_'))
  np.testing.assert_allclose([loss, metrics['loss']], [parts, parts])
  assert metrics.keys() == expected.keys() | {'loss'}


def test_combine_adds_means_and_keeps_the_largest():
  first = {'kl': jnp.array(0.2), 'ratio_max': jnp.array(3.0)}
  second = {'kl': jnp.array(0.3), 'ratio_max': jnp.array(1.5)}
  together = losses.combine(first, second)
  np.testing.assert_allclose(together['kl'], 0.5)
  np.testing.assert_allclose(together['ratio_max'], 3.0)


def test_published_defaults():
  config = losses.LossConfig()
  assert (config.clip_low, config.clip_high) == (0.2, 0.28)
  assert (config.kl, config.kl_weight) == ('k3', 0.001)
  assert (config.band_low, config.band_high, config.truncate_at) == (0.5, 2, 2)
  assert config.llds_weight == 0.2


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'kl': 'k4'}, 'none, k1, k2, k3'),
    ({'surrogate': 'ppo'}, 'clipped, likelihood'),
    ({'aggregation': 'mean'}, 'token_mean, segment_mean, constant_length'),
    ({'ratio': ''}, 'token, sequence'),
    ({'off_policy': 'tis'}, 'none, truncated, band'),
    ({'clip_low': 0.0}, 'above 0'),
    ({'kl_weight': -1.0}, '0 or more'),
    ({'band_low': 2.0}, 'below loss.band_high'),
  ],
)
def test_errors_name_what_is_legal(change, message):
  with pytest.raises(ValueError, match=message) as error:
    losses.make_loss(losses.LossConfig(**change))
  assert '\n' not in str(error.value)
  assert f'loss.{next(iter(change))}' in str(error.value)
