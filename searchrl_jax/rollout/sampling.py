# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Draws tokens, one key per row."""

import dataclasses
import zlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from searchrl_jax.types import Question, Sampling

# A float32 below 1 whose product with any mass is below that mass.
_BELOW_ONE = 1 - 2**-23


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Draws:
  """A `Sampling` for each row: rows of one batch may be drawn differently."""

  temperature: Any  # [R] float32, 0 is greedy
  top_k: Any  # [R] int32, 0 is off
  top_p: Any  # [R] float32, 1 is off

  @classmethod
  def of(cls, samplings: Sequence[Sampling]) -> 'Draws':
    return cls(
      np.array([s.temperature for s in samplings], np.float32),
      np.array([s.top_k for s in samplings], np.int32),
      np.array([s.top_p for s in samplings], np.float32),
    )


def truncates(sampling: Sampling) -> bool:
  """Whether unlikely tokens are left out."""
  return sampling.top_k > 0 or sampling.top_p < 1


def question_hash(question: Question, aside: int = 0) -> int:
  """A stable 32-bit number of a question, for deriving keys.

  Its n-th request to the policy itself within a turn has a number of its own.
  """
  name = f'{question.id}\0{aside}' if aside else question.id
  return zlib.crc32(name.encode())


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


def _keep_likely(logps_RV, draws: Draws):
  """Sets log-probs outside top-k and top-p to -inf; ties at the edge stay."""
  sorted_RV = -jnp.sort(-logps_RV, axis=-1)
  size = logps_RV.shape[-1]
  count_R = jnp.where(draws.top_k > 0, jnp.minimum(draws.top_k, size), size)
  kth_R1 = jnp.take_along_axis(sorted_RV, count_R[:, None] - 1, axis=-1)
  sorted_RV = jnp.where(sorted_RV < kth_R1, -jnp.inf, sorted_RV)
  # Kept: every token before which less than top_p of the mass lies.
  probs_RV = jax.nn.softmax(sorted_RV, axis=-1)
  before_RV = jnp.cumsum(probs_RV, axis=-1) - probs_RV
  kept_RV = (before_RV < draws.top_p[:, None]) | (draws.top_p >= 1)[:, None]
  least_R1 = jnp.where(kept_RV, sorted_RV, jnp.inf).min(-1, keepdims=True)
  return jnp.where(logps_RV < jnp.maximum(least_R1, kth_R1), -jnp.inf, logps_RV)


def sample(logits_RV, keys_R, position_R, draws: Draws, truncated: bool):
  """Draws one token a row.

  Greedy at temperature 0. Otherwise by inverting the cumulative distribution
  with one uniform number a row: V times fewer random bits than Gumbel noise.

  Args:
    logits_RV: of the next token, float32.
    keys_R: one key per row and turn.
    position_R: number of the token within its turn, folded into the keys.
    draws: how to draw.
    truncated: whether any row has top-k or top-p; static, a sort is slow.

  Returns:
    tokens_R and logps_R. The log-prob is that of the tempered distribution
    before any truncation by top-k or top-p (at temperature 0 that of
    temperature 1), so that it compares with the learner's.
  """
  greedy_R = draws.temperature == 0
  temperature_R = jnp.where(greedy_R, 1.0, draws.temperature)
  logps_RV = jax.nn.log_softmax(logits_RV / temperature_R[:, None], axis=-1)

  def likeliest():
    return jnp.argmax(logps_RV, axis=-1).astype(jnp.int32)

  def drawn():
    return _invert(logps_RV, keys_R, position_R, draws, truncated)

  def either():
    return jnp.where(greedy_R, likeliest(), drawn())

  tokens_R = jax.lax.switch(
    greedy_R.any().astype(jnp.int32) + greedy_R.all(),
    (drawn, either, likeliest),
  )
  logps_R = jnp.take_along_axis(logps_RV, tokens_R[:, None], axis=-1)[:, 0]
  return tokens_R, logps_R


def _invert(logps_RV, keys_R, position_R, draws, truncated):
  """The token at which the running sum of probabilities passes a number."""
  if truncated:
    logps_RV = _keep_likely(logps_RV, draws)
  probs_RV = jax.nn.softmax(logps_RV, axis=-1)
  mass_RV = jnp.cumsum(probs_RV, axis=-1)
  uniform_R = jax.vmap(
    lambda key, position: jax.random.uniform(jax.random.fold_in(key, position))
  )(keys_R, position_R)
  # Strictly below the total, so that some token always lies above it; a token
  # of probability 0 adds nothing to the mass and is never the first.
  threshold_R = uniform_R * mass_RV[:, -1] * _BELOW_ONE
  tokens_R = jnp.argmax(mass_RV > threshold_R[:, None], axis=-1)
  return tokens_R.astype(jnp.int32)
