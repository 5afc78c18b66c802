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
from jax.ad_checkpoint import checkpoint_name

from searchrl_jax.models.config import DecoderConfig
from searchrl_jax.models.products import linear
from searchrl_jax.models.rope import rotate

# Logical axes of the matrices of one layer, (fan_in, fan_out), for a sharding
# table to read. Biases and adapters follow from them.
ATTENTION_AXES = {
  'q': ('embed', 'heads'),
  'k': ('embed', 'kv_heads'),
  'v': ('embed', 'kv_heads'),
  'o': ('heads', 'embed'),
}
MLP_AXES = {
  'gate': ('embed', 'mlp'),
  'up': ('embed', 'mlp'),
  'down': ('mlp', 'embed'),
}
# The name of what Remat.PRODUCTS keeps.
PRODUCT = 'product'


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
    _add_matrix(self, 'q', rngs, width, q_width)
    _add_matrix(self, 'k', rngs, width, k_width)
    _add_matrix(self, 'v', rngs, width, k_width)
    _add_matrix(self, 'o', rngs, q_width, width)
    if config.qk_norm:
      self.q_norm = _ones(config, head_width)
      self.k_norm = _ones(config, head_width)

  def __call__(self, x, turn, attend):
    eps = self.config.norm_eps
    y = rms_norm(x, self.norm[...], eps)
    q, k, v = (
      _heads(_project(self, name, y), self.config.head_width) for name in 'qkv'
    )
    if self.config.qk_norm:
      q = rms_norm(q, self.q_norm[...], eps)
      k = rms_norm(k, self.k_norm[...], eps)
    mixed, memory = attend(rotate(q, turn), rotate(k, turn), v)
    mixed = checkpoint_name(mixed, PRODUCT)
    return _project(self, 'o', mixed), memory


class Mlp(nnx.Module):
  """SwiGLU (arXiv:2002.05202): down(silu(gate(x)) * up(x)), with its norm."""

  def __init__(self, config: DecoderConfig, rngs: nnx.Rngs):
    width, inner = config.width, config.mlp_width
    self.config = config
    self.norm = _ones(config, width)
    _add_matrix(self, 'gate', rngs, width, inner)
    _add_matrix(self, 'up', rngs, width, inner)
    _add_matrix(self, 'down', rngs, inner, width)

  def __call__(self, x):
    y = rms_norm(x, self.norm[...], self.config.norm_eps)
    gate, up = _project(self, 'gate', y), _project(self, 'up', y)
    return _project(self, 'down', jax.nn.silu(gate) * up)


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
  attention, mlp = {'norm': ('norm',)}, {'norm': ('norm',)}
  if config.qk_norm:
    attention |= {'q_norm': ('norm',), 'k_norm': ('norm',)}
  for part, matrices in ((attention, ATTENTION_AXES), (mlp, MLP_AXES)):
    for name, (fan_in, fan_out) in matrices.items():
      part[name] = (fan_in, fan_out)
      if _has_bias(config, name):
        part[f'{name}_bias'] = (fan_out,)
      if _has_adapter(config, name):
        part[f'{name}_a'] = (fan_in, 'rank')
        part[f'{name}_b'] = ('rank', fan_out)
  return jax.tree.map(
    lambda axes: ('layers', *axes),
    {'attention': attention, 'mlp': mlp},
    is_leaf=lambda leaf: isinstance(leaf, tuple),
  )


def _has_bias(config, name):
  if name in ('q', 'k', 'v'):
    return config.attention_bias
  return config.output_bias if name == 'o' else config.mlp_bias


def _has_adapter(config, name):
  return config.lora is not None and name in config.lora.targets


def _ones(config, width):
  return nnx.Param(jnp.ones(width, config.param_dtype))


def _add_matrix(module, name, rngs, fan_in, fan_out):
  """Gives a module the matrix of this name, and what its config puts beside.

  Entries are normal with variance 1 / fan_in. Matrices that write into the
  residual stream are divided by sqrt(2 * layers), so that its variance stays
  bounded (GPT-2's rule). Biases are zero, and so is what a fresh adapter adds.
  """
  config = module.config
  std = fan_in**-0.5
  if name in ('o', 'down'):
    std /= (2 * config.layers) ** 0.5
  matrix = std * jax.random.normal(rngs.params(), (fan_in, fan_out))
  setattr(module, name, nnx.Param(matrix.astype(config.param_dtype)))
  if _has_bias(config, name):
    bias = jnp.zeros(fan_out, config.param_dtype)
    setattr(module, f'{name}_bias', nnx.Param(bias))
  if _has_adapter(config, name):
    a, b = fresh_adapter(rngs.adapters(), fan_in, fan_out, config.lora.rank)
    setattr(module, f'{name}_a', nnx.Param(a))
    setattr(module, f'{name}_b', nnx.Param(b))


def fresh_adapter(key, fan_in: int, fan_out: int, rank: int):
  """A `[fan_in, rank]`, normal of variance 1 / fan_in, and B = 0, float32.

  Float32 whatever the matrix beside them has: steps of an optimizer are lost
  in bfloat16.
  """
  a = fan_in**-0.5 * jax.random.normal(key, (fan_in, rank), jnp.float32)
  return a, jnp.zeros((rank, fan_out), jnp.float32)


def _project(module, name, x):
  """x W, with the bias and the adapter that are there: + s (x A) B + bias."""
  config = module.config
  y = linear(x, getattr(module, name)[...])
  if _has_adapter(config, name):
    a, b = (getattr(module, f'{name}_{side}')[...] for side in 'ab')
    y = y + linear(config.lora.scale * linear(x, a), b)
  if _has_bias(config, name):
    y = y + _like(getattr(module, f'{name}_bias')[...].astype(y.dtype), y)
  return checkpoint_name(y, PRODUCT)


def _heads(x, head_width):
  return x.reshape(*x.shape[:-1], -1, head_width)


def _like(vector, x):
  """A vector shaped to meet the last axis of x: ranks never differ silently."""
  return vector.reshape((1,) * (x.ndim - 1) + vector.shape)
