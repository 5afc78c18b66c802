# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Norm and rotary positions in hand-worked numbers."""

import jax.numpy as jnp
import numpy as np

from searchrl_jax.models import block


def test_rms_norm_by_hand():
  # mean(3^2, 4^2) = 12.5, root 3.5355: .8485 and 1.1314, then scaled.
  x = jnp.array([[3.0, 4.0]])
  y = block.rms_norm(x, jnp.array([1.0, 10.0]), 1e-9)
  np.testing.assert_allclose(y, [[0.8485, 11.3137]], rtol=1e-4)


def test_rms_norm_of_bfloat16_is_computed_in_float32():
  # 1 + eps is not representable in bfloat16 for this eps; 100 of them are.
  x = jnp.full((1, 4), 0.01, jnp.bfloat16)
  y = block.rms_norm(x, jnp.ones(4), 1e-6)
  assert y.dtype == jnp.bfloat16
  expected = 0.01 / np.sqrt(1e-4 + 1e-6)  # .9950, not 1
  np.testing.assert_allclose(np.float32(y), expected, rtol=4e-3)


def test_rotation_pairs_the_two_halves_of_a_head():
  # H = 4, base 100: pair 0 = (x0, x2) turns by p, pair 1 = (x1, x3) by p / 10.
  # (x0, x2) = (1, 0) at p = 2 becomes (cos 2, sin 2). Pairing neighbours
  # (x0, x1) would put sin 2 into x1.
  turn = block.rotation(jnp.array([[2]]), 4, 100.0)
  x = jnp.array([[[[1.0, 0.0, 0.0, 3.0]]]])
  y = block.rotate(x, turn)[0, 0, 0]
  expected = [np.cos(2), -3 * np.sin(0.2), np.sin(2), 3 * np.cos(0.2)]
  np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_only_the_distance_of_two_positions_matters():
  rng = np.random.default_rng(0)
  q, k = (jnp.asarray(rng.normal(size=(1, 1, 1, 6)), jnp.float32) for _ in 'qk')

  def product(q_position, k_position):
    turned = (
      block.rotate(x, block.rotation(jnp.array([[position]]), 6, 1000.0))
      for x, position in ((q, q_position), (k, k_position))
    )
    return float(jnp.sum(next(turned) * next(turned)))

  np.testing.assert_allclose(product(7, 3), product(104, 100), rtol=1e-4)
  assert abs(product(7, 3) - product(7, 4)) > 1e-3
