# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rows that grow unequally in our cache say what PyTorch says of them whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.models import decoder
from tests.parity import families, ours, theirs

CLOSE = {'rtol': 1e-4, 'atol': 1e-4}
CAPACITY = 32
# Tokens that each row appends, call by call: none, one, all of the width.
#   row 0   p p p p p p p . . | t | r r r r
#   row 1   p p . . . . . . . | t | . . . .
#   row 2   p p p p p p p p p | . | r . . .
COUNTS = ((7, 2, 9), (1, 1, 0), (4, 0, 1), (1, 1, 1), (0, 5, 3))


@pytest.mark.parametrize(
  'name, unrolled',
  [('qwen3', False), *((name, True) for name in families.FAMILIES)],
)
def test_unequal_appends_agree(name, unrolled, tmp_path):
  model = theirs.make(families.draw(name, seed=0), seed=0)
  loaded = ours.load(theirs.save(model, tmp_path))
  cached = decoder.build_model(loaded.model.config, unrolled=unrolled)
  params = cached.unstack(loaded.params)
  step = jax.jit(cached.apply_cached)
  rng = np.random.default_rng(0)
  vocabulary = model.config.vocab_size
  rows = rng.integers(0, vocabulary, (3, sum(map(max, COUNTS))))
  cache, filled = cached.empty_cache(3, CAPACITY), np.zeros(3, int)
  grown = [[], [], []]
  for counts in COUNTS:
    width = max(counts)
    tokens = rng.integers(0, vocabulary, (3, width))  # beyond a count: junk
    for r, count in enumerate(counts):
      tokens[r, :count] = rows[r, filled[r] : filled[r] + count]
    hidden, cache = step(
      params,
      jnp.asarray(tokens, jnp.int32),
      jnp.asarray(counts, jnp.int32),
      cache,
    )
    for r, count in enumerate(counts):
      grown[r].append(np.asarray(hidden[r, :count]))
    filled += counts
  for r, pieces in enumerate(grown):
    wanted = theirs.alone(model, rows[r, : filled[r]])
    hidden = np.concatenate(pieces)
    np.testing.assert_allclose(hidden, wanted.hidden, **CLOSE)
    np.testing.assert_allclose(loaded.logits(hidden), wanted.logits, **CLOSE)


def test_a_cache_grows_past_the_original_context(tmp_path):
  # Trained for 64 positions, stretched to 256; the cache holds 200.
  scaling = {
    'rope_type': 'yarn',
    'factor': 4.0,
    'original_max_position_embeddings': 64,
    'rope_theta': 1e4,
  }
  fields = families.draw('qwen2-yarn', seed=0) | {
    'rope_parameters': scaling,
    'max_position_embeddings': 256,
  }
  model = theirs.make(fields, seed=0)
  loaded = ours.load(theirs.save(model, tmp_path))
  cached = loaded.model
  params = cached.unstack(loaded.params)
  step = jax.jit(cached.apply_cached)
  tokens = np.random.default_rng(0).integers(0, model.config.vocab_size, 200)
  cache, hidden = cached.empty_cache(1, 208), []
  for piece in np.split(tokens, 4):
    part, cache = step(
      params, jnp.asarray(piece[None], jnp.int32), jnp.array([50]), cache
    )
    hidden.append(np.asarray(part[0]))
  wanted = theirs.alone(model, tokens)
  np.testing.assert_allclose(np.concatenate(hidden), wanted.hidden, **CLOSE)
