# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The three programs of `benchmarks.lock_step`. Pure functions.

Between calls a row's cache holds every token of its conversation, sampled and
given alike, and `hidden` is the state after the last of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from searchrl_jax.models import cache as caches
from searchrl_jax.rollout import sampling as sampler
from searchrl_jax.rollout import stops
from searchrl_jax.types import Sampling


class Rows(NamedTuple):
  """R conversations."""

  cache: Any
  hidden: Any  # [R, D]


class Drawn(NamedTuple):
  """One turn of every row, right-padded."""

  tokens: Any  # [R, T] int32
  logps: Any  # [R, T] float32
  count: Any  # [R] int32, tokens drawn
  stopped: Any  # [R] bool: by a stop string or EOS, not by the budget


def _last(hidden_RTD, count_R):
  index_R11 = jnp.maximum(count_R - 1, 0)[:, None, None]
  return jnp.take_along_axis(hidden_RTD, index_R11, axis=1)[:, 0]


def prefill(model, params, tokens_BT, count_B, *, group, capacity):
  """Reads each context once and shares its cache with `group` rows."""
  cache = model.empty_cache(tokens_BT.shape[0], capacity)
  hidden_BTD, cache = model.apply_cached(params, tokens_BT, count_B, cache)
  hidden_BD = _last(hidden_BTD, count_B)
  if group == 1:
    return Rows(cache, hidden_BD)
  hidden_RD = jnp.repeat(hidden_BD, group, axis=0)
  return Rows(caches.repeat(cache, group), hidden_RD)


def extend(model, params, rows, tokens_RT, count_R, keep_R):
  """Forgets what lies beyond `keep` and appends; count 0 changes nothing."""
  cache = caches.truncate(rows.cache, keep_R)
  hidden_RTD, cache = model.apply_cached(params, tokens_RT, count_R, cache)
  fresh_R1 = (count_R > 0)[:, None]
  return Rows(
    cache, jnp.where(fresh_R1, _last(hidden_RTD, count_R), rows.hidden)
  )


def decode(
  model,
  params,
  rows,
  key,
  question_R,
  rollout_R,
  turn_R,
  budget_R,
  stop_table,
  *,
  length: int,
  sampling: Sampling,
):
  """Samples one turn of every row, until all have stopped."""
  keys_R = sampler.row_keys(key, question_R, rollout_R, turn_R)
  head_VD = model.unembedding(params)
  size = budget_R.shape[0]
  draws = sampler.Draws.of([sampling] * size)
  truncated = sampler.truncates(sampling)

  def active(step, state_R):
    return (state_R != stops.STOPPED) & (step < budget_R)

  def running(carry):
    step, _, state_R, _ = carry
    return jnp.any(active(step, state_R))

  def body(carry):
    step, rows, state_R, drawn = carry
    active_R = active(step, state_R)
    logits_RV = jnp.einsum(
      'vd,rd->rv', head_VD, rows.hidden, preferred_element_type=jnp.float32
    )
    tokens_R, logps_R = sampler.sample(
      logits_RV, keys_R, jnp.full(size, step), draws, truncated
    )
    hidden_R1D, cache = model.apply_cached(
      params, tokens_R[:, None], active_R.astype(jnp.int32), rows.cache
    )
    state_R = jnp.where(active_R, stop_table[state_R, tokens_R], state_R)
    drawn = Drawn(
      drawn.tokens.at[:, step].set(jnp.where(active_R, tokens_R, 0)),
      drawn.logps.at[:, step].set(jnp.where(active_R, logps_R, 0.0)),
      drawn.count + active_R,
      state_R == stops.STOPPED,
    )
    hidden_RD = jnp.where(active_R[:, None], hidden_R1D[:, 0], rows.hidden)
    return step + 1, Rows(cache, hidden_RD), state_R, drawn

  empty = Drawn(
    jnp.zeros((size, length), jnp.int32),
    jnp.zeros((size, length), jnp.float32),
    jnp.zeros(size, jnp.int32),
    jnp.zeros(size, bool),
  )
  carry = (0, rows, jnp.ones(size, jnp.int32), empty)
  _, rows, _, drawn = jax.lax.while_loop(running, body, carry)
  return rows, drawn
