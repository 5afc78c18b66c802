# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Draws tokens, one key per row."""

import zlib

import jax
import jax.numpy as jnp

from searchrl_jax.types import Question, Sampling

# A float32 below 1 whose product with any mass is below that mass.
_BELOW_ONE = 1 - 2**-23


def question_hash(question: Question) -> int:
  """A stable 32-bit number of a question, for deriving keys."""
  return zlib.crc32(question.id.encode())


def row_keys(key, question_R, rollout_R, turn_R):
  """A key for every row's turn, whatever the row's place in the batch.

  Args:
    key: of the run's seed, the purpose and the step.
    question_R: `question_hash` of each row's question, uint32.
    rollout_R: the rollout index of each row, uint32.
    turn_R: the turn about to be sampled, uint32.
  """

  def one(question, rollout, turn):
    row = jax.random.fold_in(key, question)
    return jax.random.fold_in(jax.random.fold_in(row, rollout), turn)

  return jax.vmap(one)(question_R, rollout_R, turn_R)


def _keep_likely(logits_RV, sampling: Sampling):
  """Sets logits outside top-k and top-p to -inf; ties at the edge stay."""
  if sampling.top_k:
    count = min(sampling.top_k, logits_RV.shape[-1])
    kth_R1 = jax.lax.top_k(logits_RV, count)[0][:, -1:]
    logits_RV = jnp.where(logits_RV < kth_R1, -jnp.inf, logits_RV)
  if sampling.top_p < 1:
    sorted_RV = -jnp.sort(-logits_RV, axis=-1)
    mass_RV = jnp.cumsum(jax.nn.softmax(sorted_RV, axis=-1), axis=-1)
    # Kept: every token before which less than top_p of the mass lies.
    before_RV = mass_RV - jax.nn.softmax(sorted_RV, axis=-1)
    kept_RV = jnp.where(before_RV < sampling.top_p, sorted_RV, jnp.inf)
    least_R1 = kept_RV.min(axis=-1, keepdims=True)
    logits_RV = jnp.where(logits_RV < least_R1, -jnp.inf, logits_RV)
  return logits_RV


def sample(logits_RV, keys_R, position, sampling: Sampling):
  """Draws one token a row.

  Greedy at temperature 0. Otherwise by inverting the cumulative distribution
  with one uniform number a row: V times fewer random bits than Gumbel noise.

  Args:
    logits_RV: of the next token, float32.
    keys_R: one key per row and turn.
    position: number of the token within its turn, folded into the keys.
    sampling: how to draw; static.

  Returns:
    tokens_R and logps_R. The log-prob is that of the tempered distribution
    before any truncation by top-k or top-p (at temperature 0 that of
    temperature 1), so that it compares with the learner's.
  """
  temperature = sampling.temperature or 1.0
  logps_RV = jax.nn.log_softmax(logits_RV / temperature, axis=-1)
  if sampling.temperature == 0:
    tokens_R = jnp.argmax(logps_RV, axis=-1).astype(jnp.int32)
  else:
    probs_RV = jax.nn.softmax(_keep_likely(logps_RV, sampling), axis=-1)
    mass_RV = jnp.cumsum(probs_RV, axis=-1)
    uniform_R = jax.vmap(
      lambda key: jax.random.uniform(jax.random.fold_in(key, position))
    )(keys_R)
    # Strictly below the total, so that some token always lies above it; a
    # token of probability 0 adds nothing to the mass and is never the first.
    threshold_R = uniform_R * mass_RV[:, -1] * _BELOW_ONE
    tokens_R = jnp.argmax(mass_RV > threshold_R[:, None], axis=-1).astype(
      jnp.int32
    )
  logps_R = jnp.take_along_axis(logps_RV, tokens_R[:, None], axis=-1)[:, 0]
  return tokens_R, logps_R
