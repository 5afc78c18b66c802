# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""BM25 has a defined result for every query and every corpus."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax import types
from searchrl_jax.retrieval import bm25

PAGES = (
  types.Document('a', 'Ada', 'the spouse of Ada is Bob'),
  types.Document('b', 'Bob', 'Bob lives in Rome with Ada and Ada is happy'),
  types.Document('c', 'Rome', 'a city'),
)


def ids(documents):
  return [document.id for document in documents]


def search(query, topk=3, documents=PAGES, **options):
  index = bm25.BM25(documents, bm25.BM25Options(**options))
  return ids(index.search([query], topk)[0])


def test_unseen_words_and_empty_queries_find_nothing():
  for query in ('', ' \n ', 'zebra', '?!', '🙂'):
    assert search(query) == [], query


def test_topk_beyond_the_corpus_gives_all_that_match():
  assert search('city', topk=100) == ['c']
  assert sorted(search('ada city', topk=100)) == ['a', 'b', 'c']


def test_a_corpus_of_one_passage_works():
  assert search('ada', documents=PAGES[:1]) == ['a']
  assert search('rome', documents=PAGES[:1]) == []


def test_passages_without_words_do_not_disturb():
  empty = types.Document('e', '', '')
  assert search('city', documents=(empty, *PAGES)) == ['c']
  assert search('city', documents=(empty, empty)) == []


def test_an_empty_corpus_and_a_bad_topk_are_errors():
  with pytest.raises(ValueError, match='corpus is empty'):
    bm25.BM25(())
  with pytest.raises(ValueError, match='topk must be at least 1'):
    bm25.BM25(PAGES).search(['ada'], 0)


def test_the_title_counts_extra():
  # Both pages hold "ada" once in eleven words: in the title, or in the text.
  about = types.Document('a', 'Ada', 'she ' + 'word ' * 9)
  mention = types.Document('m', 'Bob', 'Ada ' + 'word ' * 9)
  for documents in ((about, mention), (mention, about)):
    assert search('ada', documents=documents) == ['a', 'm']
  # Without extra weight the two are equal, and position decides.
  assert search('ada', documents=(mention, about), title_weight=1)[0] == 'm'


def test_a_score_by_hand():
  # Lucene's form: idf = ln(1 + (N - n + .5) / (n + .5)), and
  # tf / (tf + k1 (1 - b + b len / mean)). Two pages of 2 words each (title
  # weight 0), the word in one of them: ln(1 + 1.5/1.5) * 1 / (1 + 1.5).
  pages = (types.Document('0', '', 'x y'), types.Document('1', '', 'y z'))
  index = bm25.BM25(pages, bm25.BM25Options(title_weight=0))
  scores = index._index.get_scores_from_ids([index._vocabulary['x']])
  np.testing.assert_allclose(scores, [math.log(2) / 2.5, 0], rtol=1e-6)


def test_composed_and_decomposed_letters_are_one_word():
  page = types.Document('z', 'Zürich', 'a café')
  assert search('zu\u0308rich', documents=(page,)) == ['z']
  assert search('CAFE\u0301', documents=(page,)) == ['z']


def test_one_character_words_are_kept():
  pages = (
    types.Document('x', '', 'vitamin C'),
    types.Document('y', '', 'vitamin D'),
  )
  assert search('d', documents=pages) == ['y']
  assert search('vitamin 東', documents=pages) == ['x', 'y']


def test_stems_are_an_option():
  assert search('cities') == []
  assert search('cities', stem=True) == ['c']


def test_equal_queries_of_a_batch_get_equal_results_in_place():
  index = bm25.BM25(PAGES)
  results = index.search(['city', 'zebra', 'city', 'ada'], 1)
  assert [ids(result) for result in results] == [['c'], [], ['c'], ['a']]
  assert index.search([], 1) == []


@given(
  st.lists(st.integers(-1, 3).map(float), min_size=1, max_size=12),
  st.integers(1, 14),
)
def test_best_equals_a_full_sort(scores, topk):
  ranked = sorted(
    (i for i, score in enumerate(scores) if score > 0),
    key=lambda i: (-scores[i], i),
  )
  assert bm25._best(np.asarray(scores), topk).tolist() == ranked[:topk]


@given(st.text(max_size=30), st.integers(1, 4))
def test_any_query_has_a_result(query, topk):
  found = bm25.BM25(PAGES).search([query], topk)[0]
  assert len(found) <= topk and set(found) <= set(PAGES)
