# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Products: exact in float32, rounded once in bfloat16, both ways."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import sharding
from searchrl_jax.models import products


def operands(shape_a, shape_b, seed=0):
  keys = jax.random.split(jax.random.key(seed), 2)
  return jax.random.normal(keys[0], shape_a), jax.random.normal(
    keys[1], shape_b
  )


def rounded(x):
  """float64 values of x after rounding to bfloat16."""
  return np.asarray(
    jnp.asarray(x, jnp.float32).astype(jnp.bfloat16), np.float64
  )


def test_float32_is_an_ordinary_product():
  x, w = operands((3, 5, 7), (7, 4))
  dy = jax.random.normal(jax.random.key(2), (3, 5, 4))
  y, back = jax.vjp(products.linear, x, w)
  expected, expected_back = jax.vjp(lambda x, w: x @ w, x, w)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6),
    (y, back(dy)),
    (expected, expected_back(dy)),
  )


def test_bfloat16_rounds_operands_and_results_and_nothing_between():
  # 512 + 1024 * 2^-8 = 516. Summed in bfloat16, which has steps of 4 at 512,
  # every term would be lost.
  ones = jnp.ones((1, 1 + 1024), jnp.bfloat16)
  column = jnp.full((1 + 1024, 1), 2.0**-8).at[0].set(512.0)
  got = products.linear(ones, column)
  assert got.dtype == jnp.bfloat16
  np.testing.assert_array_equal(np.float32(got), [[516.0]])
  assert float(products.matmul(ones, column)[0, 0]) == 516.0


def test_bfloat16_weights_are_rounded_but_their_gradient_is_not():
  # 2,049 tokens that each add 1 to a weight's gradient: float32 sums count
  # them all, bfloat16 would end at 256, a bfloat16 result at 2,048.
  x = jnp.ones((2049, 1), jnp.bfloat16)
  w = jnp.full((1, 3), 1.001)  # 1.001 rounds to 1

  def loss(w):
    y = products.linear(x, w)
    return jnp.sum(y.astype(jnp.float32))

  value, grad = jax.value_and_grad(loss)(w)
  assert float(value) == 3 * 2049
  assert grad.dtype == jnp.float32
  np.testing.assert_array_equal(grad, [[2049.0, 2049.0, 2049.0]])


@pytest.mark.parametrize('stored', [jnp.float32, jnp.bfloat16])
def test_bfloat16_gradients_by_rounded_operands(stored):
  # Each of the three products is one of rounded operands, exact up to the
  # dtype it is returned in.
  a, b = operands((4, 6, 11), (4, 11, 5))
  grad = jax.random.normal(jax.random.key(2), (4, 6, 5))
  a, b = a.astype(jnp.bfloat16), b.astype(stored)
  y, back = jax.vjp(products.matmul, a, b)
  grad_a, grad_b = back(grad)
  assert (y.dtype, grad_a.dtype, grad_b.dtype) == (
    jnp.float32,
    jnp.bfloat16,
    jnp.dtype(stored),
  )
  wide = {'rtol': 1e-5, 'atol': 1e-5}
  a, b, grad = rounded(a), rounded(b), rounded(grad)
  np.testing.assert_allclose(y, a @ b, **wide)
  coarse = {'rtol': 2.0**-8, 'atol': 1e-5}
  np.testing.assert_allclose(
    np.float32(grad_a), grad @ b.swapaxes(1, 2), **coarse
  )
  np.testing.assert_allclose(
    np.float32(grad_b),
    a.swapaxes(1, 2) @ grad,
    **(wide if stored == jnp.float32 else coarse),
  )


def test_a_table_is_multiplied_by_its_rows():
  # The three products of `logits` are those of `matmul` with the transpose.
  hidden, table = operands((6, 11), (17, 11))
  grad = jax.random.normal(jax.random.key(2), (6, 17))
  for dtype in (jnp.float32, jnp.bfloat16):
    got, back = jax.vjp(products.logits, hidden.astype(dtype), table)
    expected, expected_back = jax.vjp(
      lambda h, t: products.matmul(h, t.T), hidden.astype(dtype), table
    )
    assert got.dtype == jnp.float32
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(
        np.float32(a), np.float32(b), rtol=2.0**-7, atol=1e-5
      ),
      (got, back(grad)),
      (expected, expected_back(grad)),
    )


def test_gradients_of_single_rows_by_vmap():
  x, w = operands((5, 3, 7), (7, 4))
  x = x.astype(jnp.bfloat16)

  def loss(w, x):
    return jnp.sum(jnp.sin(products.linear(x, w).astype(jnp.float32)))

  got = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(w, x)
  expected = [jax.grad(loss)(w, row) for row in x]
  np.testing.assert_allclose(got, jnp.stack(expected), rtol=1e-5, atol=1e-5)


def operand_types(program):
  """The types of both operands of every product of a compiled program."""
  types = []
  for computation in program.as_text().split('\n\n'):
    of = dict(re.findall(r'%([\w.-]+) = (\w+)\[', computation))
    for pair in re.findall(r' dot\(%([\w.-]+), %([\w.-]+)\)', computation):
      types.append(tuple(of[name] for name in pair))
  return types


@pytest.mark.parametrize(
  ('product', 'shapes'),
  [
    (products.linear, ((2, 32, 96), (96, 64))),
    (products.logits, ((64, 96), (160, 96))),
    (products.matmul, ((3, 64, 96), (3, 96, 32))),
  ],
)
def test_every_compiled_product_multiplies_bfloat16_by_bfloat16(
  product, shapes
):
  # Also where an operand arrives transposed, as keys do. The compiler turns
  # some forms into float32 products without a word: these here it must not.
  x, w = operands(*shapes)

  def loss(x, w_transposed):
    y = product(x.astype(jnp.bfloat16), w_transposed.mT)
    return jnp.sum(jnp.sin(y.astype(jnp.float32)))

  program = jax.jit(jax.grad(loss, (0, 1))).lower(x, w.mT).compile()
  assert operand_types(program) == 3 * [('bf16', 'bf16')]


@functools.partial(jax.jit, static_argnames='dtype')
def gradients(x, w, dtype):
  def loss(x, w):
    y = products.linear(x.astype(dtype), w)
    return jnp.sum(jnp.sin(y.astype(jnp.float32)))

  return jax.grad(loss, (0, 1))(x, w)


def test_rows_stay_on_their_devices():
  # Eight devices: x's rows are split in four, w over both other axes. The
  # gradient of w is summed over devices; no device sees the rows of others.
  x, w = operands((8, 40, 12), (12, 6))
  mesh = sharding.make_mesh(data=4, fsdp=1, tensor=2)
  axes = {'x': (None,), 'w': ('embed', 'mlp')}
  placed_x = sharding.put_rows(mesh, x)
  place = sharding.param_shardings(mesh, {'w': w}, {'w': axes['w']})['w']
  placed_w = jax.device_put(w, place)
  program = gradients.lower(placed_x, placed_w, dtype=jnp.bfloat16).compile()
  assert 'all-gather' not in program.as_text()
  got = program(placed_x, placed_w)
  expected = gradients(x, w, dtype=jnp.bfloat16)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(
      np.float32(a), np.float32(b), rtol=2.0**-7, atol=1e-4
    ),
    got,
    expected,
  )
