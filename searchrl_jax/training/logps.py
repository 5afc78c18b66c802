# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities and entropies from hidden states, without `[N, L, V]`.

Logits of a long batch are the largest array of training by far (16 x 512
tokens of a 49k vocabulary: 1.6 GB). They are made for `chunk` tokens at a
time, reduced to two numbers a token, and made again in the backward pass.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
from jax import lax

from searchrl_jax.models import products


def token_logps(
  hidden_NLD, unembedding_VD, tokens_NL, *, chunk: int, temperature=1.0
):
  """Log-probability of each token and entropy of what it was drawn from.

  Token t was drawn from p_t = softmax(U h_{t-1} / temperature):

    tokens    a        b            c
    hidden    h0       h1           h2
    logps     0        log p(b|h0)  log p(c|h1)
    entropy   0        H(p|h0)      H(p|h1)

  The first token of a packed segment is scored from the end of the segment
  before it: that number means nothing and is never read, since the first
  token of a row is always given. Float32 whatever the inputs; differentiable
  in both hidden states and unembedding. Logits are products in the dtype of
  the hidden states, as the sampler's are, with float32 sums.

  Args:
    hidden_NLD: hidden states after the final norm.
    unembedding_VD: one row per vocabulary entry.
    tokens_NL: token ids.
    chunk: tokens whose logits exist at a time; at most chunk * V floats do.
    temperature: what the sampler divided its logits by.

  Returns:
    (logps_NL, entropy_NL) in nats, 0 in the first column.

  Raises:
    ValueError: chunk below 1 or temperature not above 0.
  """
  chex.assert_rank([hidden_NLD, unembedding_VD, tokens_NL], [3, 2, 2])
  chex.assert_equal_shape_prefix([hidden_NLD, tokens_NL], 2)
  if chunk < 1:
    raise ValueError(f'chunk is {chunk}: set it to 1 token or more')
  if temperature <= 0:
    raise ValueError(
      f'temperature is {temperature}: log-probabilities need one above 0'
    )
  shape, width = tokens_NL.shape, hidden_NLD.shape[-1]
  # Moving the targets to their hidden states is cheaper than the reverse; the
  # last column wraps round and is dropped below.
  targets_NL = jnp.roll(tokens_NL, -1, axis=1)

  @jax.checkpoint
  def score(hidden_and_targets):
    hidden, targets = hidden_and_targets
    return _score(hidden, unembedding_VD, targets, temperature)

  chunks = (
    _chunks(hidden_NLD.reshape(-1, width), chunk),
    _chunks(targets_NL.reshape(-1), chunk),
  )
  logps, entropy = lax.map(score, chunks)

  def back(values):
    values = values.reshape(-1)[: tokens_NL.size].reshape(shape)
    return jnp.pad(values[:, :-1], ((0, 0), (1, 0)))

  return back(logps), back(entropy)


def _score(hidden, unembedding, targets, temperature):
  """log p(target) and entropy, for one chunk: H = log Z - sum_v p_v s_v."""
  logits = products.logits(hidden, unembedding) / temperature
  log_z = jax.nn.logsumexp(logits, axis=-1)
  chosen = jnp.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
  probs = jnp.exp(logits - log_z[:, None])
  return chosen - log_z, log_z - jnp.sum(probs * logits, axis=-1)


def _chunks(values, chunk):
  """`[n, ...]` -> `[ceil(n / chunk), chunk, ...]`, zero-padded at the end."""
  short = -values.shape[0] % chunk
  padding = ((0, short),) + ((0, 0),) * (values.ndim - 1)
  return jnp.pad(values, padding).reshape(-1, chunk, *values.shape[1:])
