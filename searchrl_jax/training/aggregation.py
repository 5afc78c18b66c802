# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""From terms of tokens to one number: denominators that do not depend on
how a batch is split.

An aggregation gives every token a coefficient; a loss is the sum of
coefficient * term. All denominators are global, counted once per update over
every micro-batch and device, so partial losses simply add up. With lengths 1
and 3, advantages +1 and -1, ratio 1 (terms -1 | 1 1 1):

    token mean              (-1 + 3) / 4        =  .5
    mean of segment means   (-1 + 1) / 2        = 0
    constant length 3       (-1 + 3) / (2 * 3)  =  .3333
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp

from searchrl_jax import types
from searchrl_jax.training import segments


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Counts:
  """Denominators of an update; those of micro-batches are added field-wise.

  A segment with no token of positive weight is not counted.
  """

  tokens: Any  # [] float32, sum of the weights of sampled tokens
  segments: Any  # [] float32, sum over segments of their mean positive weight


# (weight_NL, segment_ids_NL, counts) -> coefficient_NL
Aggregation = Callable[[jax.Array, jax.Array, Counts], jax.Array]


def kept_weight(batch: types.Batch, targets: types.Targets):
  """The weight of each token: 0 where given, padded, or weighted away."""
  chex.assert_rank(batch.sampled, 2)
  chex.assert_equal_shape([batch.sampled, targets.weight])
  keep_NL = batch.sampled & (targets.weight > 0)
  return jnp.where(keep_NL, targets.weight, 0.0).astype(jnp.float32)


def _divide(value, total):
  """value / total, and 0 where the total is 0."""
  return jnp.where(total > 0, value / jnp.where(total > 0, total, 1.0), 0.0)


def _within_segment(weight_NL, segment_ids_NL):
  """Weights divided by the number of weighted tokens of their segment."""
  kept_NL = (weight_NL > 0).astype(jnp.float32)
  size_NL = segments.totals(kept_NL, segments.runs(segment_ids_NL))
  return _divide(weight_NL, size_NL)


def count(batch: types.Batch, targets: types.Targets) -> Counts:
  """Counts what a (micro-)batch adds to the denominators of its update.

  Args:
    batch: packed rows; a segment is never split across rows.
    targets: `weight` scales a token's share; 0 removes it.

  Returns:
    Counts; add those of all micro-batches and devices before use.
  """
  weight_NL = kept_weight(batch, targets)
  share_NL = _within_segment(weight_NL, batch.segment_ids)
  return Counts(tokens=weight_NL.sum(), segments=share_NL.sum())


def token_mean(weight_NL, segment_ids_NL, counts: Counts):
  """Every sampled token counts alike (DAPO, arXiv:2503.14476, eq. 8)."""
  chex.assert_equal_shape([weight_NL, segment_ids_NL])
  return _divide(weight_NL, counts.tokens)


def segment_mean(weight_NL, segment_ids_NL, counts: Counts):
  """Every segment counts alike (GRPO, arXiv:2402.03300, eq. 3)."""
  chex.assert_equal_shape([weight_NL, segment_ids_NL])
  share_NL = _within_segment(weight_NL, segment_ids_NL)
  return _divide(share_NL, counts.segments)


def constant_length(weight_NL, segment_ids_NL, counts: Counts, *, length):
  """Sum over tokens / (segments * length) (Dr. GRPO, arXiv:2503.20783).

  Args:
    weight_NL: kept weights.
    segment_ids_NL: not read; a constant removes the bias by length.
    counts: global denominators.
    length: the constant, in tokens; usually the response budget.

  Returns:
    Coefficients `[N, L]`.
  """
  chex.assert_equal_shape([weight_NL, segment_ids_NL])
  return _divide(weight_NL, counts.segments * length)
