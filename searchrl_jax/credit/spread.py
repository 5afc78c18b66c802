# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The one place where numbers of turns become numbers of tokens, and back.

trajectory_id  3 3 3 3 3 3 | 4 4 4 | -      A[3] = [.9, .2]
turn_id        - 0 0 - - 1 | - 0 0 | -      A[4] = [-.5]
spread         0.9.9 0 0.2 | 0-.5-.5| 0
"""

import chex
import jax
import jax.numpy as jnp

from searchrl_jax import types


def _sampled(batch: types.Batch):
  """Tokens that belong to a turn of a trajectory."""
  chex.assert_rank(batch.sampled, 2)
  chex.assert_equal_shape([batch.sampled, batch.turn_id, batch.trajectory_id])
  return batch.sampled & (batch.turn_id >= 0) & (batch.trajectory_id >= 0)


def spread(advantage_BGS, batch: types.Batch):
  """Gives each sampled token the value of its turn, every other token 0.

  Args:
    advantage_BGS: any value per turn; the trajectory (b, g) of the batch has
      trajectory_id b * G + g.
    batch: packed rows `[N, L]`. A turn beyond S gets 0.

  Returns:
    Values `[N, L]`.
  """
  chex.assert_rank(advantage_BGS, 3)
  sampled_NL = _sampled(batch)
  turns = advantage_BGS.shape[-1]
  value_TS = jnp.asarray(advantage_BGS).reshape(-1, turns)
  trajectory_NL = jnp.where(sampled_NL, batch.trajectory_id, 0)
  turn_NL = jnp.where(sampled_NL, batch.turn_id, 0)
  value_NL = value_TS.at[trajectory_NL, turn_NL].get(
    mode='fill', fill_value=0.0
  )
  return jnp.where(sampled_NL, value_NL, 0.0)


def _turn_sums(value_NL, batch: types.Batch, shape):
  """Sums the sampled tokens of each turn into an array of that shape."""
  b, g, s = shape
  inside_NL = _sampled(batch) & (batch.turn_id < s)
  # Tokens of no turn go to one slot more than there are turns.
  slot_NL = jnp.where(
    inside_NL, batch.trajectory_id * s + batch.turn_id, b * g * s
  )
  value_NL = jnp.where(inside_NL, value_NL, 0.0)
  sums = jax.ops.segment_sum(
    value_NL.reshape(-1), slot_NL.reshape(-1), num_segments=b * g * s + 1
  )
  return sums[:-1].reshape(shape)


def tokens_of_turns(batch: types.Batch, shape):
  """Number of sampled tokens of every turn, float32 of `shape` = (B, G, S)."""
  return _turn_sums(jnp.ones(batch.sampled.shape), batch, shape)


def gather(value_NL, batch: types.Batch, shape):
  """The inverse mean of `spread`: per-turn means over sampled tokens.

  Args:
    value_NL: any value per token; read on sampled tokens only.
    batch: packed rows `[N, L]`.
    shape: (B, G, S), static.

  Returns:
    Means `[B, G, S]`, 0 for turns without tokens in this batch.
  """
  chex.assert_equal_shape([value_NL, batch.sampled])
  sum_BGS = _turn_sums(value_NL, batch, shape)
  return sum_BGS / jnp.maximum(tokens_of_turns(batch, shape), 1.0)


def token_weighted_mean(advantage_BGS, turn_BGS, batch: types.Batch):
  """Mean over a trajectory's chosen turns, each weighted by its tokens.

  Redistribution keeps the mean over *turns*. A loss that averages over tokens
  sees this mean instead, so a run logs how far the two lie apart.

      A_t     1.10   .40  1.10        mean over turns   .8660
      tokens    20    80    20        mean over tokens  .6348

  Args:
    advantage_BGS: per-turn advantages.
    turn_BGS: the turns to average over, for CW-GRPO the searches.
    batch: packed rows holding the trajectories' tokens.

  Returns:
    Means `[B, G]`, 0 where none of the chosen turns has a token.
  """
  chex.assert_rank(advantage_BGS, 3)
  chex.assert_equal_shape([advantage_BGS, turn_BGS])
  tokens_BGS = tokens_of_turns(batch, advantage_BGS.shape)
  tokens_BGS = jnp.where(turn_BGS, tokens_BGS, 0.0)
  advantage_BGS = jnp.where(tokens_BGS > 0, advantage_BGS, 0.0)
  total_BG = tokens_BGS.sum(axis=-1)
  return (advantage_BGS * tokens_BGS).sum(axis=-1) / jnp.maximum(total_BG, 1.0)
