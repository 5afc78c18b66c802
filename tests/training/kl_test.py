# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""KL estimates: by hand, at the clamps, and against the exact KL."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.training import kl


def at(function, difference):
  """The estimate where ref - logps is this."""
  zero = jnp.zeros((1, 1))
  return float(function(zero - difference, zero)[0, 0])


def test_worked_numbers():
  # d = .5: -d, d^2 / 2, e^.5 - .5 - 1. With the sign of d turned, k3 would
  # be e^-.5 + .5 - 1 = .1065.
  actual = [at(k, 0.5) for k in (kl.none, kl.k1, kl.k2, kl.k3)]
  np.testing.assert_allclose(actual, [0, -0.5, 0.125, 0.1487], atol=5e-5)


@pytest.mark.parametrize(
  ('function', 'expected'), [(kl.k1, -20), (kl.k2, 200), (kl.k3, 10)]
)
def test_clamps(function, expected):
  assert at(function, 1e4) == expected
  assert np.isfinite(at(function, -1e4))


def test_k3_keeps_small_differences():
  # exp(d) - d - 1 in float32 would lose d^2 / 2 = 5e-9 entirely.
  np.testing.assert_allclose(at(kl.k3, 1e-4), 5e-9, rtol=0.02)


def test_estimates_average_to_the_exact_kl():
  p = jnp.array([[0.5, 0.3, 0.2]])  # learner
  q = jnp.array([[0.2, 0.5, 0.3]])  # reference
  exact = (p * jnp.log(p / q)).sum()
  for function in (kl.k1, kl.k3):
    mean = (p * function(jnp.log(p), jnp.log(q))).sum()
    np.testing.assert_allclose(mean, exact, rtol=1e-5)


def test_as_a_loss_k2_has_the_kls_gradient_and_k1_has_none():
  logits = jnp.array([[0.5, -0.3, 0.2]])
  ref = jax.nn.log_softmax(jnp.array([[0.0, 0.5, -0.5]]))

  def sampled(x, function):  # expectation over tokens drawn by the learner
    logps = jax.nn.log_softmax(x)
    drawn = jax.lax.stop_gradient(jnp.exp(logps))
    return (drawn * function(logps, ref)).sum()

  def exact(x):
    logps = jax.nn.log_softmax(x)
    return (jnp.exp(logps) * (logps - ref)).sum()

  np.testing.assert_allclose(
    jax.grad(sampled)(logits, kl.k2), jax.grad(exact)(logits), atol=1e-6
  )
  np.testing.assert_allclose(
    jax.grad(sampled)(logits, kl.k1), jnp.zeros((1, 3)), atol=1e-6
  )
