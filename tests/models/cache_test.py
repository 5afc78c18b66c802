# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rows that grow unequally in a cache say what whole rows say."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.models import cache as caches
from searchrl_jax.models import decoder

CLOSE = {'rtol': 1e-5, 'atol': 2e-5}


def build(config, noisy, unrolled=True):
  model = decoder.build_model(config, unrolled=unrolled)
  params = noisy(model)
  return model, params, model.unstack(params)


def rows_of(config, lengths):
  rng = np.random.default_rng(1)
  return [rng.integers(0, config.vocabulary, n) for n in lengths]


def feed(step, rollout, cache, rows, counts, width):
  """Appends the next counts[r] tokens of each row; junk fills up to width."""
  start = np.asarray(cache.length_R)
  tokens = np.random.default_rng(2).integers(0, 5, (len(rows), width))
  for r, count in enumerate(counts):
    tokens[r, :count] = rows[r][start[r] : start[r] + count]
  tokens = jnp.asarray(tokens, jnp.int32)
  hidden, cache = step(rollout, tokens, jnp.asarray(counts, jnp.int32), cache)
  return [np.asarray(hidden[r, :n]) for r, n in enumerate(counts)], cache


@pytest.mark.parametrize('unrolled', [True, False])
def test_cached_rows_equal_whole_rows(variant, noisy, whole, unrolled):
  # Extends of up to 4 tokens, then one by one until every row is done; rows
  # that have nothing to append wait with count 0.
  #   row 0 (7 tokens)    3 0 1 | 1 1 1
  #   row 1 (11)          4 4 1 | 1 1
  #   row 2 (2)           0 2 0 |
  #   row 3 (12 = C)      4 1 4 | 1 1 1
  model, params, rollout = build(variant, noisy, unrolled)
  rows = rows_of(variant, (7, 11, 2, 12))
  seen = [[], [], [], []]
  cache = model.empty_cache(4, 12)
  step = jax.jit(model.apply_cached)
  schedule = [(4, (3, 4, 0, 4)), (4, (0, 4, 2, 1)), (4, (1, 1, 0, 4))]
  schedule += [(1, (1, 1, 0, 1)), (1, (1, 1, 0, 1)), (1, (1, 0, 0, 1))]
  for width, counts in schedule:
    hidden, cache = feed(step, rollout, cache, rows, counts, width)
    for r in range(4):
      seen[r].append(hidden[r])
  np.testing.assert_array_equal(cache.length_R, [7, 11, 2, 12])
  expected = whole(model, params, rows)
  for r in range(4):
    np.testing.assert_allclose(np.concatenate(seen[r]), expected[r], **CLOSE)


def test_an_append_near_the_end_moves_its_window_not_its_columns():
  # C = 8, T = 3, values 10 (column + 1) before, new tokens 1, 2, 3.
  #   length 4, count 2: 10 20 30 40  1  2 70 80   window at 4
  #   length 7, count 1: 10 20 30 40 50 60 70  1   window at 5, moved by 2;
  #                      unguarded, XLA would write 1 2 3 over 60 70 80
  #   length 8, count 0: full and done, bit for bit as it was
  #   length 6, count 3: 10 20 30 40 50 60  1  2   the third is dropped
  old = 10.0 * jnp.arange(1, 9)
  buffer = jnp.broadcast_to(old[:, None], (4, 1, 2, 8, 1))
  new = jnp.array([1.0, 2.0, 3.0])[:, None]
  new = jnp.broadcast_to(new, (4, 2, 3, 1))
  expected = [
    [10, 20, 30, 40, 1, 2, 70, 80],
    [10, 20, 30, 40, 50, 60, 70, 1],
    [10, 20, 30, 40, 50, 60, 70, 80],
    [10, 20, 30, 40, 50, 60, 1, 2],
  ]
  length, count = jnp.array([4, 7, 8, 6]), jnp.array([2, 1, 0, 3])
  rows = jnp.arange(4)
  k = caches.append(buffer, new, rows, length, count, layer=0)
  for head in range(2):
    np.testing.assert_array_equal(k[:, 0, head, :, 0], expected)


@jax.jit
def append_layer_one(buffer, new, rows, length, count):
  return caches.append(buffer, new, rows, length, count, layer=1)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(st.data())
def test_an_append_is_what_a_list_would_do(data):
  """To some rows in any order; row 4 is none of them."""
  rows, capacity, width = 3, 7, 3
  draw = st.lists(
    st.tuples(st.integers(0, capacity + 2), st.integers(0, width)),
    min_size=rows,
    max_size=rows,
  )
  lengths, counts = zip(*data.draw(draw), strict=True)
  chosen = data.draw(st.permutations(range(5)))[:rows]
  buffer = np.arange(4 * 2 * capacity, dtype=np.float32)
  buffer = buffer.reshape(4, 2, 1, capacity, 1)
  new = -1.0 - np.arange(rows * width, dtype=np.float32)
  new = new.reshape(rows, 1, width, 1)
  expected = buffer.copy()
  for a, r in enumerate(chosen):
    for j in range(counts[a]):
      if r < 4 and lengths[a] + j < capacity:
        expected[r, 1, 0, lengths[a] + j, 0] = new[a, 0, j, 0]
  numbers = (jnp.array(x, jnp.int32) for x in (chosen, lengths, counts))
  got = append_layer_one(buffer, new, *numbers)
  np.testing.assert_array_equal(got, expected)


def test_rows_taken_out_and_put_back(plain):
  """Row 9 is none: taken it is a copy, put it is dropped."""
  cache = caches.empty(plain, 4, 6, unrolled=True)
  cache = jax.tree.map(
    lambda x: jnp.arange(x.size, dtype=x.dtype).reshape(x.shape), cache
  )
  rows = jnp.array([2, 0, 9])
  part = caches.take(cache, rows)
  for whole, taken in zip(
    jax.tree.leaves(cache), jax.tree.leaves(part), strict=True
  ):
    np.testing.assert_array_equal(taken[:2], whole[np.array([2, 0])])
  changed = jax.tree.map(lambda x: -x - 1, part)
  back = caches.put(cache, rows, changed)
  for whole, now in zip(
    jax.tree.leaves(cache), jax.tree.leaves(back), strict=True
  ):
    np.testing.assert_array_equal(
      now[np.array([1, 3])], whole[np.array([1, 3])]
    )
    np.testing.assert_array_equal(
      now[np.array([2, 0])], -whole[np.array([2, 0])] - 1
    )


def test_overflow_drops_what_does_not_fit_and_is_reported(plain, noisy):
  model, _, rollout = build(plain, noisy)
  rows = rows_of(plain, (9, 9))
  step = jax.jit(model.apply_cached)
  cache = model.empty_cache(2, 5)
  _, cache = feed(step, rollout, cache, rows, (4, 2), 4)
  caches.check(cache)
  _, full = feed(step, rollout, cache, rows, (3, 3), 4)
  np.testing.assert_array_equal(full.length_R, [7, 5])
  for before, after in zip(cache.k, full.k, strict=True):
    np.testing.assert_array_equal(before[0, :, :, :4], after[0, :, :, :4])
  with pytest.raises(ValueError, match='7 tokens do not fit') as error:
    caches.check(full)
  assert '\n' not in str(error.value)


def test_a_truncated_tail_is_invisible(variant, noisy):
  # Both caches hold the same first tokens; one has seen others after them.
  model, _, rollout = build(variant, noisy)
  rows = rows_of(variant, (9, 9))
  stray = rows_of(variant, (20, 20))
  step = jax.jit(model.apply_cached)
  clean = model.empty_cache(2, 12)
  _, clean = feed(step, rollout, clean, rows, (4, 2), 4)
  used = clean
  for _ in range(2):
    _, used = feed(step, rollout, used, stray, (3, 4), 4)
  used = caches.truncate(used, jnp.array([4, 2]))
  for _ in range(2):
    expected, clean = feed(step, rollout, clean, rows, (1, 3), 4)
    got, used = feed(step, rollout, used, rows, (1, 3), 4)
    for a, b in zip(got, expected, strict=True):
      np.testing.assert_array_equal(a, b)


def test_truncating_never_lengthens(plain):
  cache = caches.empty(plain, 3, 8, unrolled=True)
  cache = caches.Cache(cache.k, cache.v, jnp.array([5, 2, 7]))
  cache = caches.truncate(cache, jnp.array([3, 6, 7]))
  np.testing.assert_array_equal(cache.length_R, [3, 2, 7])


@pytest.mark.parametrize('unrolled', [True, False])
def test_a_shared_prompt_continues_as_if_prefilled_alone(
  plain, noisy, whole, unrolled
):
  # Two prompts of 5 and 3 tokens, three rollouts each: rows 0-2 and 3-5.
  model, params, rollout = build(plain, noisy, unrolled)
  prompts = rows_of(plain, (5, 3))
  step = jax.jit(model.apply_cached)
  cache = model.empty_cache(2, 12)
  _, cache = feed(step, rollout, cache, prompts, (5, 3), 5)
  cache = caches.repeat(cache, 3)
  counts = (1, 4, 2, 0, 3, 1)
  rows = [
    np.concatenate([prompts[r // 3], tail])
    for r, tail in enumerate(rows_of(plain, counts))
  ]
  hidden, cache = feed(step, rollout, cache, rows, counts, 4)
  np.testing.assert_array_equal(cache.length_R, [6, 9, 7, 3, 6, 4])
  for r, expected in enumerate(whole(model, params, rows)):
    start = len(rows[r]) - counts[r]
    np.testing.assert_allclose(hidden[r], expected[start:], **CLOSE)


def test_a_decoding_loop_writes_the_cache_in_place(plain, noisy):
  # The cache is donated and carried; scratch memory stays below one layer's
  # keys: not one of the four arrays is copied, at no token.
  model, _, rollout = build(plain, noisy)
  cache = model.empty_cache(2, 4096)

  def decode(rollout, cache, tokens):
    def step(carry):
      tokens, cache, count = carry
      hidden, cache = model.apply_cached(
        rollout, tokens, jnp.ones(2, jnp.int32), cache
      )
      logits = hidden[:, 0] @ model.unembedding(rollout).T
      tokens = jnp.argmax(logits, axis=-1).astype(jnp.int32)[:, None]
      return tokens, cache, count + 1

    return jax.lax.while_loop(lambda c: c[2] < 9, step, (tokens, cache, 0))[:2]

  tokens = jnp.zeros((2, 1), jnp.int32)
  program = jax.jit(decode, donate_argnums=1).lower(rollout, cache, tokens)
  memory = program.compile().memory_analysis()
  assert memory.temp_size_in_bytes < cache.k[0].nbytes
  assert memory.alias_size_in_bytes >= 4 * cache.k[0].nbytes


def test_impossible_appends_are_refused(plain, noisy):
  model, _, rollout = build(plain, noisy)
  cache = model.empty_cache(2, 5)
  tokens = jnp.zeros((2, 6), jnp.int32)
  with pytest.raises(ValueError, match='6 tokens cannot be appended'):
    model.apply_cached(rollout, tokens, jnp.array([1, 1]), cache)
  with pytest.raises(ValueError, match='they must agree'):
    model.apply_cached(rollout, tokens[:1, :3], jnp.array([1]), cache)
  with pytest.raises(ValueError, match='0 rows'):
    model.empty_cache(0, 5)
