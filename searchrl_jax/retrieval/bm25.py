# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""BM25 over a corpus in memory, by bm25s.

bm25s keeps the scores of every (word, passage) pair, so that a query is a sum
of a few sparse columns. What it leaves undefined is settled here:

  no word of the query is known    no documents
  fewer matches than topk          all that match; never one of score zero
  equal scores                     the earlier passage first
  composed / decomposed letters    the same word (NFC)
  words of one character           words
"""

import dataclasses
import logging
import re
import unicodedata
from collections.abc import Sequence

import numpy as np
import Stemmer

from searchrl_jax import types

_WORD = re.compile(r'\w+')


@dataclasses.dataclass(frozen=True)
class BM25Options:
  """How passages are indexed.

  Attributes:
    title_weight: how often the words of a title count. A page about X should
      outrank a page that mentions X.
    stem: reduces English words to their stems (Snowball).
    k1: saturation of repeated words; bm25s's default.
    b: share of length normalisation; bm25s's default.
  """

  title_weight: int = 2
  stem: bool = False
  k1: float = 1.5
  b: float = 0.75


class BM25:
  """An immutable index over the passages of one corpus."""

  def __init__(
    self,
    documents: Sequence[types.Document],
    options: BM25Options = BM25Options(),
  ):
    """Indexes the documents.

    Raises:
      ValueError: where there are no documents.
    """
    if not documents:
      raise ValueError('the corpus is empty; an index needs passages')
    # Imported late: importing bm25s starts a JAX backend, which must not
    # happen before a program has set up its devices and processes.
    import bm25s

    # Its logger prints a line for every index where a root handler is set.
    logging.getLogger('bm25s').setLevel(logging.WARNING)
    self.documents = tuple(documents)
    self._stem = Stemmer.Stemmer('english').stemWords if options.stem else list
    self._vocabulary = {}
    ids = [
      self._add(document.title) * options.title_weight
      + self._add(document.text)
      for document in self.documents
    ]
    self._index = bm25s.BM25(k1=options.k1, b=options.b, backend='numpy')
    if self._vocabulary:  # bm25s cannot index passages without any word
      self._index.index(
        (ids, self._vocabulary), create_empty_token=False, show_progress=False
      )

  def search(
    self, queries: Sequence[str], topk: int
  ) -> list[tuple[types.Document, ...]]:
    """The best passages of each query, best first.

    Args:
      queries: any texts; equal ones are scored once.
      topk: the most documents a query gets, at least 1.

    Returns:
      One tuple per query, empty where no word of the query is known.

    Raises:
      ValueError: where topk is below 1.
    """
    if topk < 1:
      raise ValueError(f'topk must be at least 1, not {topk}')
    hits = {
      query: self._search(query, topk) for query in dict.fromkeys(queries)
    }
    return [hits[query] for query in queries]

  def _search(self, query: str, topk: int) -> tuple[types.Document, ...]:
    vocabulary = self._vocabulary
    ids = [
      vocabulary[word] for word in self._words(query) if word in vocabulary
    ]
    if not ids:
      return ()
    # bm25s's own retrieve() costs 0.3 ms a query whatever the corpus, and
    # leaves the order of equal scores open.
    scores = self._index.get_scores_from_ids(ids)
    return tuple(self.documents[i] for i in _best(scores, topk))

  def _words(self, text: str) -> list[str]:
    text = unicodedata.normalize('NFC', text.casefold())
    return self._stem(_WORD.findall(text))

  def _add(self, text: str) -> list[int]:
    known = self._vocabulary
    return [known.setdefault(word, len(known)) for word in self._words(text)]


def _best(scores: np.ndarray, topk: int) -> np.ndarray:
  """Positions of the topk largest positive scores, ties by position."""
  matching = np.flatnonzero(scores > 0)
  if len(matching) > topk:
    # All that reach the k-th largest score, so that a stable sort settles
    # ties at the border by position too.
    border = np.partition(scores[matching], -topk)[-topk]
    matching = matching[scores[matching] >= border]
  order = np.argsort(-scores[matching], kind='stable')
  return matching[order[:topk]]
