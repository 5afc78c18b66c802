# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Estimates of KL(learner || reference) from one sampled token each.

d = ref - logps, clamped to +-20 (Schulman, "Approximating KL divergence"):

    d = .5     k1 = -d = -.5    k2 = d^2 / 2 = .125
               k3 = exp(d) - d - 1 = .1487, itself clamped to +-10

The clamps are those of the field's "low_var_kl"; a token beyond them has no
gradient. k1 and k3 are unbiased, k2 and k3 never negative. As a loss k1
teaches nothing in expectation (its gradient is that of logps alone): it is
there to be measured, or to be part of a reward. All arrays `[N, L]`.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

_MAX_DIFFERENCE = 20.0
_MAX_K3 = 10.0

# (logps_NL, ref_logps_NL) -> kl_NL
Kl = Callable[[jax.Array, jax.Array], jax.Array]


def _difference(logps_NL, ref_logps_NL):
  chex.assert_equal_shape([logps_NL, ref_logps_NL])
  difference_NL = ref_logps_NL - logps_NL
  return jnp.clip(difference_NL, -_MAX_DIFFERENCE, _MAX_DIFFERENCE)


def none(logps_NL, ref_logps_NL):
  """No KL: 0 everywhere."""
  chex.assert_equal_shape([logps_NL, ref_logps_NL])
  return jnp.zeros_like(logps_NL)


def k1(logps_NL, ref_logps_NL):
  """-d: unbiased, of either sign."""
  return -_difference(logps_NL, ref_logps_NL)


def k2(logps_NL, ref_logps_NL):
  """d^2 / 2: biased, with the gradient of the KL in expectation."""
  return jnp.square(_difference(logps_NL, ref_logps_NL)) / 2


def k3(logps_NL, ref_logps_NL):
  """exp(d) - d - 1: unbiased, never negative, low variance."""
  difference_NL = _difference(logps_NL, ref_logps_NL)
  k3_NL = jnp.expm1(difference_NL) - difference_NL
  return jnp.clip(k3_NL, -_MAX_K3, _MAX_K3)
