# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What was sampled is exactly what is trained on.

Rollouts grow a cache token by token and turn by turn; training packs whole
token rows and runs them at once. Two roads to the same log-probs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import packing, types
from searchrl_jax.training import aggregation, logps, losses

LENGTH = 64
HOT = 0.7


@pytest.fixture(scope='module')
def rollouts(world, sampler, questions):
  """Two questions by four rollouts, at temperature 1 and at another one."""
  played = {}
  for temperature in (1.0, HOT):
    sampler.use(types.Sampling(temperature=temperature), jax.random.key(3))
    played[temperature] = world.play(sampler, questions[3:5], group=4)
  return played


def flat(groups):
  return [trajectory for members in groups for trajectory in members]


@pytest.fixture(scope='module')
def learner(world):
  """(batch, temperature) -> log-probs and entropies, as an update has them."""

  @jax.jit
  def scores(tokens, positions, segment_ids, temperature):
    hidden = world.model.apply(world.params, tokens, positions, segment_ids)
    head = world.model.unembedding(world.params)
    # The temperature is traced here: one program serves both.
    return logps.token_logps(hidden / temperature, head, tokens, chunk=32)

  def run(batch, temperature):
    return scores(batch.tokens, batch.positions, batch.segment_ids, temperature)

  return run


def test_the_rollouts_are_worth_replaying(rollouts):
  played = flat(rollouts[1.0])
  turns = [turn for trajectory in played for turn in trajectory.turns]
  kinds = {turn.action.kind for turn in turns}
  assert {types.Kind.SEARCH, types.Kind.ANSWER, types.Kind.INVALID} <= kinds
  assert any(turn.clipped for turn in turns)
  assert any(turn.failures for turn in turns)
  assert any(turn.evidence for turn in turns)
  assert len({len(trajectory.turns) for trajectory in played}) > 1
  assert len({len(trajectory.rows[0].tokens) for trajectory in played}) > 4


@pytest.mark.parametrize('temperature', [1.0, HOT])
def test_replayed_ids_have_the_recorded_log_probs(
  rollouts, learner, temperature
):
  batch = packing.pack(rollouts[temperature], length=LENGTH, multiple=8)
  assert batch.segment_ids.max() > 1  # several conversations in a row
  logps_NL, _ = learner(batch, temperature)
  sampled = batch.sampled
  np.testing.assert_allclose(
    np.asarray(logps_NL)[sampled], batch.sampler_logps[sampled], atol=1e-4
  )
  # Not because all numbers are alike: the neighbour's would not do.
  off_by_one = np.roll(np.asarray(logps_NL), 1, axis=1)[sampled]
  assert np.abs(off_by_one - batch.sampler_logps[sampled]).max() > 1


def test_another_temperature_is_noticed(rollouts, learner):
  batch = packing.pack(rollouts[HOT], length=LENGTH, multiple=8)
  gap = np.asarray(learner(batch, 1.0)[0]) - batch.sampler_logps
  assert np.abs(gap[batch.sampled]).max() > 0.1


@pytest.mark.parametrize(
  'config',
  [
    losses.LossConfig(
      entropy_weight=0.3, kl_weight=0.7, off_policy='truncated', llds=True
    ),
    losses.LossConfig(
      surrogate='likelihood', aggregation='segment_mean', entropy_weight=0.3
    ),
    losses.LossConfig(ratio='sequence', entropy_weight=0.3, off_policy='band'),
  ],
  ids=['clipped', 'likelihood', 'sequence'],
)
def test_no_gradient_reaches_what_the_world_said(world, rollouts, config):
  """Hidden state t makes the logits of token t + 1: all of it is disturbed."""
  batch = packing.pack(rollouts[1.0], length=LENGTH, multiple=8)
  rng = np.random.default_rng(0)
  noise_NL = rng.normal(size=batch.sampled.shape).astype(np.float32)
  targets = types.Targets(
    advantage=noise_NL,
    old_logps=batch.sampler_logps,
    ref_logps=batch.sampler_logps - 0.5,
    weight=np.ones_like(noise_NL),  # masks are not what saves a given token
  )
  counts = aggregation.count(batch, targets)
  hidden_NLD = world.model.apply(
    world.params, batch.tokens, batch.positions, batch.segment_ids
  )

  @jax.jit
  @jax.grad
  def gradient(shift_NLD):
    scores = logps.token_logps(
      hidden_NLD + shift_NLD,
      world.model.unembedding(world.params),
      batch.tokens,
      chunk=32,
    )
    return losses.make_loss(config)(*scores, batch, targets, counts)[0]

  moved_NL = np.asarray(gradient(jnp.zeros_like(hidden_NLD))).any(axis=-1)
  sampled_next_NL = np.roll(batch.sampled, -1, axis=1)
  assert sampled_next_NL.sum() > 60
  np.testing.assert_array_equal(moved_NL, sampled_next_NL)


def test_numbers_at_given_tokens_are_never_read(rollouts):
  batch = packing.pack(rollouts[1.0], length=LENGTH, multiple=8)
  targets = types.Targets(
    *(np.where(batch.sampled, 1.0, 0.0).astype(np.float32) for _ in range(4))
  )
  rng = np.random.default_rng(1)
  scores = rng.normal(-1, 0.2, size=(2, *batch.sampled.shape))
  scores = scores.astype(np.float32)
  spoilt = np.where(batch.sampled, scores, -1e9).astype(np.float32)
  counts = aggregation.count(batch, targets)
  assert counts.tokens == batch.sampled.sum()  # 10 + 90 tokens count 10
  loss = losses.make_loss(losses.LossConfig(entropy_weight=0.3, llds=True))
  one = loss(*map(jnp.asarray, scores), batch, targets, counts)
  other = loss(*map(jnp.asarray, spoilt), batch, targets, counts)
  jax.tree.map(np.testing.assert_array_equal, one, other)


def test_every_record_is_whole(rollouts):
  for trajectory in flat(rollouts[1.0]):
    (row,) = trajectory.rows
    assert (
      len(row.tokens) == len(row.sampled) == len(row.logps) == len(row.turn_id)
    )
    assert (row.logps[row.sampled] < 0).all()
    assert not row.logps[~row.sampled].any()
    for t, turn in enumerate(trajectory.turns):
      span = slice(turn.span.start, turn.span.stop)
      np.testing.assert_array_equal(row.turn_id == t, _inside(row, span))
    np.testing.assert_array_equal(row.sampled, row.turn_id >= 0)


def _inside(row, span):
  inside = np.zeros(len(row.tokens), bool)
  inside[span] = True
  return inside
