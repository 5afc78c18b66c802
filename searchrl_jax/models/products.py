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
from jax.custom_batching import custom_vmap
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


def logits(hidden, table):
  """Products of hidden states with every row of a table, in float32.

  Args:
    hidden: `[rows, D]`.
    table: `[V, D]`, in any dtype; multiplied in that of `hidden`.

  Returns:
    `[rows, V]`.
  """
  return _product(hidden, table, _LAST)


def matmul(a, b):
  """a b in float32, multiplied in the dtype of a.

  Args:
    a: `[..., rows, inner]`.
    b: `[..., inner, columns]`, in any dtype; the same axes before these two.
  """
  return _product(a, b, _LAST_BUT_ONE)


def matmul_transposed(a, b):
  """a b^T in float32, multiplied in the dtype of a.

  Args:
    a: `[..., rows, inner]`.
    b: `[..., columns, inner]`, in any dtype; the same axes before these two.
  """
  return _product(a, b, _LAST)


_LAST, _LAST_BUT_ONE = -1, -2


def _product(a, b, axis):
  """Sums over the last axis of a and the given one of b."""
  if a.dtype == jnp.float32:
    return _dot(a, b.astype(a.dtype), axis)
  return _rounded_product(a, b, axis)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _rounded_product(a, b, axis):
  return _dot(a, _laid_out(b.astype(a.dtype)), axis)


def _forward(a, b, axis):
  return _rounded_product(a, b, axis), (a, b)


def _backward(axis, operands, grad):
  a, b = operands
  grad = grad.astype(a.dtype)
  other = _LAST if axis == _LAST_BUT_ONE else _LAST_BUT_ONE
  grad_a = _dot(grad, _laid_out(b.astype(a.dtype)), other)
  left, right = (a, grad) if axis == _LAST_BUT_ONE else (grad, a)
  grad_b = _dot(_laid_out(left.mT), right, _LAST_BUT_ONE)
  return grad_a.astype(a.dtype), _laid_out(grad_b).astype(b.dtype)


_rounded_product.defvjp(_forward, _backward)


def _dot(a, b, axis):
  """The axes to sum over are named, never swapped by a transpose: XLA's CPU
  backend would turn a bfloat16 product of a transpose into a float32 one."""
  batch = tuple(range(a.ndim - 2))
  contracted = ((a.ndim - 1,), (b.ndim + axis,))
  return lax.dot_general(
    a, b, (contracted, (batch, batch)), preferred_element_type=jnp.float32
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
_write_out_parts = custom_partitioning(_write_out_part)
_write_out_parts.def_partition(
  infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding,
  partition=lambda mesh, args, result: (
    mesh,
    _write_out_part,
    args[0].sharding,
    (args[0].sharding,),
  ),
  sharding_rule='... i j -> ... i j',
)
# Under vmap it is the same on an array with an axis more.
_write_out = custom_vmap(_write_out_parts)
_write_out.def_vmap(
  lambda axis_size, batched, a: (_write_out_parts(a), batched[0])
)
