# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The floor of `benchmarks.rollout`: a decode step beside its pieces alone."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from benchmarks.rollout_jax import SAMPLING, make_engine
from benchmarks.workload import Setting, Texts
from searchrl_jax.models import cached_attention, decoder, products
from searchrl_jax.rollout import sampling as sampler
from searchrl_jax.rollout.policy import Asked
from searchrl_jax.types import Question

_FEW, _MANY = 16, 112  # tokens of a short and a long turn
_TIMES = 3  # that everything is measured, taking turns
_CALLS = 20  # of a piece, each time


def floor(config):
  """Returns what measures a decode step and the sum of its pieces."""
  model = decoder.make_model(config)
  params = model.init(jax.random.key(0))

  def measure(setting: Setting) -> Mapping[str, float]:
    middle = setting.workload.capacity // 2
    policy = make_engine(model, params, setting)
    pieces = _pieces(model, jax.jit(model.unstack)(params), setting, middle)
    step, alone = [], {name: [] for name in pieces}
    for _ in range(_TIMES):
      step.append(_step(policy, config.vocabulary, setting.width, middle))
      for name, piece in pieces.items():
        alone[name].append(_time(piece))
    found = {name: statistics.median(times) for name, times in alone.items()}
    total, mine = sum(found.values()), statistics.median(step)
    sums = {'floor_ms': total, 'decode_ms': mine, 'ratio': mine / total}
    return found | sums

  return measure


def _step(policy, vocabulary: int, width: int, middle: int) -> float:
  """Milliseconds of a step: a long turn less a short one."""
  question = Question('floor', '', ())
  length = middle - _FEW - _MANY // 2
  context = Texts(vocabulary).encode(f'{length} tokens 0')
  contexts = dict.fromkeys(range(width), context)
  seconds = []
  # The first turn reads the contexts; those that follow it read nothing.
  for turn, budget in enumerate((2, _FEW, _MANY)):
    sharing, turns = (1, (None,) * turn) if turn else (width, ())
    for row, tokens in contexts.items():
      policy.ask(
        Asked(row, question, row, turns, tuple(tokens), budget, sharing)
      )
    began, said = time.perf_counter(), []
    while len(said) < width:
      said += policy.advance()
    seconds.append(time.perf_counter() - began)
    contexts = {a.id: [*a.context, *one.tokens.tolist()] for a, one in said}
  for row in contexts:
    policy.release(row)
  return 1000 * (seconds[2] - seconds[1]) / (_MANY - _FEW)


def _time(piece: Callable[[], object]) -> float:
  """Median milliseconds of a call."""
  times = []
  for _ in range(_CALLS):
    began = time.perf_counter()
    jax.block_until_ready(piece())
    times.append(time.perf_counter() - began)
  return 1000 * statistics.median(times)


def _pieces(model, params, setting: Setting, middle: int):
  """Name -> a call of that piece of a step, compiled."""
  config, width = model.config, setting.width
  keys = iter(jax.random.split(jax.random.key(1), 10))

  def random(*shape):
    return jax.random.normal(next(keys), shape, config.compute_dtype)

  widest = max(config.mlp_width, config.width, config.heads * config.head_width)
  x = random(width, widest)
  head = model.unembedding(params)
  hidden = random(width, config.width)
  logits = random(width, config.vocabulary).astype(jnp.float32)
  kv = (width, 1, config.kv_heads, config.head_width)
  qkv = (random(width, 1, config.heads, config.head_width), random(*kv))
  attend = _Attention(model, setting, middle, (*qkv, random(*kv)))
  draw = (logits, jax.random.split(next(keys), width))
  pieces = {
    'products_ms': functools.partial(jax.jit(_products), x, params['layers']),
    'head_ms': functools.partial(jax.jit(_head), hidden, head),
    'attention_ms': attend,
    'sampling_ms': functools.partial(jax.jit(_sample), *draw),
  }
  for piece in pieces.values():
    jax.block_until_ready(piece())
  return pieces


def _products(x, layers):
  """x times every matrix of every layer."""
  leaves = jax.tree.leaves(layers)
  if not isinstance(layers, tuple):  # all layers in one array
    leaves = [matrix for leaf in leaves for matrix in leaf]
  return [
    products.linear(x[:, : matrix.shape[0]], matrix)
    for matrix in leaves
    if matrix.ndim == 2
  ]


def _head(hidden, table):
  return jnp.einsum(
    'vd,wd->wv', table, hidden, preferred_element_type=jnp.float32
  )


def _sample(logits, keys):
  rows = len(logits)
  draws = sampler.Draws.of([SAMPLING] * rows)
  return sampler.sample(logits, keys, jnp.zeros(rows, jnp.int32), draws, False)


class _Attention:
  """A token of every row written and attended to, in every layer."""

  def __init__(self, model, setting: Setting, middle: int, qkv):
    width, depth = setting.width, model.config.layers
    count = jnp.ones(width, jnp.int32)
    length, rows = middle * count, jnp.arange(width, dtype=jnp.int32)
    mix_of = (
      cached_attention.mix_one if model.in_place else cached_attention.mix_many
    )

    def attend(qkv, k, v):
      mix, mixed, k, v = mix_of(length, count, rows), [], list(k), list(v)
      for layer in range(depth):
        array, index = (layer, 0) if len(k) > 1 else (0, layer)
        one, (k[array], v[array]) = mix(*qkv, k[array], v[array], index)
        mixed.append(one)
      return mixed, tuple(k), tuple(v)

    cache = model.empty_cache(width, setting.workload.capacity)
    self._qkv, self._k, self._v = qkv, cache.k, cache.v
    self._attend = jax.jit(attend, donate_argnums=(1, 2))

  def __call__(self):
    mixed, self._k, self._v = self._attend(self._qkv, self._k, self._v)
    return mixed
