# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Clusters of facts: chains, rules, and vectors that are no directions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.credit import fact_clusters

NAN, INF = float('nan'), float('inf')
jitted = jax.jit(fact_clusters.cluster)


def cluster(embedding, *, threshold=0.85, relation_threshold=0.6, **changes):
  """Clusters the facts of one question that differ in nothing else."""
  embedding = np.asarray(embedding, np.float32)
  facts = len(embedding)
  values = {
    'relation': np.ones((facts, 2), np.float32),
    'negated': np.zeros(facts, bool),
    'numbers': np.zeros(facts, np.int32),
    'mask': np.ones(facts, bool),
  } | {name: np.asarray(value) for name, value in changes.items()}
  result = jitted(
    embedding[None],
    *(values[name][None] for name in ('relation', 'negated', 'numbers')),
    values['mask'][None],
    threshold=threshold,
    relation_threshold=relation_threshold,
  )
  assert result.dtype == jnp.int32
  return np.asarray(result[0]).tolist()


def chain(facts):
  """Fact i shares half of itself with fact i + 1, nothing with the rest."""
  return np.eye(facts + 1)[:-1] + np.eye(facts + 1)[1:]


@pytest.mark.parametrize('facts', [1, 2, 3, 5, 17, 33, 48, 63, 64])
def test_a_chain_is_one_cluster(facts):
  # Neighbours have cosine 1/2, the ends 0: only the chain connects them.
  order = np.random.default_rng(facts).permutation(facts)
  assert cluster(chain(facts)[order], threshold=0.49) == [0] * facts


def test_a_chain_breaks_where_a_link_is_missing():
  links = np.delete(chain(64), 40, axis=0)
  assert cluster(links, threshold=0.49) == [0] * 40 + [40] * 23
  # A masked fact is no bridge either, though it keeps its place.
  mask = np.arange(64) != 40
  named = cluster(chain(64), threshold=0.49, mask=mask)
  assert named == [0] * 40 + [-1] + [41] * 23


def test_a_cosine_at_the_threshold_reaches_it():
  # cos = 3 / 5 between them; 1e-6 of slack, not more.
  two = [[1, 0], [3, 4]]
  assert cluster(two, threshold=0.6) == [0, 0]
  assert cluster(two, threshold=0.6 + 5e-7) == [0, 0]
  assert cluster(two, threshold=0.6 + 3e-6) == [0, 1]
  # Directions count, not lengths: the plain product is 3.
  assert cluster(two, threshold=0.85) == [0, 1]


@pytest.mark.parametrize('scale', [1e-30, 1e-6, 1, 1e6, 1e30])
def test_equal_texts_cluster_at_threshold_one(scale):
  random = np.random.default_rng(3).normal(size=(8, 768)) * scale
  twice = np.concatenate([random, random])
  named = cluster(twice, threshold=1.0, relation_threshold=1.0)
  assert named == [*range(8), *range(8)]


def test_the_rules_keep_apart_what_embeddings_confuse():
  # One embedding for all four: "born in 1912", "not born in 1912", "born in
  # 1921", and "born in 1912" again.
  same = np.ones((4, 3))
  assert cluster(same) == [0] * 4
  negated = [False, True, False, False]
  assert cluster(same, negated=negated) == [0, 1, 0, 0]
  numbers = np.array([5, 5, 7, 5], np.int32)
  assert cluster(same, numbers=numbers) == [0, 0, 2, 0]
  assert cluster(same, negated=negated, numbers=numbers) == [0, 1, 2, 0]
  relation = np.array([[1, 0], [0, 1], [1, 0.1], [1, 1]], np.float32)
  # Cosines to the first: 0, .995, .7071; of the second with the last: .7071.
  assert cluster(same, relation=relation) == [0, 0, 0, 0]
  assert cluster(same, relation=relation, relation_threshold=0.8) == [
    0,
    1,
    0,
    3,
  ]
  assert cluster(same, relation=-relation, relation_threshold=-1) == [0] * 4


def test_a_rule_does_not_break_a_chain_that_goes_round_it():
  # 0 and 2 differ in relation (cosine 0), 1 stands between them (.7071).
  relation = np.array([[1, 0], [1, 1], [0, 1]], np.float32)
  assert cluster(np.ones((3, 2)), relation=relation) == [0, 0, 0]


def test_vectors_without_a_direction():
  # Fact 1 has no n-gram at all: cosine 0, and a cluster of its own even where
  # everything would do.
  vectors = [[1, 0], [0, 0], [0, 0], [0, 1]]
  assert cluster(vectors, threshold=0.5) == [0, 1, 2, 3]
  assert cluster(vectors, threshold=-1.0) == [0, 1, 2, 0]
  # A relation of zeros is similar to none, and harmless where none is asked.
  relation = np.zeros((4, 2), np.float32)
  assert cluster(np.ones((4, 2)), relation=relation) == [0, 1, 2, 3]
  named = cluster(np.ones((4, 2)), relation=relation, relation_threshold=-1)
  assert named == [0] * 4


@pytest.mark.parametrize('bad', [NAN, INF, -INF])
def test_what_is_not_finite_stands_alone(bad):
  vectors = np.ones((4, 2))
  vectors[1, 0] = bad
  assert cluster(vectors) == [0, 1, 0, 0]
  assert cluster(vectors, threshold=-1, relation_threshold=-1) == [0, 1, 0, 0]
  relation = vectors.astype(np.float32)
  assert cluster(np.ones((4, 2)), relation=relation) == [0, 1, 0, 0]
  # Masked, it is not read at all.
  mask = [True, False, True, True]
  named = cluster(vectors, relation=relation, mask=mask)
  assert named == [0, -1, 0, 0]


def test_questions_do_not_mix():
  # The same two facts in both questions; only the second masks one of them.
  mask = np.array([[True, True], [False, True]])
  named = jitted(
    np.ones((2, 2, 3), np.float32),
    np.ones((2, 2, 3), np.float32),
    np.zeros((2, 2), bool),
    np.zeros((2, 2), np.int32),
    mask,
    threshold=0.9,
    relation_threshold=0.9,
  )
  np.testing.assert_array_equal(named, [[0, 0], [-1, 1]])


def test_exact_clusters_are_equal_keys():
  key = jnp.array([[7, 0, 7, 0, 7, 3]])
  mask = jnp.array([[False, True, True, True, True, False]])
  named = jax.jit(fact_clusters.cluster_exact)(key, mask)
  # The masked first 7 names nothing: its cluster begins with fact 2.
  np.testing.assert_array_equal(named, [[-1, 1, 2, 1, 2, -1]])
  assert named.dtype == jnp.int32


def test_no_facts_at_all():
  assert cluster(np.full((3, 2), NAN), mask=[False] * 3) == [-1] * 3
  assert cluster(np.zeros((0, 2))) == []
  none = fact_clusters.cluster_exact(jnp.zeros((2, 0), int), np.zeros((2, 0)))
  assert none.shape == (2, 0)


def test_shapes_are_checked_at_the_door():
  with pytest.raises(AssertionError):
    cluster(np.ones((3, 2)), negated=np.zeros(2, bool))
