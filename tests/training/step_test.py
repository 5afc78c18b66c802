# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One update is one update, however it is cut and wherever it runs."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import sharding
from searchrl_jax.training import losses, minibatches, state, step
from searchrl_jax.training.optimizer import OptimizerConfig, make_optimizer
from searchrl_jax.types import Batch, Targets

VOCABULARY, WIDTH = 8, 4
OPTIMIZER = make_optimizer(OptimizerConfig(learning_rate=0.01), 10)
LOSS = losses.make_loss(losses.LossConfig(aggregation='segment_mean'))
AXES = {'embed': ('vocabulary', 'embed'), 'mix': ('embed', 'mlp')}


# A model in four lines: a token sees itself and nothing else.
def apply(params, tokens_NL, positions_NL, segment_ids_NL):
  return jnp.tanh(params['embed'][tokens_NL] @ params['mix'])


def make_params(dtype=jnp.float32):
  keys = jax.random.split(jax.random.key(0))
  sizes = {'embed': (VOCABULARY, WIDTH), 'mix': (WIDTH, WIDTH)}
  return {
    name: jax.random.normal(key, size).astype(dtype)
    for key, (name, size) in zip(keys, sizes.items(), strict=True)
  }


SCORES = step.make_token_scores(
  apply,
  lambda params: params['embed'],
  join=step.all_learn,
  chunk=5,
  temperature=0.7,
)


def make_batch(rows, length=6, seed=0):
  """Rows of two segments of unequal lengths, and a last column of padding."""
  rng = np.random.default_rng(seed)
  shape = rows, length
  segment_ids = np.ones(shape, np.int32)
  for row, cut in enumerate(rng.integers(1, length - 1, rows)):
    segment_ids[row, cut:] = 2
  segment_ids[:, -1] = 0
  sampled = (rng.random(shape) < 0.6) & (segment_ids > 0)
  sampled[:, 0] = False
  draw = functools.partial(rng.normal, size=shape)
  batch = Batch(
    tokens=rng.integers(0, VOCABULARY, shape, dtype=np.int32),
    positions=np.zeros(shape, np.int32),
    segment_ids=segment_ids,
    sampled=sampled,
    turn_id=np.where(sampled, 0, -1).astype(np.int32),
    trajectory_id=np.zeros(shape, np.int32),
    sampler_logps=draw().astype(np.float32),
  )
  targets = Targets(
    *(draw().astype(np.float32) for _ in range(3)), np.ones(shape, np.float32)
  )
  return batch, targets


@functools.cache
def programs(devices=1, micro_rows=8, dtype=jnp.float32, **sizes):
  """(update, shardings) on a mesh of the first devices; compiled once."""
  mesh = sharding.make_mesh(devices=jax.devices()[:devices], **sizes)
  params = make_params(dtype)
  shardings = state.state_shardings(
    mesh, OPTIMIZER, params, sharding.param_shardings(mesh, params, AXES)
  )
  gradients = step.make_gradients(
    SCORES, LOSS, mesh, shardings, micro_rows=micro_rows, frozen={}
  )
  return step.make_update(gradients, OPTIMIZER, mesh, shardings), shardings


def learner(dtype=jnp.float32, **settings):
  """(update, fresh state)."""
  update, shardings = programs(dtype=dtype, **settings)
  return update, state.init_state(make_params(dtype), OPTIMIZER, shardings)


def assert_close(got, wanted, tolerance=2e-6):
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, atol=tolerance), got, wanted
  )


@functools.cache
def by_hand():
  """The same update without micro-batches, padding or mesh."""
  batch, targets = make_batch(rows=13)

  def objective(params):
    counts = step.count(batch, targets)
    return LOSS(*SCORES(params, {}, batch), batch, targets, counts)

  run = jax.jit(jax.value_and_grad(objective, has_aux=True))
  (loss, metrics), grads = run(make_params())
  updates, _ = OPTIMIZER.update(grads, OPTIMIZER.init(grads), make_params())
  params = jax.tree.map(jnp.add, make_params(), updates)
  return loss, metrics, grads, params


@pytest.mark.parametrize(
  'micro_rows, sizes',
  [
    (16, {'devices': 1}),  # the whole, 13 rows and 3 of padding
    (2, {'devices': 1}),  # seven micro-batches, the last half empty
    (2, {'devices': 2}),
    (8, {'devices': 8}),
    (4, {'devices': 8, 'fsdp': 2, 'tensor': 2}),
  ],
)
def test_cut_whole_and_sharded_are_the_same_update(micro_rows, sizes):
  loss, metrics, grads, params = by_hand()
  update, before = learner(micro_rows=micro_rows, **sizes)
  after, got = update(before, *make_batch(rows=13))
  assert_close(after.params, params)
  assert_close({name: got[name] for name in metrics}, metrics)
  assert_close(got['loss'], loss)
  norm = np.sqrt(sum(float((g**2).sum()) for g in jax.tree.leaves(grads)))
  assert_close(got['grad_norm'], norm)
  # Adam hides the size of gradients; its first moment does not.
  mu = after.opt_state[1].mu
  clipped = jax.tree.map(lambda g: 0.1 * g / max(norm, 1.0), grads)
  assert_close(mu, clipped)
  assert int(after.step) == 1 and int(after.skipped) == 0


def test_a_mean_over_micro_batches_would_be_another_number():
  """Unequal rows: averaging the losses of micro-batches, each by its own
  count, differs from the global mean, so that the test above can fail."""
  batch, targets = make_batch(rows=13)
  loss, *_ = by_hand()

  @jax.jit
  def alone(batch, targets):
    counts = step.count(batch, targets)
    return LOSS(*SCORES(make_params(), {}, batch), batch, targets, counts)[0]

  padded = minibatches.pad_rows(batch, targets, 2)
  means = [alone(*part) for part in minibatches.slices(padded, 2)]
  assert abs(float(np.mean(means)) - float(loss)) > 1e-3


def test_moments_lie_where_their_parameters_do():
  sizes = {'devices': 8, 'fsdp': 2, 'tensor': 2, 'micro_rows': 4}
  _, shardings = programs(**sizes)
  _, fresh = learner(**sizes)
  assert (
    fresh.opt_state[1]
    .mu['embed']
    .sharding.is_equivalent_to(shardings.params['embed'], 2)
  )
  assert fresh.opt_state[1].mu['embed'].addressable_data(0).shape == (4, 2)
  assert fresh.opt_state[1].count.sharding.is_fully_replicated


def test_any_number_of_rows_uses_the_same_programs():
  # Sizes no other test uses: programs are counted from none.
  update, current = learner(devices=2, micro_rows=4)
  current, _ = update(current, *make_batch(rows=4))
  once = {'begin': 1, 'count': 1, 'accumulate': 1, 'apply': 1}
  assert update.compiled_programs() == once
  for rows in (1, 3, 5, 8, 11):
    current, _ = update(current, *make_batch(rows=rows))
  assert update.compiled_programs() == once
  # Another L is another program for the rows, not for the parameters.
  current, _ = update(current, *make_batch(rows=3, length=9))
  twice = {'begin': 2, 'count': 2, 'accumulate': 2, 'apply': 1}
  assert update.compiled_programs() == twice
  assert int(current.step) == 7


@pytest.mark.parametrize('devices', [1, 2])
def test_the_state_is_donated_but_not_the_parameters_it_began_with(devices):
  params = make_params()
  update, shardings = programs(micro_rows=2, devices=devices)
  before = state.init_state(params, OPTIMIZER, shardings)
  after, _ = update(before, *make_batch(rows=3))
  for leaf in jax.tree.leaves(before):
    assert leaf.is_deleted()
  assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(after))
  jax.tree.map(np.testing.assert_array_equal, params, make_params())


def bits(tree):
  return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize('poison', [np.nan, np.inf, -np.inf])
def test_a_bad_update_keeps_every_bit_and_is_counted(poison):
  update, current = learner(micro_rows=2)
  good = make_batch(rows=5)
  current, metrics = update(current, *good)
  assert int(metrics['skipped']) == 0
  kept = bits((current.params, current.opt_state, current.step))

  # One token of the last micro-batch; the first two are healthy.
  bad = make_batch(rows=5)
  column = int(np.flatnonzero(bad[0].sampled[4])[0])
  bad[1].advantage[4, column] = poison
  for in_row in (1, 2):
    current, metrics = update(current, *bad)
    assert int(metrics['skipped']) == 1
    assert not np.isfinite(metrics['loss'])
    assert int(current.skipped_in_row) == in_row
  assert bits((current.params, current.opt_state, current.step)) == kept

  current, metrics = update(current, *good)
  assert int(metrics['skipped']) == 0
  assert int(current.step) == 2
  assert int(current.skipped) == 2 and int(current.skipped_in_row) == 0
  assert bits(current.params) != kept[: len(bits(current.params))]


def test_a_finite_loss_with_a_bad_gradient_is_skipped_too():
  # sqrt at 0: the value is 0, its slope is infinite.
  def loss(logps, entropy, batch, targets, counts):
    value = jnp.sqrt(jnp.sum(logps * 0.0))
    return value, {'loss': value}

  mesh = sharding.make_mesh(devices=jax.devices()[:1])
  _, shardings = programs(micro_rows=2)
  current = state.init_state(make_params(), OPTIMIZER, shardings)
  gradients = step.make_gradients(
    SCORES, loss, mesh, shardings, micro_rows=4, frozen={}
  )
  update = step.make_update(gradients, OPTIMIZER, mesh, shardings)
  kept = bits(current.params)
  current, metrics = update(current, *make_batch(rows=4))
  assert float(metrics['loss']) == 0.0
  assert not np.isfinite(metrics['grad_norm'])
  assert int(metrics['skipped']) == 1 and bits(current.params) == kept


def test_poison_on_masked_tokens_does_no_harm():
  batch, targets = make_batch(rows=13)
  for array in (targets.advantage, targets.old_logps, targets.ref_logps):
    array[~batch.sampled] = np.nan
  *_, params = by_hand()
  update, current = learner(micro_rows=2)
  current, metrics = update(current, batch, targets)
  assert int(metrics['skipped']) == 0
  assert_close(current.params, params)


def test_all_masked_rows_have_loss_and_gradient_zero():
  update, current = learner(micro_rows=2)
  batch, targets = make_batch(rows=4)
  targets.weight[:] = 0
  current, metrics = update(current, batch, targets)
  assert float(metrics['loss']) == 0 and float(metrics['grad_norm']) == 0
  assert int(metrics['skipped']) == 0 and int(current.step) == 1
  # Without momentum and weight decay a zero gradient moves nothing.
  jax.tree.map(np.testing.assert_array_equal, current.params, make_params())


def test_a_masked_micro_batch_does_not_dilute_the_others():
  batch, targets = make_batch(rows=6)
  targets.weight[2:4] = 0
  kept = jax.tree.map(lambda x: x[[0, 1, 4, 5]], (batch, targets))
  outcomes = []
  for rows in ((batch, targets), kept):
    update, current = learner(micro_rows=2)
    current, metrics = update(current, *rows)
    outcomes.append((current.params, metrics))
  assert_close(*outcomes)


def test_bfloat16_parameters_accumulate_in_float32():
  """Eight equal micro-batches: the summed gradient is that of one micro-batch
  times eight shares of an eighth. In bfloat16 (8 bits) the running sum would
  be rounded seven times; here the norm agrees to float32's accuracy."""
  one = make_batch(rows=1)
  eight = jax.tree.map(lambda x: np.repeat(x, 8, axis=0), one)
  norms = []
  for rows in (one, eight):
    update, current = learner(micro_rows=1, dtype=jnp.bfloat16)
    current, metrics = update(current, *rows)
    assert current.params['embed'].dtype == jnp.bfloat16
    assert current.opt_state[1].nu['embed'].dtype == jnp.float32
    norms.append(float(metrics['grad_norm']))
  assert norms[1] == pytest.approx(norms[0], rel=1e-6)


def test_minibatches_of_a_batch_share_the_programs():
  update, current = learner(micro_rows=2)
  compiled = update.compiled_programs()
  for part in minibatches.minibatches(*make_batch(rows=13), count=3):
    current, _ = update(current, *part)
  assert int(current.step) == 3
  assert compiled['accumulate'] in (0, 1)  # 0 where this test runs first
  assert update.compiled_programs()['accumulate'] == 1


def test_restart_keeps_parameters_and_forgets_moments():
  update, shardings = programs(micro_rows=2)
  current = state.init_state(make_params(), OPTIMIZER, shardings)
  current, _ = update(current, *make_batch(rows=3))
  kept = bits((current.params, current.step))
  other = make_optimizer(
    OptimizerConfig(schedule='linear', weight_decay=0.1, clip_norm=0.0), 9
  )
  fresh = state.restart_optimizer(current, other, shardings)
  assert bits((fresh.params, fresh.step)) == kept
  for leaf in jax.tree.leaves(fresh.opt_state):
    np.testing.assert_array_equal(leaf, 0)
  # The programs of one optimizer accept the state of the other.
  before = update.compiled_programs()
  after, _ = update(fresh, *make_batch(rows=3))
  assert int(after.step) == 2
  assert update.compiled_programs() == before


def test_learner_logps_are_those_of_the_whole_batch():
  batch, _ = make_batch(rows=11)
  whole, _ = SCORES(make_params(), {}, batch)
  for devices, micro_rows in ((1, 4), (8, 8)):
    mesh = sharding.make_mesh(devices=jax.devices()[:devices])
    logps = step.make_learner_logps(
      SCORES, mesh, micro_rows=micro_rows, frozen={}
    )
    params = sharding.replicate(mesh, make_params())
    got = logps(params, batch)
    assert got.shape == (11, 6) and got.dtype == np.float32
    assert_close(got, whole)
    logps(params, make_batch(rows=3)[0])
    assert logps.compiled_programs() == {'forward': 1}


def test_impossible_micro_batch_is_refused_before_anything_runs():
  for rows in (1, 3, 6):
    with pytest.raises(ValueError, match='multiple of 4'):
      programs(devices=4, micro_rows=rows)


def test_what_is_frozen_has_no_gradient_and_changes_none():
  # The same gradients whether the other parameters learn too or are frozen.
  batch, targets = make_batch(rows=8)
  mesh = sharding.make_mesh(devices=jax.devices()[:1])
  _, shardings = programs(micro_rows=4)
  params = make_params()
  whole = step.make_gradients(
    SCORES, LOSS, mesh, shardings, micro_rows=4, frozen={}
  )
  wanted, _ = whole(params, batch, targets)
  name = sorted(params)[0]
  scores = step.make_token_scores(
    apply,
    lambda params: params['embed'],
    join=lambda frozen, learned: frozen | learned,
    chunk=5,
    temperature=0.7,
  )
  part = dataclasses.replace(shardings, params={name: shardings.params[name]})
  frozen = {key: value for key, value in params.items() if key != name}
  gradients = step.make_gradients(
    scores, LOSS, mesh, part, micro_rows=4, frozen=frozen
  )
  got, _ = gradients({name: params[name]}, batch, targets)
  assert list(got) == [name]
  assert_close(got[name], wanted[name], 1e-7)
