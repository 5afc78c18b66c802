# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Answers the search requests of an environment from indexes in memory."""

import collections
import threading
from collections.abc import Callable, Sequence

from searchrl_jax import types
from searchrl_jax.retrieval import bm25


class SearchResolver:
  """A resolver of `Search` requests over one BM25 index per corpus.

  One batch of requests may span several corpora: each is asked once. Indexes
  are built when first asked, and the `capacity` used last are kept. Safe to
  call from several threads, which take turns.
  """

  def __init__(
    self,
    documents_of: Callable[[str], Sequence[types.Document]],
    *,
    options: bm25.BM25Options = bm25.BM25Options(),
    capacity: int = 64,
  ):
    """Makes a resolver.

    Args:
      documents_of: the passages of a corpus by its name; raises LookupError
        for a corpus that it does not know.
      options: how passages are indexed.
      capacity: how many indexes are kept.

    Raises:
      ValueError: where capacity is below 1.
    """
    if capacity < 1:
      raise ValueError(f'capacity must be at least 1 index, not {capacity}')
    self._documents_of = documents_of
    self._options = options
    self._capacity = capacity
    self._indexes = collections.OrderedDict()
    self._lock = threading.Lock()

  def __call__(self, requests: Sequence[types.Request]) -> list[types.Result]:
    """The result of every request, in order.

    A request that is no search, or asks an unknown corpus, has the result
    `Failed`; the others are served all the same.
    """
    results = [_refusal(request) for request in requests]
    groups = collections.defaultdict(list)
    for i, request in enumerate(requests):
      if isinstance(request, types.Search):
        groups[request.corpus, request.topk].append(i)
    with self._lock:
      for (corpus, topk), places in groups.items():
        queries = [requests[i].query for i in places]
        found = self._search(corpus, queries, topk)
        for i, result in zip(places, found, strict=True):
          results[i] = result
    return results

  def _search(
    self, corpus: str, queries: Sequence[str], topk: int
  ) -> Sequence[types.Result]:
    if corpus not in self._indexes:
      try:
        documents = self._documents_of(corpus)
      except LookupError:
        return [types.Failed(f'no corpus named "{corpus}"')] * len(queries)
      self._indexes[corpus] = bm25.BM25(documents, self._options)
      if len(self._indexes) > self._capacity:
        self._indexes.popitem(last=False)
    self._indexes.move_to_end(corpus)
    return self._indexes[corpus].search(queries, topk)


def _refusal(request: types.Request) -> types.Failed:
  return types.Failed(f'no tool for {type(request).__name__} requests')
