# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The loss as a whole: masks, splits, packing and weights, in every config.

Rows of the toy batch; a model is a table of logits, one row per token:

  segment_ids  1 1 1 1 1 2 2 2 0 | 1 1 1 1 1 1 1 0 0
  sampled      0 1 1 0 1 0 1 1 0 | 0 0 1 0 1 1 1 0 0
  turn_id      - 0 0 - 1 - 0 0 - | - - 0 - 1 1 2 - -
"""

import dataclasses
import itertools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.training import aggregation, losses

V = 5  # vocabulary of the table
SEGMENTS = np.array([[1, 1, 1, 1, 1, 2, 2, 2, 0], [1] * 7 + [0, 0]])
TURNS = np.array(
  [[-1, 0, 0, -1, 1, -1, 0, 0, -1], [-1, -1, 0, -1, 1, 1, 2, -1, -1]]
)
CHOICES = {
  'surrogate': ('clipped', 'likelihood'),
  'ratio': ('token', 'sequence'),
  'aggregation': ('token_mean', 'segment_mean', 'constant_length'),
  'kl': ('none', 'k1', 'k2', 'k3'),
  'off_policy': ('none', 'truncated', 'band'),
  'llds': (False, True),
}
# Every part at work, so that a leak in any of them shows.
FULL = losses.LossConfig(
  kl_weight=0.7, entropy_weight=0.3, off_policy='truncated', llds=True
)


def batch_of(segments=SEGMENTS, turns=TURNS):
  n, length = segments.shape
  rng = np.random.default_rng(7)
  return types.Batch(
    tokens=rng.integers(0, V, (n, length)).astype(np.int32),
    positions=np.zeros((n, length), np.int32),
    segment_ids=segments.astype(np.int32),
    sampled=turns >= 0,
    turn_id=turns.astype(np.int32),
    trajectory_id=np.where(segments > 0, segments - 1, -1).astype(np.int32),
    sampler_logps=rng.normal(-1.5, 0.3, (n, length)).astype(np.float32),
  )


def targets_of(batch, seed=11):
  rng = np.random.default_rng(seed)

  def draw():
    return rng.normal(-1.5, 0.3, batch.sampled.shape).astype(np.float32)

  advantage = rng.normal(0, 1, batch.sampled.shape).astype(np.float32)
  return types.Targets(advantage, draw(), draw(), np.ones_like(advantage))


def logits_of(batch, seed=13):
  rng = np.random.default_rng(seed)
  return jnp.array(rng.normal(size=(*batch.sampled.shape, V)), jnp.float32)


def model(logits_NLV, batch):
  """Log-prob of each token, and entropy, from its own row of logits."""
  all_NLV = jax.nn.log_softmax(logits_NLV)
  logps_NL = jnp.take_along_axis(all_NLV, batch.tokens[..., None], -1)[..., 0]
  return logps_NL, -(jnp.exp(all_NLV) * all_NLV).sum(-1)


def whole(config, logps, entropy, batch, targets):
  counts = aggregation.count(batch, targets)
  return losses.make_loss(config)(logps, entropy, batch, targets, counts)


def take(tree, rows):
  return jax.tree.map(lambda x: x[rows], tree)


def configs_by_structure():
  """All combinations of the parts that look beyond a single token."""
  names = ('surrogate', 'ratio', 'aggregation', 'llds')
  for values in itertools.product(*(CHOICES[name] for name in names)):
    words = dict(zip(names, values, strict=True))
    yield dataclasses.replace(FULL, constant_length=7.0, **words)


@pytest.mark.parametrize('surrogate', CHOICES['surrogate'])
@pytest.mark.parametrize('ratio', CHOICES['ratio'])
@pytest.mark.parametrize('aggregation', CHOICES['aggregation'])
@pytest.mark.parametrize('kl', CHOICES['kl'])
@pytest.mark.parametrize('off_policy', CHOICES['off_policy'])
@pytest.mark.parametrize('llds', CHOICES['llds'])
def test_given_tokens_have_no_gradient(
  surrogate, ratio, aggregation, kl, off_policy, llds
):
  config = dataclasses.replace(
    FULL,
    surrogate=surrogate,
    ratio=ratio,
    aggregation=aggregation,
    kl=kl,
    off_policy=off_policy,
    llds=llds,
  )
  batch = batch_of()
  targets = targets_of(batch)

  def loss(logits_NLV):
    return whole(config, *model(logits_NLV, batch), batch, targets)[0]

  gradient = np.asarray(jax.grad(loss)(logits_of(batch)))
  assert not gradient[~batch.sampled].any()
  # The entropy bonus moves every sampled token, whatever the clip does.
  assert gradient[batch.sampled].any(axis=-1).all()


@pytest.mark.parametrize('poison', [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize('ratio', CHOICES['ratio'])
@pytest.mark.parametrize('aggregation', CHOICES['aggregation'])
def test_poison_at_masked_positions_stays_there(poison, ratio, aggregation):
  config = dataclasses.replace(FULL, ratio=ratio, aggregation=aggregation)
  batch = batch_of()
  targets = targets_of(batch)
  targets.weight[1, 4] = 0.0  # a sampled token that is weighted away
  masked = ~batch.sampled | (targets.weight == 0)

  def value_and_gradients(dirty):
    def spoil(x):
      return np.where(masked, poison, x) if dirty else np.asarray(x)

    def function(*inputs):
      return whole(config, *inputs, packed, sour)

    logps, entropy = map(spoil, model(logits_of(batch), batch))
    sour = types.Targets(
      advantage=spoil(targets.advantage),
      old_logps=spoil(targets.old_logps),
      ref_logps=spoil(targets.ref_logps),
      weight=targets.weight,
    )
    packed = dataclasses.replace(
      batch, sampler_logps=spoil(batch.sampler_logps)
    )
    return jax.value_and_grad(function, (0, 1), has_aux=True)(logps, entropy)

  clean, dirty = value_and_gradients(False), value_and_gradients(True)
  jax.tree.map(np.testing.assert_array_equal, clean, dirty)
  for gradient in dirty[1]:
    assert np.isfinite(gradient).all()
    assert not np.asarray(gradient)[masked].any()


def test_poison_on_a_token_that_counts_is_not_hidden():
  batch = batch_of()
  logps, entropy = model(logits_of(batch), batch)
  logps = logps.at[0, 1].set(jnp.nan)
  assert jnp.isnan(whole(FULL, logps, entropy, batch, targets_of(batch))[0])


@pytest.mark.parametrize('aggregation_name', CHOICES['aggregation'])
def test_nothing_to_learn_from_is_zero(aggregation_name):
  config = dataclasses.replace(FULL, aggregation=aggregation_name)
  batch = batch_of()
  targets = targets_of(batch)
  targets.weight[:] = 0.0
  inputs = model(logits_of(batch), batch)
  # Alone in its update (counts 0), and beside others (counts of the others).
  for counts in (
    aggregation.count(batch, targets),
    aggregation.Counts(jnp.array(9.0), jnp.array(3.0)),
  ):

    def function(*xs, counts=counts):
      return losses.make_loss(config)(*xs, batch, targets, counts)

    (loss, metrics), gradients = jax.value_and_grad(
      function, (0, 1), has_aux=True
    )(*inputs)
    assert loss == 0
    assert not any(np.asarray(value).any() for value in metrics.values())
    assert not any(np.asarray(gradient).any() for gradient in gradients)


@pytest.mark.parametrize('aggregation_name', CHOICES['aggregation'])
@hypothesis.settings(deadline=None, max_examples=8)
@hypothesis.given(
  owner=st.lists(st.integers(0, 2), min_size=4, max_size=4),
  seed=st.integers(0, 99),
)
def test_micro_batches_add_up_to_the_whole(aggregation_name, owner, seed):
  config = dataclasses.replace(
    FULL, aggregation=aggregation_name, constant_length=7.0
  )
  batch = batch_of(np.tile(SEGMENTS, (2, 1)), np.tile(TURNS, (2, 1)))
  targets = targets_of(batch, seed)
  rng = np.random.default_rng(seed)
  targets.weight[:] = rng.choice([0.0, 0.5, 1.0, 2.0], targets.weight.shape)
  logps, entropy = model(logits_of(batch, seed), batch)
  expected, metrics = whole(config, logps, entropy, batch, targets)
  parts = [np.flatnonzero(np.array(owner) == i) for i in range(3)]
  parts = [rows for rows in parts if len(rows)]
  # Denominators add up as well.
  counts = jax.tree.map(
    lambda *xs: sum(xs),
    *[aggregation.count(take(batch, r), take(targets, r)) for r in parts],
  )
  loss = losses.make_loss(config)
  results = [
    loss(logps[r], entropy[r], take(batch, r), take(targets, r), counts)
    for r in parts
  ]
  together = results[0][1]
  for _, more in results[1:]:
    together = losses.combine(together, more)
  np.testing.assert_allclose(
    sum(value for value, _ in results), expected, rtol=1e-5, atol=1e-6
  )
  assert together.keys() == metrics.keys()
  for name, value in metrics.items():
    np.testing.assert_allclose(
      together[name], value, rtol=1e-5, atol=1e-6, err_msg=name
    )


def unpack(tree, cuts):
  """Moves each (row, start, stop) into a row of its own, padded with 99."""
  width = max(stop - start for _, start, stop in cuts) + 2

  def move(x_NL):
    x_NL = np.asarray(x_NL)
    out = np.full((len(cuts), width), 99).astype(x_NL.dtype)
    for i, (row, start, stop) in enumerate(cuts):
      out[i, : stop - start] = x_NL[row, start:stop]
    return out

  return jax.tree.map(move, tree)


@pytest.mark.parametrize('config', configs_by_structure())
def test_packed_equals_unpacked(config):
  batch = batch_of()
  targets = targets_of(batch)
  inputs = model(logits_of(batch), batch)
  cuts = [(0, 0, 5), (0, 5, 8), (1, 0, 7)]
  apart = unpack(batch, cuts)
  inside = np.arange(apart.sampled.shape[1]) < np.array([[5], [3], [7]])
  apart = dataclasses.replace(
    apart,
    sampled=apart.sampled & inside,
    segment_ids=np.where(inside, 1, 0),
  )
  packed, gradients = jax.value_and_grad(
    lambda *xs: whole(config, *xs, batch, targets)[0], (0, 1)
  )(*inputs)
  alone, gradients_alone = jax.value_and_grad(
    lambda *xs: whole(config, *xs, apart, unpack(targets, cuts))[0], (0, 1)
  )(*unpack(inputs, cuts))
  np.testing.assert_allclose(packed, alone, rtol=1e-5)
  for one, other in zip(gradients, gradients_alone, strict=True):
    moved = np.where(inside, unpack(one, cuts), 0.0)
    np.testing.assert_allclose(other, moved, rtol=1e-5, atol=1e-7)


def test_a_weight_of_zero_is_a_token_that_was_not_sampled():
  for config in (
    dataclasses.replace(FULL, aggregation=name, ratio=ratio)
    for name in CHOICES['aggregation']
    for ratio in CHOICES['ratio']
  ):
    batch = batch_of()
    inputs = model(logits_of(batch), batch)
    weighted = targets_of(batch)
    weighted.weight[0, 2] = weighted.weight[0, 6:8] = 0.0
    given = batch.sampled.copy()
    given[0, 2] = given[0, 6] = given[0, 7] = False
    one = whole(config, *inputs, batch, weighted)
    other = whole(
      config,
      *inputs,
      dataclasses.replace(batch, sampled=given),
      targets_of(batch),
    )
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize('aggregation_name', CHOICES['aggregation'])
def test_weights_have_no_unit(aggregation_name):
  config = dataclasses.replace(FULL, aggregation=aggregation_name, llds=False)
  batch = batch_of()
  inputs = model(logits_of(batch), batch)
  targets = targets_of(batch)
  threefold = dataclasses.replace(targets, weight=3 * targets.weight)
  np.testing.assert_allclose(
    whole(config, *inputs, batch, targets)[0],
    whole(config, *inputs, batch, threefold)[0],
    rtol=1e-5,
  )


def test_on_policy_the_clipped_surrogate_has_the_policy_gradient():
  # Two roads: at ratio 1 its gradient is that of -A logp.
  batch = batch_of()
  logps, entropy = model(logits_of(batch), batch)
  targets = dataclasses.replace(targets_of(batch), old_logps=np.array(logps))

  def gradient(surrogate):
    config = losses.LossConfig(surrogate=surrogate, kl='none')
    return jax.grad(lambda x: whole(config, x, entropy, batch, targets)[0])(
      logps
    )

  np.testing.assert_allclose(
    gradient('clipped'), gradient('likelihood'), rtol=1e-6
  )
