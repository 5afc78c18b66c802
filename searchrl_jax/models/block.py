# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One decoder layer, shared by the training and the rollout road.

The layer does not know where its keys come from: it hands (q, k, v) to
`attend`, which sees the packed row in training and the cache in rollouts.

  x ── norm ── q k v ── rotate ── attend ── o ── + ── norm ── SwiGLU ── + ──
  └───────────────────────────────────────────── ┘└──────────────────── ┘
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from searchrl_jax.models.config import DecoderConfig
from searchrl_jax.models.rope import rotate

# Logical axes of the parameters of one layer, for a sharding table to read.
ATTENTION_AXES = {
  'norm': ('norm',),
  'q': ('embed', 'heads'),
  'k': ('embed', 'kv_heads'),
  'v': ('embed', 'kv_heads'),
  'o': ('heads', 'embed'),
}
QK_NORM_AXES = {'q_norm': ('norm',), 'k_norm': ('norm',)}
BIAS_AXES = {
  'q_bias': ('heads',),
  'k_bias': ('kv_heads',),
  'v_bias': ('kv_heads',),
}
MLP_AXES = {
  'norm': ('norm',),
  'gate': ('embed', 'mlp'),
  'up': ('embed', 'mlp'),
  'down': ('mlp', 'embed'),
}


def rms_norm(x, scale, eps: float):
  """x / sqrt(mean(x^2) + eps) * scale over the last axis, in float32."""
  y = x.astype(jnp.float32)
  y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + eps)
  return (y * _like(scale.astype(jnp.float32), y)).astype(x.dtype)


class Attention(nnx.Module):
  """Projections around `attend`, with their norm."""

  def __init__(self, config: DecoderConfig, rngs: nnx.Rngs):
    width, head_width = config.width, config.head_width
    q_width, k_width = config.heads * head_width, config.kv_heads * head_width
    self.config = config
    self.norm = _ones(config, width)
    self.q = _matrix(config, rngs, width, q_width)
    self.k = _matrix(config, rngs, width, k_width)
    self.v = _matrix(config, rngs, width, k_width)
    self.o = _matrix(config, rngs, q_width, width, into_residual=True)
    if config.qk_norm:
      self.q_norm = _ones(config, head_width)
      self.k_norm = _ones(config, head_width)
    if config.attention_bias:
      self.q_bias = nnx.Param(jnp.zeros(q_width, config.param_dtype))
      self.k_bias = nnx.Param(jnp.zeros(k_width, config.param_dtype))
      self.v_bias = nnx.Param(jnp.zeros(k_width, config.param_dtype))

  def __call__(self, x, turn, attend):
    eps = self.config.norm_eps
    y = rms_norm(x, self.norm[...], eps)
    q, k, v = (_linear(y, w[...]) for w in (self.q, self.k, self.v))
    if self.config.attention_bias:
      q = q + _like(self.q_bias[...].astype(q.dtype), q)
      k = k + _like(self.k_bias[...].astype(k.dtype), k)
      v = v + _like(self.v_bias[...].astype(v.dtype), v)
    q, k, v = (_heads(z, self.config.head_width) for z in (q, k, v))
    if self.config.qk_norm:
      q = rms_norm(q, self.q_norm[...], eps)
      k = rms_norm(k, self.k_norm[...], eps)
    mixed, memory = attend(rotate(q, turn), rotate(k, turn), v)
    return _linear(mixed, self.o[...]), memory


class Mlp(nnx.Module):
  """SwiGLU (arXiv:2002.05202): down(silu(gate(x)) * up(x)), with its norm."""

  def __init__(self, config: DecoderConfig, rngs: nnx.Rngs):
    width, inner = config.width, config.mlp_width
    self.config = config
    self.norm = _ones(config, width)
    self.gate = _matrix(config, rngs, width, inner)
    self.up = _matrix(config, rngs, width, inner)
    self.down = _matrix(config, rngs, inner, width, into_residual=True)

  def __call__(self, x):
    y = rms_norm(x, self.norm[...], self.config.norm_eps)
    gate, up = _linear(y, self.gate[...]), _linear(y, self.up[...])
    return _linear(jax.nn.silu(gate) * up, self.down[...])


class Block(nnx.Module):
  """One layer: attention and SwiGLU, each added to the residual stream."""

  def __init__(self, config: DecoderConfig, rngs: nnx.Rngs):
    self.attention = Attention(config, rngs)
    self.mlp = Mlp(config, rngs)

  def __call__(self, x, turn, attend: Callable[..., tuple[Any, Any]]):
    """Applies the layer.

    Args:
      x: residual stream `[rows, T, D]`.
      turn: `rope.rotation` of these tokens.
      attend: (q `[rows, T, Q, H]`, k and v `[rows, T, K, H]`) ->
        (mixed values `[rows, T, Q * H]`, whatever the caller wants back).

    Returns:
      The residual stream after the layer, and what `attend` gave back.
    """
    mixed, memory = self.attention(x, turn, attend)
    x = x + mixed
    return x + self.mlp(x), memory


def block_axes(config: DecoderConfig):
  """Logical axes of the stacked parameters of all layers."""
  attention = dict(ATTENTION_AXES)
  if config.qk_norm:
    attention |= QK_NORM_AXES
  if config.attention_bias:
    attention |= BIAS_AXES
  stacked = {'attention': attention, 'mlp': MLP_AXES}
  return jax.tree.map(
    lambda axes: ('layers', *axes),
    stacked,
    is_leaf=lambda leaf: isinstance(leaf, tuple),
  )


def _ones(config, width):
  return nnx.Param(jnp.ones(width, config.param_dtype))


def _matrix(config, rngs, fan_in, fan_out, into_residual=False):
  """Normal with variance 1 / fan_in; matrices that write into the residual
  stream are divided by sqrt(2 * layers), so that its variance stays bounded
  (GPT-2's rule)."""
  std = fan_in**-0.5
  if into_residual:
    std /= (2 * config.layers) ** 0.5
  sample = jax.random.normal(rngs.params(), (fan_in, fan_out), jnp.float32)
  return nnx.Param((std * sample).astype(config.param_dtype))


def _linear(x, w):
  # Rows and tokens as one axis: the weight gradient of a three-dimensional
  # product is a third slower on CPU.
  flat = x.reshape(-1, x.shape[-1]) @ w.astype(x.dtype)
  return flat.reshape(*x.shape[:-1], -1)


def _heads(x, head_width):
  return x.reshape(*x.shape[:-1], -1, head_width)


def _like(vector, x):
  """A vector shaped to meet the last axis of x: ranks never differ silently."""
  return vector.reshape((1,) * (x.ndim - 1) + vector.shape)
