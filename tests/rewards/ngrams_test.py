# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Texts spelt alike lie close; every text has a vector, the same everywhere."""

import zlib

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from searchrl_jax.rewards.ngrams import NgramEmbedding


def cosine(first, second, embed=NgramEmbedding()):
  one, other = embed([first, second])
  return float(one @ other)


def test_one_bigram_by_hand():
  # The only bigrams of " x " are " x" and "x ": two places, two signs.
  places = np.zeros(8)
  for gram in (b' x', b'x '):
    code = zlib.crc32(gram)
    places[(code >> 1) % 8] += -1 if code & 1 else 1
  embed = NgramEmbedding(width=8, sizes=(2,))
  np.testing.assert_allclose(
    embed(['x'])[0], places / np.linalg.norm(places), rtol=1e-6
  )


def test_the_vectors_do_not_depend_on_the_process():
  # Python's own hash is salted: it would move these in every process.
  (vector,) = NgramEmbedding(width=8)(['Ada born in Rome'])
  counts = np.array([-3, 2, 2, 2, 2, -1, -2, 2])  # of 48 n-grams, signed
  np.testing.assert_allclose(vector, counts / np.sqrt(34), rtol=1e-6)


def test_spelling_decides():
  assert cosine('Ada born in Rome', 'the ada BORN, in Rome.') == (
    pytest.approx(1)
  )
  near = cosine('Ada born in Rome', 'Ada was born in Rome')
  far = cosine('Ada born in Rome', 'Ada born in Oslo')
  assert near > 0.85 > far > 0.3
  assert abs(cosine('founder', 'headquarters')) < 0.3
  # Words begin somewhere: the same letters in other words are other n-grams.
  assert cosine('ab cd', 'abcd') < 0.8


def test_texts_without_letters_have_vectors_of_their_own():
  assert cosine('', '') == pytest.approx(1)
  assert cosine('!!!', '!!!') == pytest.approx(1)
  assert cosine('!!!', '???') < 0.5
  assert cosine('the', 'the') == pytest.approx(1)  # an article is no word
  # Longer n-grams than the text: it counts as one.
  assert cosine('', '', NgramEmbedding(sizes=(9,))) == pytest.approx(1)


def test_shapes():
  embed = NgramEmbedding(width=16)
  assert embed([]).shape == (0, 16)
  vectors = embed(['a', 'b', 'a'])
  assert vectors.shape == (3, 16) and vectors.dtype == np.float32
  np.testing.assert_array_equal(vectors[0], vectors[2])
  vectors[0] = 0  # the caller's own copy
  assert embed(['a']).any()


@hypothesis.settings(deadline=None)
@hypothesis.given(text=st.text(), width=st.integers(1, 9))
def test_every_vector_is_of_length_one(text, width):
  # Few places: n-grams of opposite sign meet and may cancel all.
  vectors = NgramEmbedding(width=width)([text])
  np.testing.assert_allclose(np.linalg.norm(vectors), 1, rtol=1e-5)


def test_settings_that_embed_nothing_are_refused():
  for settings in ({'width': 0}, {'sizes': ()}, {'sizes': (0, 2)}):
    with pytest.raises(ValueError, match='at least 1'):
      NgramEmbedding(**settings)
