# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""How much likelier the learner makes a token than an earlier policy did.

Three policies meet in an update: the *sampler* that drew the tokens, the
*old* policy (the learner before the first update on this batch), and the
learner itself. The ratios of this file compare learner with old; the weights
compare old with sampler, and carry no gradient.

All arrays `[N, L]`, float32; values at masked tokens must be finite (0).
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from searchrl_jax.training import segments

# exp(20) = 5e8: a log-ratio beyond it is a broken token, not information.
_MAX_LOG_RATIO = 20.0

# (logps_NL, old_logps_NL, keep_NL, segment_ids_NL) -> ratio_NL
Ratio = Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array]

# (old_logps_NL, sampler_logps_NL) -> weight_NL
OffPolicy = Callable[[jax.Array, jax.Array], jax.Array]


def _exp(log_ratio_NL):
  return jnp.exp(jnp.clip(log_ratio_NL, -_MAX_LOG_RATIO, _MAX_LOG_RATIO))


def token(logps_NL, old_logps_NL, keep_NL, segment_ids_NL):
  """r = exp(logps - old) of each token (PPO, arXiv:1707.06347)."""
  chex.assert_equal_shape([logps_NL, old_logps_NL, keep_NL, segment_ids_NL])
  return _exp(logps_NL - old_logps_NL)


def sequence(logps_NL, old_logps_NL, keep_NL, segment_ids_NL):
  """One ratio per segment, r = exp(mean(logps - old)) over its kept tokens.

  GSPO (arXiv:2507.18071), in its token form (eq. 14): the value is the
  segment's, the gradient of each token's ratio is r times that of its own
  log-prob, so that advantages may differ within a segment.

      logps - old   .2  0  .4     r = exp(.2) = 1.2214 at all three

  Args:
    logps_NL: learner.
    old_logps_NL: old policy.
    keep_NL: the tokens the mean runs over.
    segment_ids_NL: packed segments.

  Returns:
    Ratios `[N, L]`; arbitrary but finite where not kept.
  """
  chex.assert_equal_shape([logps_NL, old_logps_NL, keep_NL, segment_ids_NL])
  run_NL = segments.runs(segment_ids_NL)
  difference_NL = jnp.where(keep_NL, logps_NL - old_logps_NL, 0.0)
  size_NL = segments.totals(keep_NL.astype(jnp.float32), run_NL)
  mean_NL = segments.totals(difference_NL, run_NL) / jnp.maximum(size_NL, 1.0)
  # Straight through: adds exactly 0 to the value, 1 to the slope.
  slope_NL = logps_NL - jax.lax.stop_gradient(logps_NL)
  return _exp(jax.lax.stop_gradient(mean_NL) + slope_NL)


def on_policy(old_logps_NL, sampler_logps_NL):
  """Weight 1: the sampler's numbers are taken for the old policy's."""
  chex.assert_equal_shape([old_logps_NL, sampler_logps_NL])
  return jnp.ones_like(old_logps_NL)


def truncated(old_logps_NL, sampler_logps_NL, *, limit):
  """min(w, limit), w = exp(old - sampler) (TIS, published limit 2)."""
  chex.assert_equal_shape([old_logps_NL, sampler_logps_NL])
  weight_NL = _exp(old_logps_NL - sampler_logps_NL)
  return jax.lax.stop_gradient(jnp.minimum(weight_NL, limit))


def band(old_logps_NL, sampler_logps_NL, *, low, high):
  """w where low <= w <= high, else 0 (IcePop, published band .5 to 2)."""
  chex.assert_equal_shape([old_logps_NL, sampler_logps_NL])
  weight_NL = _exp(old_logps_NL - sampler_logps_NL)
  inside_NL = (weight_NL >= low) & (weight_NL <= high)
  return jax.lax.stop_gradient(jnp.where(inside_NL, weight_NL, 0.0))
