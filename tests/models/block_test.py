# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The norm in hand-worked numbers."""

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
