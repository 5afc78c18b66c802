# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The decoder against a plain NumPy one; packing, padding, leaks, gradients."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.models import config as configs
from searchrl_jax.models import decoder, rope


def numpy_decoder(config, params, tokens):
  """One row, float64, a loop over heads and queries."""
  params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
  half = config.head_width // 2
  # Scaled or not, frequencies have hand-worked tests of their own.
  frequency = rope.inverse_frequencies(
    config.head_width, config.rope_base, config.rope_scaling
  ).astype(np.float64)
  factor = rope.attention_factor(config.rope_scaling)

  def norm(x, scale):
    return (
      x / np.sqrt((x * x).mean(-1, keepdims=True) + config.norm_eps) * scale
    )

  def turned(x, position):
    z = (x[:half] + 1j * x[half:]) * np.exp(1j * position * frequency)
    return factor * np.concatenate([z.real, z.imag])

  def project(y, weights, name):
    matrix = weights[name]
    if f'{name}_a' in weights:
      change = weights[f'{name}_a'] @ weights[f'{name}_b']
      matrix = matrix + config.lora.alpha / config.lora.rank * change
    return y @ matrix + weights.get(f'{name}_bias', 0)

  def heads(y, weights, name, count):
    z = project(y, weights, name)
    return z.reshape(len(y), count, config.head_width)

  x = params['embed'][np.asarray(tokens)]
  for i in range(config.layers):
    layer = jax.tree.map(lambda leaf, i=i: leaf[i], params['layers'])
    weights = layer['attention']
    y = norm(x, weights['norm'])
    q = heads(y, weights, 'q', config.heads)
    k = heads(y, weights, 'k', config.kv_heads)
    v = heads(y, weights, 'v', config.kv_heads)
    if config.qk_norm:
      q, k = norm(q, weights['q_norm']), norm(k, weights['k_norm'])
    mixed = np.zeros_like(q)
    for t in range(len(x)):
      for head in range(config.heads):
        shared = head // (config.heads // config.kv_heads)
        query = turned(q[t, head], t)
        keys = [turned(k[s, shared], s) for s in range(t + 1)]
        scores = np.array([query @ key for key in keys])
        scores = np.exp(scores / np.sqrt(config.head_width))
        mixed[t, head] = scores / scores.sum() @ v[: t + 1, shared]
    x = x + project(mixed.reshape(len(x), -1), weights, 'o')
    weights = layer['mlp']
    y = norm(x, weights['norm'])
    gate = project(y, weights, 'gate')
    gate = gate / (1 + np.exp(-gate))
    x = x + project(gate * project(y, weights, 'up'), weights, 'down')
  return norm(x, params['norm'])


def random_tokens(shape, config, seed=0):
  return np.random.default_rng(seed).integers(0, config.vocabulary, shape)


def layout(segments, length):
  """Packs rows of (segment id, tokens) with id 0 for padding."""
  fields = [[], [], []]
  for row in segments:
    tokens, positions, ids = [], [], []
    for number, piece in row:
      tokens += list(piece)
      positions += list(range(len(piece)))
      ids += [number] * len(piece)
    assert len(tokens) == length
    for field, values in zip(fields, (tokens, positions, ids), strict=True):
      field.append(values)
  return tuple(jnp.array(field, jnp.int32) for field in fields)


def test_it_equals_a_plain_numpy_decoder(variant, noisy, alone):
  model = decoder.make_model(variant)
  params = noisy(model)
  tokens = random_tokens(9, variant)
  expected = numpy_decoder(variant, params, tokens)
  np.testing.assert_allclose(
    alone(model, params, tokens), expected, rtol=1e-4, atol=1e-4
  )


def test_blocks_of_queries_meet_seamlessly(plain, noisy, alone):
  # 150 tokens are three blocks of 64, 64 and 22 queries.
  plain = dataclasses.replace(plain, layers=1)
  model = decoder.make_model(plain)
  params = noisy(model)
  tokens = random_tokens(150, plain)
  np.testing.assert_allclose(
    alone(model, params, tokens),
    numpy_decoder(plain, params, tokens),
    rtol=1e-4,
    atol=1e-4,
  )


def test_packed_and_padded_rows_equal_rows_alone(variant, noisy, alone):
  # row 0   a a a a a b b b . .        padding right
  # row 1   . . . c c c c c c c        padding left
  model = decoder.make_model(variant)
  params = noisy(model)
  a, b, c = (random_tokens(n, variant, seed=n) for n in (5, 3, 7))
  junk = random_tokens(3, variant, seed=1)
  batch = layout([[(1, a), (2, b), (0, junk[:2])], [(0, junk), (1, c)]], 10)
  hidden = jax.jit(model.apply)(params, *batch)
  close = {'rtol': 1e-5, 'atol': 1e-5}
  for row, start, tokens in ((0, 0, a), (0, 5, b), (1, 3, c)):
    np.testing.assert_allclose(
      hidden[row, start : start + len(tokens)],
      alone(model, params, tokens),
      **close,
    )
  assert np.isfinite(hidden).all()


def test_nothing_leaks_between_segments_or_backwards(plain, noisy):
  # 100 tokens: the second segment crosses from one block to the next.
  model = decoder.make_model(plain)
  params = noisy(model)
  a, b, c = (random_tokens(n, plain, seed=n) for n in (31, 47, 22))
  other = b.copy()
  other[20] = (other[20] + 1) % plain.vocabulary  # column 51 of the row
  apply = jax.jit(model.apply)
  before = apply(params, *layout([[(1, a), (2, b), (0, c)]], 100))[0]
  after = apply(params, *layout([[(1, a), (2, other), (0, c)]], 100))[0]
  changed = np.any(np.asarray(before != after), axis=-1)
  expected = np.zeros(100, bool)
  expected[51:78] = True  # the token itself and the rest of its segment
  np.testing.assert_array_equal(changed, expected)


def test_gradients_reach_every_parameter(variant, noisy):
  model = decoder.make_model(variant)
  params = noisy(model)
  batch = layout([[(1, random_tokens(7, variant))]], 7)

  def loss(params):
    hidden = jax.jit(model.apply)(params, *batch)
    return jnp.sum(jnp.sin(hidden @ model.unembedding(params).T))

  grads = jax.jit(jax.grad(loss))(params)
  for path, grad in jax.tree_util.tree_leaves_with_path(grads):
    assert np.isfinite(grad).all(), path
    largest = np.abs(grad).reshape(len(grad), -1).max(-1)
    if path[0].key == 'layers':
      assert (largest > 0).all(), path  # in every layer
    else:
      assert (largest > 0).any(), path


def gradient_program(config, length):
  """The gradient of a loss over one row, as a function of parameters."""
  model = decoder.make_model(config)
  batch = layout([[(1, random_tokens(length, config))]], length)

  def loss(params):
    return jnp.sum(jnp.sin(model.apply(params, *batch)))

  return model, jax.grad(loss)


def dots_of(jaxpr):
  """Every matrix product of a jaxpr and of those within."""
  for equation in jaxpr.eqns:
    if equation.primitive.name == 'dot_general':
      yield equation
    for inner in jax.core.jaxprs_in_params(equation.params):
      yield from dots_of(inner)


def test_what_is_made_again_changes_no_gradient(plain, noisy):
  # A layer has 7 matrices: 7 products forwards, 14 backwards. Attention has 2,
  # 4 backwards, and makes its 2 again by itself: 29. LAYER repeats all but the
  # last of the matrices, whose result is not needed, and attention: 8 more.
  expected = {
    configs.Remat.NOTHING: 29,
    configs.Remat.PRODUCTS: 29,
    configs.Remat.LAYER: 37,
  }
  grads = []
  for remat, count in expected.items():
    config = dataclasses.replace(plain, remat=remat)
    model, gradient = gradient_program(config, length=7)
    params = noisy(model)
    dots = list(dots_of(jax.make_jaxpr(gradient)(params).jaxpr))
    assert len(dots) == count
    grads.append(jax.jit(gradient)(params))
  for other in grads[1:]:
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
      grads[0],
      other,
    )


def test_what_is_made_again_takes_no_memory(plain):
  # Scratch floats of one more layer and token: LAYER keeps the stream, 11;
  # PRODUCTS q 60, k and v 30 each, mixed 60, o 11, gate and up 13 each: 217
  # more; NOTHING norms, rotated heads and the SwiGLU besides.
  kept = {}
  for remat in configs.Remat:
    sizes = []
    for layers in (4, 8):
      config = dataclasses.replace(plain, remat=remat, layers=layers)
      model, gradient = gradient_program(config, length=256)
      params = jax.eval_shape(model.init, jax.random.key(0))
      memory = jax.jit(gradient).lower(params).compile().memory_analysis()
      sizes.append(memory.temp_size_in_bytes)
    kept[remat] = (sizes[1] - sizes[0]) / (4 * 256 * 4)
  assert kept[configs.Remat.LAYER] == 11
  assert kept[configs.Remat.PRODUCTS] == 11 + 217
  assert kept[configs.Remat.NOTHING] > 1.5 * (11 + 217)


def test_bfloat16_stays_close_to_float32(variant, noisy, alone):
  # bfloat16 keeps 8 bits: .4% a rounding, a few of them along the layers.
  exact = decoder.make_model(variant)
  coarse = decoder.make_model(
    dataclasses.replace(variant, compute_dtype=jnp.bfloat16)
  )
  params = noisy(exact)
  tokens = random_tokens(9, variant)
  a, b = alone(exact, params, tokens), alone(coarse, params, tokens)
  assert b.dtype == jnp.bfloat16
  error = np.abs(np.float32(b) - a).max()
  assert 1e-4 < error < 0.06 * np.abs(a).max()


def test_bfloat16_multiplies_nothing_in_float32(variant):
  # Forwards and backwards, in matrices, adapters and attention; sums are
  # float32 everywhere.
  coarse = dataclasses.replace(variant, compute_dtype=jnp.bfloat16)
  model, gradient = gradient_program(coarse, length=7)
  params = jax.eval_shape(model.init, jax.random.key(0))
  dots = list(dots_of(jax.make_jaxpr(gradient)(params).jaxpr))
  assert len(dots) >= 29
  for dot in dots:
    assert {var.aval.dtype for var in dot.invars} == {jnp.dtype(jnp.bfloat16)}
    assert {var.aval.dtype for var in dot.outvars} == {jnp.dtype(jnp.float32)}


@pytest.mark.parametrize('unrolled', [True, False])
def test_bfloat16_rollouts_say_what_training_says(variant, noisy, unrolled):
  # Token by token through the cache against the whole row: products of the same
  # rounded numbers, so sums differ by float32 roundings, of which a few may
  # cross a bfloat16 one. Numbers that one road had rounded and the other not
  # differed everywhere, by .5% in the mean. Unrolled, the cache is float32.
  coarse = dataclasses.replace(variant, compute_dtype=jnp.bfloat16)
  model = decoder.build_model(coarse, unrolled=unrolled)
  params = noisy(model)
  tokens = random_tokens((2, 9), variant)
  batch = layout([[(1, row)] for row in tokens], 9)
  expected = np.float32(jax.jit(model.apply)(params, *batch))
  cache = model.empty_cache(2, 16)
  assert cache.k[0].dtype == (jnp.float32 if unrolled else jnp.bfloat16)
  rollout, step = model.unstack(params), jax.jit(model.apply_cached)
  for t in range(9):
    one = jnp.ones(2, jnp.int32)
    hidden, cache = step(rollout, batch[0][:, t : t + 1], one, cache)
    assert hidden.dtype == jnp.bfloat16
    error = np.abs(np.float32(hidden[:, 0]) - expected[:, t]).mean()
    assert error < 5e-4 * np.abs(expected[:, t]).mean()


def test_fresh_layers_differ_and_keep_the_scale_of_the_stream(plain):
  wide = dataclasses.replace(plain, width=64, layers=8, embedding_std=1.0)
  model = decoder.make_model(wide)
  params = model.init(jax.random.key(0))
  q = np.asarray(params['layers']['attention']['q'])
  assert all(np.abs(q[i] - q[i - 1]).max() > 0.01 for i in range(1, 8))
  np.testing.assert_allclose(q.std(), 64**-0.5, rtol=0.05)
  down = np.asarray(params['layers']['mlp']['down'])
  np.testing.assert_allclose(down.std(), (13 * 2 * 8) ** -0.5, rtol=0.05)
  other = model.init(jax.random.key(1))
  assert np.abs(other['embed'] - params['embed']).max() > 0.01


def test_every_axis_of_a_parameter_has_a_name_and_one_size(variant):
  model = decoder.make_model(variant)
  params = jax.eval_shape(model.init, jax.random.key(0))
  axes = model.axes(params)
  sizes = {}

  def note(param, names):
    assert len(names) == param.ndim
    for name, size in zip(names, param.shape, strict=True):
      sizes.setdefault(name, set()).add(size)

  jax.tree.map(note, params, axes)
  norms = {variant.width} | ({variant.head_width} if variant.qk_norm else set())
  rank = {'rank': {variant.lora.rank}} if variant.lora else {}
  assert sizes == rank | {
    'layers': {variant.layers},
    'vocabulary': {variant.vocabulary},
    'embed': {variant.width},
    'heads': {variant.heads * variant.head_width},
    'kv_heads': {variant.kv_heads * variant.head_width},
    'mlp': {variant.mlp_width},
    'norm': norms,
  }


def test_rollout_parameters_are_cast_once_except_norms(variant, noisy):
  coarse = dataclasses.replace(variant, compute_dtype=jnp.bfloat16)
  model = decoder.build_model(coarse, unrolled=True)
  rollout = model.unstack(noisy(model))
  assert len(rollout['layers']) == coarse.layers
  for path, leaf in jax.tree_util.tree_leaves_with_path(rollout):
    norm = 'norm' in path[-1].key
    assert leaf.dtype == (jnp.float32 if norm else jnp.bfloat16), path


def test_parameters_of_another_model_are_refused(plain, noisy):
  model = decoder.make_model(plain)
  params = noisy(model)
  with pytest.raises(ValueError, match='not the parameters of this model'):
    model.axes(params | {'embed': params['embed'][0]})
