# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Trajectories cut by a length limit: masked, or penalised gradually."""

import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.training import overlong


def test_mask():
  actual = overlong.mask(np.array([[True, False]]))
  assert actual.dtype == jnp.float32
  np.testing.assert_array_equal(actual, [[0.0, 1.0]])


def test_soft_penalty():
  # From 80 on, one twentieth a token.
  tokens = np.array([[0, 80, 81, 90, 100, 10_000]])
  actual = overlong.soft_penalty(tokens, limit=100, margin=20)
  np.testing.assert_allclose(actual, [[0, 0, -0.05, -0.5, -1, -1]], rtol=1e-6)


@pytest.mark.parametrize('margin', [0, 101])
def test_margin_out_of_range(margin):
  with pytest.raises(ValueError, match='at most the limit of 100'):
    overlong.soft_penalty(np.zeros((1, 1)), limit=100, margin=margin)
