# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The matrix product of the model, with one rule for every dtype.

Operands have the dtype of the activations, sums are float32. In bfloat16 the
gradient that arrives is rounded to bfloat16 as well, so that all three
products, forwards and backwards, multiply bfloat16 by bfloat16; what they add
up stays float32 until it is stored.

  y  = x  w        [T, out]   bfloat16
  dx = dy w^T      [T, in]    bfloat16
  dw = x^T dy      [in, out]  as w is stored, never less than it has
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.layout import Layout, with_layout_constraint


def linear(x, w):
  """x w over the last axis of x, in the dtype of x.

  Args:
    x: `[..., fan_in]`.
    w: `[fan_in, fan_out]`, in any dtype.

  Returns:
    `[..., fan_out]`.
  """
  # Rows and tokens as one axis: the weight gradient of a three-dimensional
  # product is a third slower on CPU.
  flat = matmul(x.reshape(-1, x.shape[-1]), w).astype(x.dtype)
  return flat.reshape(*x.shape[:-1], -1)


def matmul(a, b):
  """a b in float32, multiplied in the dtype of a.

  Args:
    a: `[..., rows, inner]`.
    b: `[..., inner, columns]`, in any dtype.
  """
  if a.dtype == jnp.float32:
    return jnp.matmul(a, b.astype(a.dtype))
  return _matmul(a, b)


@jax.custom_vjp
def _matmul(a, b):
  return _sum_in_float32(a, b.astype(a.dtype))


def _forward(a, b):
  return _matmul(a, b), (a, b)


def _backward(operands, grad):
  a, b = operands
  grad = grad.astype(a.dtype)
  grad_a = _sum_in_float32(grad, b.astype(a.dtype).mT)
  grad_b = _laid_out(_sum_in_float32(_laid_out(a.mT), grad))
  return grad_a.astype(a.dtype), grad_b.astype(b.dtype)


_matmul.defvjp(_forward, _backward)

_sum_in_float32 = functools.partial(
  jnp.matmul, preferred_element_type=jnp.float32
)


def _laid_out(a):
  """The array written out in the order of its axes, on CPU.

  XLA's CPU backend multiplies bfloat16 four times faster where the axis it
  sums over is the last in memory; left alone it reads a transposed operand
  crosswise. The result is laid out as well: a transpose that follows would
  otherwise be pulled into the product, in a form that the backend refuses.
  """
  return lax.platform_dependent(a, cpu=_write_out, default=lambda a: a)


def _write_out_part(a):
  return with_layout_constraint(a, Layout(tuple(range(a.ndim))))


# The compiler knows no rule for how a layout meets a mesh and would gather the
# whole array on every device. The rule: each device writes out its own part.
_write_out = custom_partitioning(_write_out_part)
_write_out.def_partition(
  infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding,
  partition=lambda mesh, args, result: (
    mesh,
    _write_out_part,
    args[0].sharding,
    (args[0].sharding,),
  ),
  sharding_rule='... i j -> ... i j',
)
