# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a token's advantage asks of its log-prob. All arrays `[N, L]`."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

# (ratio_NL, logps_NL, advantage_NL) -> loss_NL
Surrogate = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def clipped(ratio_NL, logps_NL, advantage_NL, *, low, high):
  """-min(r A, clip(r, 1 - low, 1 + high) A) (PPO, arXiv:1707.06347, eq. 7).

  Unequal sides are DAPO's "clip-higher" (arXiv:2503.14476), which is DAPO
  only together with dynamic sampling and the treatment of overlong
  trajectories.

      r = 1.5, A =  1, low .2, high .28  ->  -1.28
      r =  .5, A = -1                    ->    .8
      r = 1.5, A = -1                    ->   1.5   (the minimum: no clip)

  Args:
    ratio_NL: learner over old policy, with gradient.
    logps_NL: not read; the ratio carries the gradient.
    advantage_NL: the credit of each token.
    low: the ratio is clipped below 1 - low.
    high: the ratio is clipped above 1 + high.

  Returns:
    Loss terms `[N, L]`.
  """
  chex.assert_equal_shape([ratio_NL, logps_NL, advantage_NL])
  clipped_NL = jnp.clip(ratio_NL, 1.0 - low, 1.0 + high)
  return -jnp.minimum(ratio_NL * advantage_NL, clipped_NL * advantage_NL)


def likelihood(ratio_NL, logps_NL, advantage_NL):
  """-A logp: supervised learning is advantage 1 on an expert's tokens."""
  chex.assert_equal_shape([ratio_NL, logps_NL, advantage_NL])
  return -advantage_NL * logps_NL


def clip_events(ratio_NL, advantage_NL, *, low, high):
  """Where the clip of `clipped` is active, i.e. the token has no gradient.

  Args:
    ratio_NL: learner over old policy.
    advantage_NL: the credit of each token.
    low: as in `clipped`; inf where the surrogate does not clip.
    high: as in `clipped`; inf where the surrogate does not clip.

  Returns:
    (at the lower side, at the upper side), booleans `[N, L]`.
  """
  chex.assert_equal_shape([ratio_NL, advantage_NL])
  lower_NL = (ratio_NL < 1.0 - low) & (advantage_NL < 0)
  upper_NL = (ratio_NL > 1.0 + high) & (advantage_NL > 0)
  return lower_NL, upper_NL
