# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The search resolver serves every request, each from its own corpus."""

import pytest

from searchrl_jax import types
from searchrl_jax.retrieval import resolver

PAGE = types.Document
WORLDS = {
  'one': (PAGE('0', 'Ada', 'Ada lives in Rome'),),
  'two': (
    PAGE('0', 'Ada', 'Ada lives in Oslo'),
    PAGE('1', 'Bob', 'Bob and Ada'),
  ),
}


def search(corpus, query='ada', topk=2):
  return types.Search(query, topk, corpus)


def test_each_corpus_answers_its_own_requests_in_order():
  resolve = resolver.SearchResolver(WORLDS.__getitem__)
  results = resolve(
    [
      search('two'),
      search('one'),
      search('two', 'bob'),
      search('two', topk=1),
      search('one', 'zebra'),
    ]
  )
  assert results == [
    WORLDS['two'],
    WORLDS['one'],
    WORLDS['two'][1:],
    WORLDS['two'][:1],
    (),
  ]
  assert resolve([]) == []


def test_what_it_cannot_serve_fails_alone():
  resolve = resolver.SearchResolver(WORLDS.__getitem__)
  results = resolve(
    [
      types.Open('http://x'),
      search('three'),
      search('one'),
      types.Find('x'),
      types.Generate('x'),
      search('three', 'bob'),
    ]
  )
  assert results == [
    types.Failed('no tool for Open requests'),
    types.Failed('no corpus named "three"'),
    WORLDS['one'],
    types.Failed('no tool for Find requests'),
    types.Failed('no tool for Generate requests'),
    types.Failed('no corpus named "three"'),
  ]


def test_an_index_is_built_once_and_the_oldest_leaves():
  built = []

  def documents_of(corpus):
    built.append(corpus)
    return WORLDS['one']

  resolve = resolver.SearchResolver(documents_of, capacity=2)
  resolve([search('a'), search('b'), search('a')])
  assert built == ['a', 'b']
  resolve([search('a')])  # a is now the one used last
  resolve([search('c')])  # so b leaves
  resolve([search('a'), search('c')])
  assert built == ['a', 'b', 'c']
  resolve([search('b')])
  assert built == ['a', 'b', 'c', 'b']


def test_an_empty_corpus_is_loud_and_not_a_failed_tool():
  resolve = resolver.SearchResolver(lambda corpus: ())
  with pytest.raises(ValueError, match='corpus is empty'):
    resolve([search('a')])


def test_capacity_is_checked():
  with pytest.raises(ValueError, match='capacity'):
    resolver.SearchResolver(WORLDS.__getitem__, capacity=0)
