# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Ratios between learner, old policy and sampler."""

import jax
import jax.numpy as jnp
import numpy as np

from searchrl_jax.training import ratio

SEGMENTS = jnp.array([[1, 1, 1, 1, 2, 2, 0]])
KEEP = jnp.array([[1, 1, 0, 1, 0, 1, 0]], bool)
DIFFERENCE = jnp.array([[0.2, 0.0, 5.0, 0.4, 7.0, -0.3, 0.0]])
OLD = -jnp.ones(DIFFERENCE.shape)


def test_token_ratio():
  actual = ratio.token(DIFFERENCE + OLD, OLD, KEEP, SEGMENTS)
  np.testing.assert_allclose(actual, np.exp(DIFFERENCE), rtol=1e-5)


def test_sequence_ratio_is_one_per_segment_over_kept_tokens():
  # exp((.2 + 0 + .4) / 3) = exp(.2) = 1.2214; with the given token it would
  # be exp(5.6 / 4) = 4.06, without the division exp(.6) = 1.82.
  actual = ratio.sequence(DIFFERENCE + OLD, OLD, KEEP, SEGMENTS)
  kept = np.asarray(actual)[np.asarray(KEEP)]
  np.testing.assert_allclose(kept[:3], [1.2214] * 3, atol=5e-5)
  np.testing.assert_allclose(kept[3], np.exp(-0.3), rtol=1e-6)
  assert np.isfinite(actual).all()


def test_sequence_ratio_passes_the_gradient_straight_to_each_token():
  # d ratio_t / d logps_t = ratio_t, and nothing between tokens.
  jacobian = jax.jacobian(
    lambda logps: ratio.sequence(logps, OLD, KEEP, SEGMENTS)
  )(DIFFERENCE + OLD)[0, :, 0]
  kept = np.flatnonzero(KEEP[0])
  inside = np.asarray(jacobian)[np.ix_(kept, kept)]
  expected = np.diag(np.exp([0.2, 0.2, 0.2, -0.3]))
  np.testing.assert_allclose(inside, expected, rtol=1e-5)


def test_the_sum_of_terms_of_a_segment_has_gspos_gradient():
  # Two roads: with one advantage per segment and the segment's mean, straight
  # through equals differentiating the shared ratio itself.
  logps = DIFFERENCE + OLD

  def straight(x):
    r = ratio.sequence(x, OLD, KEEP, SEGMENTS)
    return jnp.where(KEEP, r, 0.0)[0, :4].sum() / 3

  def shared(x):
    return jnp.exp(jnp.where(KEEP, x - OLD, 0.0)[0, :4].sum() / 3)

  np.testing.assert_allclose(
    jax.grad(straight)(logps), jax.grad(shared)(logps), rtol=1e-5
  )


def test_hopeless_ratios_stay_finite():
  far = jnp.array([[500.0, -500.0]])
  ones = jnp.ones(far.shape, int)
  for function in (ratio.token, ratio.sequence):
    actual = function(far, 0 * far, ones == 1, ones)
    assert np.isfinite(actual).all()


def test_off_policy_weights():
  sampler = -jnp.ones((1, 5))
  old = sampler + jnp.log(jnp.array([[0.4, 0.6, 1.0, 1.9, 3.0]]))
  np.testing.assert_array_equal(ratio.on_policy(old, sampler), np.ones((1, 5)))
  np.testing.assert_allclose(
    ratio.truncated(old, sampler, limit=2.0), [[0.4, 0.6, 1, 1.9, 2]], rtol=1e-5
  )
  # Outside of the band a token is dropped, not clipped to its edge.
  np.testing.assert_allclose(
    ratio.band(old, sampler, low=0.5, high=2.0),
    [[0, 0.6, 1, 1.9, 0]],
    rtol=1e-5,
  )


def test_off_policy_weights_carry_no_gradient():
  sampler = -jnp.ones((1, 2))
  gradient = jax.grad(
    lambda old: (
      ratio.truncated(old, sampler, limit=2.0).sum()
      + ratio.band(old, sampler, low=0.5, high=2.0).sum()
    )
  )(sampler + 0.1)
  assert not gradient.any()
