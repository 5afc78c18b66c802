# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""LLDS: holds up the likelihood of what a good trajectory said.

arXiv:2512.04220. Trained with plain GRPO, search agents collapse within a few
hundred steps: the likelihood of right and wrong responses alike decays, until
gradients explode. The regulariser acts only where that happens.
"""

import chex
import jax
import jax.numpy as jnp

from searchrl_jax import types
from searchrl_jax.training import segments


def likelihood_drop(
  logps_NL, old_logps_NL, advantage_NL, keep_NL, batch: types.Batch
):
  """max(0, old - logps) on tokens of turns that became less likely.

  Active in segments whose mean token advantage is >= 0, on each turn with
  sum(old - logps) > 0 over its kept tokens:

      turn          0    0  |  1    1
      old - logps   .3  -.1 |  .1  -.4      sums .2 and -.3
      term          .3   0  |  0    0

  Args:
    logps_NL: learner, with gradient.
    old_logps_NL: old policy.
    advantage_NL: the credit of each token.
    keep_NL: sampled tokens that count.
    batch: reads `segment_ids` and `turn_id`.

  Returns:
    Terms `[N, L]`, 0 where not active; the loss adds
    lambda * sum(weight * term) / sampled tokens of the update.
  """
  chex.assert_rank(logps_NL, 2)
  chex.assert_equal_shape(
    [logps_NL, old_logps_NL, advantage_NL, keep_NL, batch.turn_id]
  )
  drop_NL = jnp.where(keep_NL, old_logps_NL - logps_NL, 0.0)
  credit_NL = jnp.where(keep_NL, advantage_NL, 0.0)
  segment_NL = segments.runs(batch.segment_ids)
  turn_NL = segments.runs(batch.segment_ids, batch.turn_id)
  good_NL = segments.totals(credit_NL, segment_NL) >= 0
  fell_NL = segments.totals(jax.lax.stop_gradient(drop_NL), turn_NL) > 0
  active_NL = keep_NL & good_NL & fell_NL & (drop_NL > 0)
  return jnp.where(active_NL, drop_NL, 0.0)
