# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Sums over runs of equal keys in packed rows: segments, and turns in them.

    segment_ids  1 1 1 1 1 2 2 2 0
    turn_id      - 0 0 - 1 - 0 0 -
    runs(seg)    0 0 0 0 0 1 1 1 2
    runs(both)   0 1 1 2 3 4 5 5 6

Segments are contiguous, and so are the sampled tokens of a turn: numbering
their runs needs no bound on the ids themselves, and a sum over runs costs
O(L) a row. Two turns of two segments of one row stay apart although both may
be turn 0.
"""

import chex
import jax
import jax.numpy as jnp


def runs(*keys_NL):
  """Numbers the runs of equal key tuples within each row, from 0.

  Args:
    *keys_NL: integer arrays of one shape `[N, L]`.

  Returns:
    Run numbers `[N, L]` int32, rising by one where any key changes.
  """
  chex.assert_rank(list(keys_NL), 2)
  chex.assert_equal_shape(keys_NL)
  changes_NL = jnp.zeros(keys_NL[0].shape, jnp.int32)
  for key_NL in keys_NL:
    differs_NL = key_NL[:, 1:] != key_NL[:, :-1]
    changes_NL = changes_NL.at[:, 1:].max(differs_NL.astype(jnp.int32))
  return jnp.cumsum(changes_NL, axis=1)


def totals(value_NL, run_NL):
  """Gives every token the sum of `value` over its run.

  Args:
    value_NL: finite values; tokens that do not count must hold 0.
    run_NL: run numbers from `runs`.

  Returns:
    Sums `[N, L]`.
  """
  chex.assert_rank(value_NL, 2)
  chex.assert_equal_shape([value_NL, run_NL])

  def row(value_L, run_L):
    sums_L = jax.ops.segment_sum(
      value_L, run_L, num_segments=value_L.shape[0], indices_are_sorted=True
    )
    return sums_L[run_L]

  return jax.vmap(row)(value_NL, run_NL)
