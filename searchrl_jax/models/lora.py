# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters (arXiv:2106.09685) as a part of the parameter tree.

An adapted matrix x [fan_in, fan_out] has its adapter beside it:

  params    {layers {attention {norm, q, q_a, q_b, ...}, mlp {...}}, embed, ...}
  adapters  {layers {attention {q_a, q_b}, mlp {...}}}
  base      what is left: the parameters of the same model without adapters

x_a is A `[layers, fan_in, rank]`, x_b is B `[layers, rank, fan_out]`, and the
layer computes y W + scale (y A) B. Train the adapters alone, keep the base as
it is, and `join` them where the model is applied: nothing is copied, so the
base alone is the reference policy at no cost of memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from searchrl_jax.models.block import fresh_adapter
from searchrl_jax.models.config import ADAPTABLE, DecoderConfig, Lora

_NAMES = frozenset(f'{name}_{side}' for name in ADAPTABLE for side in 'ab')


def split(params: Any) -> tuple[Any, Any]:
  """Takes adapters out of parameters: (adapters, base), arrays as they are.

  Raises:
    ValueError: there are none.
  """
  adapters, base = _split(params)
  if not adapters:
    raise ValueError(
      'these parameters have no adapters: set `lora` of their config'
    )
  return adapters, base


def join(base: Any, adapters: Any) -> Any:
  """The inverse of `split`: one tree of the same arrays, none copied.

  Raises:
    ValueError: the adapters are not of this base.
  """
  return _join(base, adapters, ())


def merge(params: Any, lora: Lora) -> Any:
  """Parameters without adapters, W + scale A B in place of each matrix.

  Computed in float32 and stored as W was. With zero B this is the base.

  Args:
    params: base and adapters as one tree, stacked or of one layer.
    lora: of the config they were made for.

  Raises:
    ValueError: an adapter that does not fit, or has another rank.
  """
  if not isinstance(params, Mapping):
    return params
  merged = {}
  for name, leaf in params.items():
    if f'{name}_a' in params:
      a, b = params[f'{name}_a'], params[f'{name}_b']
      _check_rank(name, a, lora.rank)
      leaf = _merged(leaf, a, b, lora.scale)
    if name not in _NAMES:
      merged[name] = merge(leaf, lora)
  return merged


def init(key: jax.Array, config: DecoderConfig, base: Any) -> Any:
  """Fresh adapters for a base: A random, B zero, both float32.

  Args:
    key: random key; every matrix and layer has a key of its own.
    config: with `lora` set.
    base: parameters without adapters, stacked; read for their shapes only.

  Raises:
    ValueError: `config.lora` is None.
  """
  if config.lora is None:
    raise ValueError('config.lora is None: say which adapters to make')
  layers = {}
  # Sorted: a jitted function returns its dicts in another order.
  for part, weights in sorted(base['layers'].items()):
    for name in sorted(weights):
      if name in config.lora.targets:
        key, ours = jax.random.split(key)
        fresh = _fresh_layers(ours, weights[name].shape, config.lora.rank)
        layers.setdefault(part, {}).update(
          {f'{name}_a': fresh[0], f'{name}_b': fresh[1]}
        )
  return {'layers': layers}


def _fresh_layers(key, shape, rank):
  depth, fan_in, fan_out = shape
  make = jax.vmap(lambda key: fresh_adapter(key, fan_in, fan_out, rank))
  return make(jax.random.split(key, depth))


def _split(params):
  adapters, base = {}, {}
  for name, leaf in params.items():
    if isinstance(leaf, Mapping):
      inner, base[name] = _split(leaf)
      if inner:
        adapters[name] = inner
    else:
      (adapters if name in _NAMES else base)[name] = leaf
  return adapters, base


def _join(base, adapters, path):
  joined = dict(base)
  for name, leaf in adapters.items():
    here = (*path, name)
    if isinstance(leaf, Mapping) and isinstance(base.get(name), Mapping):
      joined[name] = _join(base[name], leaf, here)
      continue
    if name in base:
      raise ValueError(
        f'{"/".join(here)} is in the base already: join adapters with the '
        'base that `split` left'
      )
    if name not in _NAMES or name[:-2] not in base:
      raise ValueError(
        f'{"/".join(here)} has no matrix in the base: these adapters are of '
        'another model'
      )
    _check_fit(here, base[name[:-2]], leaf)
    joined[name] = leaf
  return joined


def _check_fit(path, matrix, adapter):
  """A shares W's first axes, B its last: [layers, in, r], [layers, r, out]."""
  axis = -2 if path[-1].endswith('_a') else -1
  if (
    adapter.ndim != matrix.ndim
    or adapter.shape[:-2] != matrix.shape[:-2]
    or adapter.shape[axis] != matrix.shape[axis]
  ):
    raise ValueError(
      f'{"/".join(path)} of shape {tuple(adapter.shape)} does not fit a matrix '
      f'of shape {tuple(matrix.shape)}: these adapters are of another model'
    )


def _check_rank(name, a, rank):
  if a.shape[-1] != rank:
    raise ValueError(
      f'{name}_a has rank {a.shape[-1]}, the config says {rank}: merge with '
      'the config the adapters were trained with'
    )


def _merged(matrix, a, b, scale):
  change = scale * jnp.matmul(a.astype(jnp.float32), b.astype(jnp.float32))
  return (matrix.astype(jnp.float32) + change).astype(matrix.dtype)
