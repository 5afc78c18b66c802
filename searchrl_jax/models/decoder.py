# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A decoder as pure functions of a nested dict of parameters.

  params   embed            [V, D]
           layers           every array of a `Block`, stacked on a first axis
           norm             [D]
           head             [V, D], only where the head is not the embedding

Flax defines and initialises one block; training scans it over the stacked
layers. Rollouts on CPU take the layers apart once per phase (`unstack`) and
run them one after the other: a scan would copy each layer's weights and cache
at every token. On accelerators they stay stacked. `make_model` decides.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from searchrl_jax.models import (
  attention,
  cached_attention,
  cpu_attention,
  rope,
)
from searchrl_jax.models import cache as caches
from searchrl_jax.models import config as configs
from searchrl_jax.models.block import PRODUCT, Block, block_axes, rms_norm

# Far from the counts by which flax folds the keys of matrices.
_ADAPTERS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Model:
  """The functions of a decoder; all but `config` are pure.

  init(key) -> params
  apply(params, tokens_NL, positions_NL, segment_ids_NL) -> hidden_NLD
    Causal within a segment, segment 0 is padding, final norm applied.
  unembedding(params) -> [V, D]; logits are hidden @ unembedding.T, and never
    made here. Takes rollout parameters as well.
  unstack(params) -> rollout parameters, once per rollout phase.
  empty_cache(rows, capacity) -> Cache
  apply_cached(rollout_params, tokens_AT, count_A, cache, rows_A=None)
    -> (hidden_ATD, cache): appends the first count_A of each row's T tokens;
    hidden states beyond a row's count mean nothing. `rows_A` names rows of the
    cache, each once; where it is none of them nothing is appended. All rows in
    their order where None.
  axes(params) -> for each parameter the tuple of its logical axis names.
  in_place: a token is appended to some rows at no cost of the others, so that
    nobody need gather them before they decode.
  """

  config: configs.DecoderConfig
  init: Callable[[jax.Array], Any]
  apply: Callable[..., jax.Array]
  unembedding: Callable[[Any], jax.Array]
  unstack: Callable[[Any], Any]
  empty_cache: Callable[[int, int], caches.Cache]
  apply_cached: Callable[..., tuple[jax.Array, caches.Cache]]
  axes: Callable[[Any], Any]
  in_place: bool


def _anywhere(stream):
  return stream


def make_model(
  config: configs.DecoderConfig,
  place: Callable[[jax.Array], jax.Array] = _anywhere,
) -> Model:
  """The decoder of a config, laid out for the backend that JAX runs on.

  Args:
    config: its sizes.
    place: says where the residual stream `[N, L, D]` of `apply` lies on a mesh,
      see `sharding.keep_rows`. Left to itself, the compiler would split D where
      matrices are split, and compute all rows on every device.
  """
  unrolled = jax.default_backend() == 'cpu'
  return build_model(config, unrolled=unrolled, place=place)


def build_model(
  config: configs.DecoderConfig,
  *,
  unrolled: bool,
  place: Callable[[jax.Array], jax.Array] = _anywhere,
) -> Model:
  """As `make_model`, with the layout of rollouts given: one per backend."""

  # CPUs write and read bfloat16 through float32: a cache in bfloat16 would be
  # converted back and forth whole at every token.
  cached = (
    dataclasses.replace(config, compute_dtype=jnp.float32)
    if unrolled
    else config
  )

  in_place = unrolled and cpu_attention.available()

  def new_block(key):
    # Adapters draw from a stream of their own: a model has the same matrices
    # with and without them.
    adapters_key = jax.random.fold_in(key, _ADAPTERS)
    return Block(config, nnx.Rngs(params=key, adapters=adapters_key))

  graph, _ = nnx.split(nnx.eval_shape(new_block, jax.random.key(0)))
  frequencies = rope.inverse_frequencies(
    config.head_width, config.rope_base, config.rope_scaling
  )
  turned = functools.partial(
    rope.rotation,
    frequencies=frequencies,
    factor=rope.attention_factor(config.rope_scaling),
  )

  def block(params):
    return nnx.merge(graph, params)

  def init(key):
    embed_key, head_key, layers_key = jax.random.split(key, 3)
    params = {
      'embed': _table(config, embed_key),
      'layers': jax.vmap(
        lambda key: nnx.to_pure_dict(nnx.state(new_block(key)))
      )(jax.random.split(layers_key, config.layers)),
      'norm': jnp.ones(config.width, config.param_dtype),
    }
    if not config.tied:
      params['head'] = _table(config, head_key)
    return params

  def apply(params, tokens_NL, positions_NL, segment_ids_NL):
    mask = attention.segment_mask(segment_ids_NL)
    turn = turned(positions_NL)

    def attend(q, k, v):
      return attention.attend_segments(q, k, v, mask), None

    def layer(x, layer_params):
      return block(layer_params)(x, turn, attend)

    x = place(_embed(config, params, tokens_NL))
    x, _ = lax.scan(_remade(config, layer), x, params['layers'])
    return rms_norm(x, params['norm'], config.norm_eps)

  def unstack(params):
    params = _cast(config, params)
    if not unrolled:
      return params
    layers = tuple(
      jax.tree.map(operator.itemgetter(i), params['layers'])
      for i in range(config.layers)
    )
    return params | {'layers': layers}

  def apply_cached(rollout_params, tokens_AT, count_A, cache, rows_A=None):
    if rows_A is None:
      rows_A = jnp.arange(cache.length_R.shape[0], dtype=jnp.int32)
    _check_append(tokens_AT, count_A, rows_A, cache)
    length_A = cache.length_R.at[rows_A].get(mode='clip')
    steps = jnp.arange(tokens_AT.shape[1], dtype=jnp.int32)
    positions_AT = length_A[:, None] + steps[None]
    turn = turned(positions_AT)
    if in_place and tokens_AT.shape[1] == 1:
      mixing = cached_attention.mix_one(cache.length_R, count_A, rows_A)
    else:
      mixing = cached_attention.mix_many(length_A, count_A, rows_A)

    def layer(x, layer_params, k, v, index):
      def attend(q, new_k, new_v):
        return mixing(q, new_k, new_v, k, v, index)

      return block(layer_params)(x, turn, attend)

    x = _embed(config, rollout_params, tokens_AT)
    run = _run_unrolled if unrolled else _run_scanned
    x, k, v = run(layer, x, rollout_params['layers'], cache.k, cache.v)
    count_A = count_A.astype(jnp.int32)
    length_R = cache.length_R.at[rows_A].add(count_A, mode='drop')
    hidden = rms_norm(x, rollout_params['norm'], config.norm_eps)
    return hidden, caches.Cache(k, v, length_R)

  return Model(
    config=config,
    init=jax.jit(init),  # one program instead of one per shape
    apply=apply,
    unembedding=lambda params: params['embed' if config.tied else 'head'],
    unstack=unstack,
    empty_cache=lambda rows, capacity: caches.empty(
      cached, rows, capacity, unrolled=unrolled
    ),
    apply_cached=apply_cached,
    axes=lambda params: _axes(config, params),
    in_place=in_place,
  )


def _remade(config, layer):
  """The layer, with what the config says to make again in its backward pass."""
  match config.remat:
    case configs.Remat.NOTHING:
      return layer
    case configs.Remat.PRODUCTS:
      keep = jax.checkpoint_policies.save_only_these_names(PRODUCT)
      return jax.checkpoint(layer, prevent_cse=False, policy=keep)
    case configs.Remat.LAYER:
      return jax.checkpoint(layer, prevent_cse=False)


def _run_unrolled(layer, x, layers, k, v):
  """One layer after the other, each with a cache array of its own."""
  grown_k, grown_v = [], []
  for params, layer_k, layer_v in zip(layers, k, v, strict=True):
    x, (layer_k, layer_v) = layer(x, params, layer_k, layer_v, 0)
    # A stream in bfloat16 is rounded here, as between the steps of a scan.
    x = lax.optimization_barrier(x)
    grown_k.append(layer_k)
    grown_v.append(layer_v)
  return x, tuple(grown_k), tuple(grown_v)


def _run_scanned(layer, x, layers, k, v):
  """A scan with the cache of all layers in its carry, written in place; as
  scan inputs and outputs it would be copied at every token."""

  def step(carry, params_and_index):
    x, k, v = carry
    x, (k, v) = layer(x, params_and_index[0], k, v, params_and_index[1])
    return (x, k, v), None

  indices = jnp.arange(k[0].shape[1])
  (x, k, v), _ = lax.scan(step, (x, k[0], v[0]), (layers, indices))
  return x, (k,), (v,)


def _check_append(tokens_AT, count_A, rows_A, cache):
  """Says why tokens cannot be appended, where they cannot."""
  rows, width = tokens_AT.shape
  if rows_A.shape != (rows,) or count_A.shape != (rows,):
    raise ValueError(
      f'{rows} rows of tokens, {count_A.shape[0]} counts and '
      f'{rows_A.shape[0]} rows of a cache: they must agree'
    )
  if width > cache.capacity:
    raise ValueError(
      f'{width} tokens cannot be appended to a cache of {cache.capacity} '
      'columns: append fewer or make it larger'
    )


def _table(config, key):
  shape = (config.vocabulary, config.width)
  sample = jax.random.normal(key, shape, jnp.float32)
  return (config.embedding_std * sample).astype(config.param_dtype)


def _embed(config, params, tokens):
  return params['embed'][tokens].astype(config.compute_dtype)


def _axes(config, params):
  table = ('vocabulary', 'embed')
  axes = {'embed': table, 'layers': block_axes(config), 'norm': ('norm',)}
  if not config.tied:
    axes['head'] = table
  jax.tree.map(_check_axes, params, axes)
  return axes


def _check_axes(param, names):
  if param.ndim != len(names):
    raise ValueError(
      f'a parameter of shape {param.shape} has axes {names}: these are not '
      'the parameters of this model'
    )


def _cast(config, params):
  """Matrices in the compute dtype, as they are used in training: casting them
  once saves it at every token. Norms are applied in float32 and stay."""

  def cast(param, names):
    used_in_float32 = names[-1] == 'norm'
    return param if used_in_float32 else param.astype(config.compute_dtype)

  return jax.tree.map(cast, params, _axes(config, params))
