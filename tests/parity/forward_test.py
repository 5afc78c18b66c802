# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Every family gives the hidden states and logits that PyTorch gives."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests.parity import families, ours, theirs

# Of hidden states around 1 and logits around 10, in float32.
CLOSE = {'rtol': 1e-4, 'atol': 1e-4}
FAMILIES = tuple(families.FAMILIES)


@pytest.fixture(scope='module', params=FAMILIES)
def family(request):
  return request.param


@pytest.fixture(scope='module')
def pair(family, tmp_path_factory):
  """The same random model on both sides, float32."""
  model = theirs.make(families.draw(family, seed=0), seed=0)
  directory = theirs.save(model, tmp_path_factory.mktemp(family))
  return model, ours.load(directory)


def words(model, length, seed):
  rng = np.random.default_rng(seed)
  return rng.integers(0, model.config.vocab_size, length)


def assert_same(got, wanted):
  """(hidden, logits) of ours against a run of theirs."""
  np.testing.assert_allclose(got[0], wanted.hidden, **CLOSE)
  np.testing.assert_allclose(got[1], wanted.logits, **CLOSE)


def test_every_layer_agrees(pair):
  model, loaded = pair
  tokens = words(model, 70, seed=1)  # two blocks of queries
  wanted = theirs.alone(model, tokens)
  assert_same(loaded.alone(tokens), wanted)
  for count, states in enumerate(wanted.layers, start=1):
    got, _ = loaded.first_layers(count).alone(tokens)
    np.testing.assert_allclose(got, theirs.final_norm(model, states), **CLOSE)


@pytest.mark.parametrize('seed', (1, 2))
def test_random_sizes_agree(family, seed, tmp_path):
  model = theirs.make(families.draw(family, seed), seed)
  loaded = ours.load(theirs.save(model, tmp_path))
  tokens = words(model, 5 + 3 * seed, seed)
  assert_same(loaded.alone(tokens), theirs.alone(model, tokens))


def test_rows_padded_on_either_side_agree(pair):
  # row 0   . . . . a a a a a        left, as PyTorch generates
  # row 1   b b b b b b b b b
  # row 2   c c c c c c . . .        right
  model, loaded = pair
  a, b, c = (words(model, n, seed=n) for n in (5, 9, 6))
  tokens = words(model, (3, 9), seed=3)  # what is padded is junk
  attended, positions = np.zeros((3, 9), int), np.zeros((3, 9), int)
  places = ((0, 4, a), (1, 0, b), (2, 0, c))
  for row, start, own in places:
    here = (row, slice(start, start + len(own)))
    tokens[here], attended[here] = own, 1
    positions[here] = np.arange(len(own))
  wanted = theirs.run(model, tokens, positions, attended)
  hidden, logits = loaded.run(tokens, positions, attended)
  real = attended.astype(bool)
  np.testing.assert_allclose(hidden[real], wanted.hidden[real], **CLOSE)
  np.testing.assert_allclose(logits[real], wanted.logits[real], **CLOSE)


def test_packed_segments_equal_theirs_alone(pair):
  # row 0   a a a a a b b b c c . .
  # row 1   d d d d d d d e . . . .
  model, loaded = pair
  packed = [
    [words(model, n, seed=n) for n in row] for row in ((5, 3, 2), (7, 1))
  ]
  fields = np.zeros((3, 2, 12), int)
  for row, segments in enumerate(packed):
    start = 0
    for number, own in enumerate(segments, start=1):
      here = (row, slice(start, start + len(own)))
      for field, value in zip(
        fields, (own, np.arange(len(own)), number), strict=True
      ):
        field[here] = value
      start += len(own)
  hidden, logits = loaded.run(*fields)
  for row, segments in enumerate(packed):
    start = 0
    for own in segments:
      here = (row, slice(start, start + len(own)))
      assert_same((hidden[here], logits[here]), theirs.alone(model, own))
      start += len(own)


@pytest.mark.parametrize(
  'first, jump', [(0, 5000), (3000, 20000), (32000, 1000), (100000, 30000)]
)
def test_long_positions_agree(pair, first, jump):
  """Tokens that look at each other over a gap, far from position 0.

  The last jumps cross the original context of every scaled family.
  """
  model, loaded = pair
  tokens = words(model, 12, seed=4)
  positions = first + np.arange(12) + jump * (np.arange(12) >= 6)
  wanted = theirs.alone(model, tokens, positions)
  assert_same(loaded.alone(tokens, positions), wanted)


def test_bfloat16_rounds_no_worse_than_theirs(pair, tmp_path):
  """Errors against float32 of the same, bfloat16, weights."""
  model, _ = pair
  exact = theirs.load(theirs.save(model, tmp_path), torch.bfloat16)
  directory = theirs.save(exact, tmp_path / 'bfloat16')
  exact, rounded = exact.float(), theirs.load(directory, torch.bfloat16)
  loaded = ours.load(
    directory, param_dtype=jnp.bfloat16, compute_dtype=jnp.bfloat16
  )
  errors = []
  for seed in range(4):  # one row alone is a matter of luck
    tokens = words(model, 40, seed)
    truth = theirs.alone(exact, tokens)
    hidden, logits = loaded.alone(tokens)
    other = theirs.alone(rounded, tokens)
    errors.append(
      (
        hidden - truth.hidden,
        other.hidden - truth.hidden,
        logits - truth.logits,
        other.logits - truth.logits,
      )
    )
  ours_hidden, their_hidden, ours_logits, their_logits = (
    rms(x) for x in map(np.stack, zip(*errors, strict=True))
  )
  assert their_hidden > 1e-3  # bfloat16 it is
  assert ours_hidden < 1.3 * their_hidden
  assert ours_logits < 1.3 * their_logits


def rms(x):
  return np.sqrt(np.mean(np.square(x)))
