# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The three programs of a rollout: extend, copy, decode. Pure functions.

Between calls a row's cache holds every token of its conversation, sampled and
given alike, and `hidden` is the state after the last of them:

  extend   [ prompt ]                       some rows, unequal counts
  copy     [ prompt ] [ prompt ]            what rollouts of a question share
  decode   [ prompt | turn 0 ]              W of all rows, a token at a time
  extend   [ prompt | turn 0 | reply 0 ]

Every program works on the rows that it is told and leaves the others as they
are. A row number that is none stands for padding: it is never written.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from searchrl_jax import sharding
from searchrl_jax.models import cache as caches
from searchrl_jax.rollout import sampling as sampler
from searchrl_jax.rollout import stops
from searchrl_jax.rollout.sampling import Draws


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rows:
  """R living conversations."""

  cache: caches.Cache
  hidden: Any  # [R, D] after the last token of each row


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lanes:
  """W rows that decode together, and how far each is in its turn.

  A lane of budget 0 is padding.
  """

  row: Any  # [W] int32, of `Rows`; each once
  question: Any  # [W] uint32, see `sampling.row_keys`
  rollout: Any  # [W] uint32
  turn: Any  # [W] uint32
  position: Any  # [W] int32, tokens of this turn that are drawn already
  state: Any  # [W] int32, of the stop automaton after them
  budget: Any  # [W] int32, tokens that may still be drawn
  draws: Draws  # how


# Rows and lanes come first in every array and are split as the rows of a
# training batch; devices along the axis 'tensor' decode the same rows.
ROWS = sharding.ROWS


class Drawn(NamedTuple):
  """What W lanes drew in one call, right-padded."""

  tokens: Any  # [W, T] int32
  logps: Any  # [W, T] float32
  count: Any  # [W] int32, tokens drawn
  state: Any  # [W] int32; `stops.STOPPED` by a stop string or EOS


def empty(model, rows: int, capacity: int) -> Rows:
  """R rows without tokens."""
  cache = model.empty_cache(rows, capacity)
  hidden = jnp.zeros((rows, model.config.width), model.config.compute_dtype)
  return Rows(cache, hidden)


def extend(model, params, rows: Rows, row_A, tokens_AT, count_A, keep_A):
  """Appends given tokens to some rows; one with count 0 stays as it is.

  Args:
    model: pure functions of `models.decoder`.
    params: as `model.unstack` returns them.
    rows: all of them.
    row_A: whom to append to, each once.
    tokens_AT, count_A: the tokens, right-padded.
    keep_A: tokens of each row to keep before; the rest is forgotten.
  """
  cache = dataclasses.replace(
    rows.cache, length_R=rows.cache.length_R.at[row_A].min(keep_A, mode='drop')
  )
  hidden_ATD, cache = model.apply_cached(
    params, tokens_AT, count_A, cache, row_A
  )
  last_A11 = jnp.maximum(count_A - 1, 0)[:, None, None]
  hidden_AD = jnp.take_along_axis(hidden_ATD, last_A11, axis=1)[:, 0]
  written_A = jnp.where(count_A > 0, row_A, rows.hidden.shape[0])
  hidden = rows.hidden.at[written_A].set(hidden_AD, mode='drop')
  return Rows(cache, hidden)


def copy(rows: Rows, source_A, target_A) -> Rows:
  """Copies whole rows onto others; a target that is none is left out."""
  hidden = rows.hidden.at[target_A].set(
    rows.hidden.at[source_A].get(mode='clip'), mode='drop'
  )
  part = caches.take(rows.cache, source_A)
  return Rows(caches.put(rows.cache, target_A, part), hidden)


def decode(
  model,
  params,
  rows: Rows,
  key,
  lanes: Lanes,
  empty,
  patience,
  stop_table,
  *,
  steps: int,
  truncated: bool,
) -> tuple[Rows, Drawn]:
  """Draws tokens for W rows until it is worth while to look up.

  That is when all have ended their turns, after `steps`, or when lanes that
  draw nothing have cost as much as looking up does: each step counts those
  that ended in this call and those that were empty from the start.

  Args:
    model, params, rows: as in `extend`.
    key: of the run's seed, the purpose and the step.
    lanes: who draws.
    empty: lanes for rows that still wait for their tools.
    patience: idle steps of a lane to put up with, all lanes together.
    stop_table: [states, V], see `stops.compile_stops`.
    steps: T, tokens of a lane at most; static.
    truncated: whether any lane draws with top-k or top-p; static.
  """
  keys_W = sampler.row_keys(key, lanes.question, lanes.rollout, lanes.turn)
  head_VD = model.unembedding(params)
  size = lanes.row.shape[0]
  # Where nothing is done in place, rows are gathered once per call.
  cache, row_W = rows.cache, lanes.row
  if not model.in_place:
    cache, row_W = caches.take(rows.cache, lanes.row), None

  def speaking(state_W, step):
    return (state_W != stops.STOPPED) & (step < lanes.budget)

  began_W = speaking(lanes.state, 0)

  def running(carry):
    step, idle, _, _, state_W, _ = carry
    active = speaking(state_W, step).any()
    return active & (step < steps) & (idle < patience)

  def body(carry):
    step, idle, cache, hidden_WD, state_W, drawn = carry
    active_W = speaking(state_W, step)
    logits_WV = jnp.einsum(
      'vd,wd->wv', head_VD, hidden_WD, preferred_element_type=jnp.float32
    )
    tokens_W, logps_W = sampler.sample(
      logits_WV, keys_W, lanes.position + step, lanes.draws, truncated
    )
    hidden_W1D, cache = model.apply_cached(
      params, tokens_W[:, None], active_W.astype(jnp.int32), cache, row_W
    )
    state_W = jnp.where(active_W, stop_table[state_W, tokens_W], state_W)
    drawn = Drawn(
      drawn.tokens.at[:, step].set(jnp.where(active_W, tokens_W, 0)),
      drawn.logps.at[:, step].set(jnp.where(active_W, logps_W, 0.0)),
      drawn.count + active_W,
      state_W,
    )
    hidden_WD = jnp.where(active_W[:, None], hidden_W1D[:, 0], hidden_WD)
    ended = (began_W & ~speaking(state_W, step + 1)).sum()
    return step + 1, idle + ended + empty, cache, hidden_WD, state_W, drawn

  drawn = Drawn(
    jnp.zeros((size, steps), jnp.int32),
    jnp.zeros((size, steps), jnp.float32),
    jnp.zeros(size, jnp.int32),
    lanes.state,
  )
  hidden_WD = rows.hidden.at[lanes.row].get(mode='clip')
  carry = (0, 0, cache, hidden_WD, lanes.state, drawn)
  carry = jax.lax.while_loop(running, body, carry)
  _, _, cache, hidden_WD, _, drawn = carry
  if not model.in_place:
    cache = caches.put(rows.cache, lanes.row, cache)
  hidden = rows.hidden.at[lanes.row].set(hidden_WD, mode='drop')
  return Rows(cache, hidden), drawn
