# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A program is counted when it is compiled, and not when it runs."""

import jax.numpy as jnp
import numpy as np

from searchrl_jax.rollout.programs import Program


def test_new_shapes_and_dtypes_are_programs_and_calls_are_not():
  double = Program(lambda x: 2 * x)
  assert double.compiled == 0
  for x, compiled in (
    (np.zeros(3, np.float32), 1),
    (np.ones(3, np.float32), 1),
    (np.ones(4, np.float32), 2),
    (np.ones(3, np.int32), 3),
    (jnp.ones(4), 3),
  ):
    np.testing.assert_array_equal(double(x), 2 * np.asarray(x))
    assert double.compiled == compiled


def test_two_programs_of_one_function_count_apart():
  def same(x):
    return x

  one, other = Program(same), Program(same)
  one(np.zeros(2))
  assert (one.compiled, other.compiled) == (1, 0)
  other(np.zeros(2))
  assert (one.compiled, other.compiled) == (1, 1)


def test_options_reach_jit():
  add = Program(lambda x, y: x + y, donate_argnums=0)
  x = jnp.ones(5)
  add(x, 1.0)
  assert x.is_deleted()
