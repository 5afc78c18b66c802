# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Chunked log-probabilities: by hand, against whole logits, and their size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.training import logps

N, L, D, V = 3, 11, 5, 17


def whole(hidden, unembedding, tokens, temperature=1.0):
  """The same two numbers from logits `[N, L, V]`."""
  logits = hidden @ unembedding.T / temperature
  log_p = jax.nn.log_softmax(logits[:, :-1].astype(jnp.float32))
  chosen = jnp.take_along_axis(log_p, tokens[:, 1:, None], axis=-1)[..., 0]
  entropy = -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)
  pad = ((0, 0), (1, 0))
  return jnp.pad(chosen, pad), jnp.pad(entropy, pad)


def inputs():
  keys = jax.random.split(jax.random.key(0), 3)
  hidden = jax.random.normal(keys[0], (N, L, D))
  unembedding = jax.random.normal(keys[1], (V, D))
  tokens = jax.random.randint(keys[2], (N, L), 0, V)
  return hidden, unembedding, tokens


def test_two_tokens_by_hand():
  # The head is the identity, so hidden states are logits. After token 0 the
  # model says (1/2, 1/4, 1/4): token 0 again has log(1/2) = -.6931, and the
  # entropy is .5 log 2 + .5 log 4 = 1.0397. At temperature 2 weights are
  # square roots: .7071 / 1.7071 = .4142, log -.8814; H = -.4142 log .4142 -
  # 2 * .2929 log .2929 = 1.0843.
  hidden = jnp.log(jnp.array([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]]))
  tokens = jnp.array([[2, 0]])
  for temperature, logp, entropy in (
    (1, -0.6931, 1.0397),
    (2, -0.8814, 1.0843),
  ):
    got = logps.token_logps(
      hidden, jnp.eye(3), tokens, chunk=8, temperature=temperature
    )
    np.testing.assert_allclose(got[0], [[0, logp]], atol=1e-4)
    np.testing.assert_allclose(got[1], [[0, entropy]], atol=1e-4)


@pytest.mark.parametrize('chunk', [7, 11, 100])
def test_every_chunk_size_equals_the_whole(chunk):
  # 33 tokens: a chunk that leaves a rest, one that divides, a longer one. The
  # values and both gradients, of log-probabilities and of entropies.
  hidden, unembedding, tokens = inputs()
  cotangents = jax.random.normal(jax.random.key(9), (2, N, L))

  def total(function, **options):
    def scalar(hidden, unembedding):
      pair = function(hidden, unembedding, tokens, temperature=0.7, **options)
      return jnp.sum(jnp.stack(pair) * cotangents), pair

    grad = jax.value_and_grad(scalar, argnums=(0, 1), has_aux=True)
    return jax.jit(grad)(hidden, unembedding)

  got, expected = total(logps.token_logps, chunk=chunk), total(whole)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
    got,
    expected,
  )


def test_the_last_hidden_state_predicts_nothing():
  hidden, unembedding, tokens = inputs()

  def loss(hidden):
    return logps.token_logps(hidden, unembedding, tokens, chunk=4)[0].sum()

  grad = np.asarray(jax.grad(loss)(hidden))
  np.testing.assert_array_equal(grad[:, -1], 0)
  assert (np.abs(grad[:, :-1]).max(-1) > 0).all()


def test_bfloat16_states_give_float32_numbers():
  hidden, unembedding, tokens = inputs()
  coarse = hidden.astype(jnp.bfloat16), unembedding.astype(jnp.bfloat16)
  got = logps.token_logps(*coarse, tokens, chunk=8)
  expected = whole(*(x.astype(jnp.float32) for x in coarse), tokens)
  assert got[0].dtype == got[1].dtype == jnp.float32
  # The products are accumulated in float32: no error beyond the inputs' own.
  np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=1e-4)


def test_a_float32_head_is_rounded_as_the_sampler_rounds_it():
  # Sampler and learner must multiply the same numbers: the head in the dtype
  # of the hidden states. Its gradient comes back in float32, from the rounded
  # gradient of the logits.
  hidden, unembedding, tokens = inputs()
  hidden = hidden.astype(jnp.bfloat16)

  def loss(unembedding, dtype):
    head = unembedding.astype(dtype)
    return logps.token_logps(hidden, head, tokens, chunk=8)[0].sum()

  pair = jax.value_and_grad(loss)
  got, grad = pair(unembedding, jnp.float32)
  expected, coarse = pair(unembedding, jnp.bfloat16)
  assert got == expected
  assert grad.dtype == jnp.float32
  exact = jax.grad(
    lambda u: whole(hidden.astype(jnp.float32), u, tokens)[0].sum()
  )(unembedding.astype(jnp.bfloat16).astype(jnp.float32))
  scale = np.abs(exact).max()
  error = np.abs(grad - exact).max() / scale
  assert 0 < error < 2.0**-7
  assert (np.float32(grad.astype(jnp.bfloat16)) != grad).any()
  assert np.abs(np.float32(coarse) - exact).max() / scale < 2.0**-5


def arrays(jaxpr):
  """Every value of a jaxpr and of the jaxprs within its equations."""
  for equation in jaxpr.eqns:
    yield from (var.aval for var in equation.outvars)
    for inner in jax.core.jaxprs_in_params(equation.params):
      yield from arrays(inner)


def largest(function):
  """Elements of the largest array of a value-and-gradient computation."""
  hidden, unembedding, tokens = inputs()

  def loss(hidden, unembedding):
    return sum(x.sum() for x in function(hidden, unembedding, tokens))

  grad = jax.value_and_grad(loss, argnums=(0, 1))
  jaxpr = jax.make_jaxpr(grad)(hidden, unembedding).jaxpr
  return max(int(np.prod(array.shape)) for array in arrays(jaxpr))


def test_the_whole_logits_never_exist_not_even_backwards():
  chunked = largest(lambda *args: logps.token_logps(*args, chunk=4))
  # 36 padded hidden states of width 5; a chunk of logits has 4 * 17 = 68.
  assert chunked == 36 * D < N * L * V
  assert largest(whole) >= N * (L - 1) * V  # this test sees them if they do


def test_impossible_settings_are_refused():
  with pytest.raises(ValueError, match='chunk is 0'):
    logps.token_logps(*inputs(), chunk=0)
  with pytest.raises(ValueError, match='temperature is 0'):
    logps.token_logps(*inputs(), chunk=4, temperature=0)
