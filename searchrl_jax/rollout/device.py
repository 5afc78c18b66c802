# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The three programs of a rollout: prefill, extend, decode. Pure functions.

Between calls a row's cache holds every token of its conversation, sampled and
given alike, and `hidden` is the state after the last of them:

  prefill   [ prompt ]                       once per question, then G rows
  decode    [ prompt | turn 0 ]              up to T tokens in one call
  extend    [ prompt | turn 0 | reply 0 ]    rows append unequal counts
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from searchrl_jax import sharding
from searchrl_jax.models import cache as caches
from searchrl_jax.rollout import sampling as sampler
from searchrl_jax.rollout import stops
from searchrl_jax.types import Sampling


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rows:
  """R living conversations."""

  cache: Any
  hidden: Any  # [R, D] after the last token of each row


# Rows come first in every array and are split as those of a training batch;
# devices along the axis 'tensor' decode the same rows.
ROWS = sharding.ROWS


class Drawn(NamedTuple):
  """The sampled tokens of one turn of every row, right-padded."""

  tokens: Any  # [R, T] int32
  logps: Any  # [R, T] float32
  count: Any  # [R] int32, tokens drawn
  stopped: Any  # [R] bool: by a stop string or EOS, not by the budget


def _last(hidden_RTD, count_R):
  """The hidden state of each row's last valid column."""
  index_R11 = jnp.maximum(count_R - 1, 0)[:, None, None]
  return jnp.take_along_axis(hidden_RTD, index_R11, axis=1)[:, 0]


def prefill(model, params, tokens_BT, count_B, *, group: int, capacity: int):
  """Runs each prompt once and shares its cache with its `group` rows."""
  cache = model.empty_cache(tokens_BT.shape[0], capacity)
  hidden_BTD, cache = model.apply_cached(params, tokens_BT, count_B, cache)
  hidden_BD = _last(hidden_BTD, count_B)
  return Rows(caches.repeat(cache, group), jnp.repeat(hidden_BD, group, axis=0))


def extend(model, params, rows: Rows, tokens_RT, count_R, keep_R) -> Rows:
  """Appends given tokens; a row with count 0 stays as it is.

  Args:
    keep_R: tokens to keep of each row before appending: its length, or 0
      where the context is rebuilt.
  """
  cache = caches.truncate(rows.cache, keep_R)
  hidden_RTD, cache = model.apply_cached(params, tokens_RT, count_R, cache)
  hidden_RD = jnp.where(
    (count_R > 0)[:, None], _last(hidden_RTD, count_R), rows.hidden
  )
  return Rows(cache, hidden_RD)


def decode(
  model,
  params,
  rows: Rows,
  key,
  question_R,
  rollout_R,
  turn_R,
  budget_R,
  stop_table,
  *,
  length: int,
  sampling: Sampling,
) -> tuple[Rows, Drawn]:
  """Samples one turn of every row, until all have stopped.

  Args:
    model: pure functions of `models.decoder`.
    params: as `model.unstack` returns them.
    rows: the conversations so far.
    key: of the run's seed, the purpose and the step.
    question_R, rollout_R, turn_R: see `sampling.row_keys`.
    budget_R: tokens this row may draw at most; 0 for a row that rests.
    stop_table: [states, V], see `stops.compile_stops`.
    length: T, the largest budget; static.
    sampling: how to draw; static.
  """
  keys_R = sampler.row_keys(key, question_R, rollout_R, turn_R)
  head_VD = model.unembedding(params)
  size = budget_R.shape[0]

  def running(carry):
    step, _, _, state_R, _ = carry
    return jnp.any((state_R != stops.STOPPED) & (step < budget_R))

  def body(carry):
    step, cache, hidden_RD, state_R, drawn = carry
    active_R = (state_R != stops.STOPPED) & (step < budget_R)
    logits_RV = jnp.einsum(
      'vd,rd->rv', head_VD, hidden_RD, preferred_element_type=jnp.float32
    )
    tokens_R, logps_R = sampler.sample(logits_RV, keys_R, step, sampling)
    hidden_R1D, cache = model.apply_cached(
      params, tokens_R[:, None], active_R.astype(jnp.int32), cache
    )
    state_R = jnp.where(active_R, stop_table[state_R, tokens_R], state_R)
    drawn = Drawn(
      drawn.tokens.at[:, step].set(jnp.where(active_R, tokens_R, 0)),
      drawn.logps.at[:, step].set(jnp.where(active_R, logps_R, 0.0)),
      drawn.count + active_R,
      state_R == stops.STOPPED,
    )
    hidden_RD = jnp.where(active_R[:, None], hidden_R1D[:, 0], hidden_RD)
    return step + 1, cache, hidden_RD, state_R, drawn

  empty = Drawn(
    jnp.zeros((size, length), jnp.int32),
    jnp.zeros((size, length), jnp.float32),
    jnp.zeros(size, jnp.int32),
    jnp.zeros(size, bool),
  )
  carry = (0, rows.cache, rows.hidden, jnp.ones(size, jnp.int32), empty)
  _, cache, hidden_RD, _, drawn = jax.lax.while_loop(running, body, carry)
  return Rows(cache, hidden_RD), drawn
