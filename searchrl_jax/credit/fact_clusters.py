# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Which facts of a group say the same: clusters of near-duplicate triples.

Step 1 of FactAgent (EMNLP 2026), for all questions at once. Facts link where
their embeddings are close and three rules agree; a cluster is whatever links
connect, and its name is the smallest fact index in it:

  fact      0  1  2  3  4  .        links  0-2  2-4
  mask      1  1  1  1  1  0
  cluster   0  1  0  3  0 -1        0 and 4 need not be close themselves
"""

import chex
import jax
import jax.numpy as jnp

# A cosine this far below its threshold still reaches it: the similarity of a
# text with itself is 1 only up to float32 rounding.
TOLERANCE = 1e-6

_EXACT = jax.lax.Precision.HIGHEST


def _pairs(one_BM):
  """Both facts of a pair: `[B, M, M]` from `[B, M]` booleans."""
  return one_BM[:, :, None] & one_BM[:, None, :]


def _equal(number_BM):
  """Whether the two facts of a pair have the same number."""
  return number_BM[:, :, None] == number_BM[:, None, :]


def _cosines(vector_BME, usable_BM):
  """Cosine of every pair, and which vectors have a direction at all.

  Vectors are divided by their largest entry first, so that no square leaves
  float32. Lengths are read off the diagonal of the same product: equal
  vectors then agree to the last bits, however they are summed.
  """
  vector_BME = jnp.where(usable_BM[..., None], vector_BME, 0.0)
  size_BM1 = jnp.abs(vector_BME).max(axis=-1, keepdims=True, initial=0.0)
  some_BM1 = size_BM1 >= jnp.finfo(jnp.float32).tiny
  vector_BME = jnp.where(some_BM1, vector_BME, 0.0)
  vector_BME = vector_BME / jnp.where(some_BM1, size_BM1, 1.0)
  dot_BMM = jnp.einsum('bie,bje->bij', vector_BME, vector_BME, precision=_EXACT)
  length_BM = jnp.sqrt(jnp.diagonal(dot_BMM, axis1=1, axis2=2))
  length_BM = jnp.where(some_BM1[..., 0], length_BM, 1.0)
  cosine_BMM = dot_BMM / (length_BM[:, :, None] * length_BM[:, None, :])
  return cosine_BMM, some_BM1[..., 0]


def _components(link_BMM, fact_mask_BM):
  """The smallest index that links lead to, -1 for masked facts.

  A path has at most M - 1 links, and every squaring of the reachability
  matrix doubles the length it covers: ceil(log2(M)) of them cover all.
  """
  facts = fact_mask_BM.shape[1]
  itself_1MM = jnp.eye(facts, dtype=bool)[None]
  link_BMM = link_BMM & _pairs(fact_mask_BM)
  reach_BMM = link_BMM | link_BMM.transpose(0, 2, 1) | itself_1MM

  def square(_, reach_BMM):
    step_BMM = reach_BMM.astype(jnp.float32)
    return jnp.einsum('bij,bjk->bik', step_BMM, step_BMM) > 0

  squarings = max(facts - 1, 0).bit_length()
  reach_BMM = jax.lax.fori_loop(0, squarings, square, reach_BMM)
  index_11M = jnp.arange(facts, dtype=jnp.int32)[None, None, :]
  first_BM = jnp.where(reach_BMM, index_11M, facts).min(axis=-1, initial=facts)
  return jnp.where(fact_mask_BM, first_BM, -1)


def cluster(
  embedding_BME,
  relation_BME,
  negated_BM,
  numbers_BM,
  fact_mask_BM,
  *,
  threshold,
  relation_threshold,
):
  """Clusters of facts that say the same, within each question.

  FactAgent (EMNLP 2026). Two facts link where the cosine of their embeddings
  and that of their relations reach their thresholds, and negation and numbers
  are equal: embeddings alone cannot tell "born in" from "not born in", or
  1912 from 1921. Clusters are the connected components of the links.

  A cosine within 1e-6 below a threshold reaches it. A relation of zeros has
  cosine 0 with any other. A fact whose embedding is all zeros, or that has a
  value which is not finite, is a cluster of its own.

  Args:
    embedding_BME: embeddings of whole facts, of any length.
    relation_BME: embeddings of their relations, of any length and width.
    negated_BM: which facts deny something.
    numbers_BM: int32, equal where the sets of numbers in the facts are equal.
    fact_mask_BM: which facts exist; whatever stands elsewhere is not read.
    threshold: least cosine of embeddings, in [-1, 1].
    relation_threshold: least cosine of relations; -1 asks nothing of them.

  Returns:
    int32 `[B, M]`: the smallest fact index of each fact's cluster, -1 where
    there is no fact.
  """
  chex.assert_rank([embedding_BME, relation_BME, fact_mask_BM], [3, 3, 2])
  chex.assert_equal_shape([negated_BM, numbers_BM, fact_mask_BM])
  chex.assert_equal_shape_prefix([embedding_BME, relation_BME, fact_mask_BM], 2)
  embedding_BME = jnp.asarray(embedding_BME, jnp.float32)
  relation_BME = jnp.asarray(relation_BME, jnp.float32)
  fact_mask_BM = jnp.asarray(fact_mask_BM, bool)
  finite_BM = jnp.isfinite(embedding_BME).all(axis=-1)
  finite_BM = finite_BM & jnp.isfinite(relation_BME).all(axis=-1)
  usable_BM = fact_mask_BM & finite_BM
  meaning_BMM, some_BM = _cosines(embedding_BME, usable_BM)
  relation_BMM, _ = _cosines(relation_BME, usable_BM)
  link_BMM = (meaning_BMM >= threshold - TOLERANCE) & (
    relation_BMM >= relation_threshold - TOLERANCE
  )
  link_BMM = link_BMM & _equal(jnp.asarray(negated_BM, bool))
  link_BMM = link_BMM & _equal(jnp.asarray(numbers_BM))
  return _components(link_BMM & _pairs(usable_BM & some_BM), fact_mask_BM)


def cluster_exact(key_BM, fact_mask_BM):
  """The published ablation: facts cluster where their triples are equal.

  Args:
    key_BM: int32, equal where the normalised triples are equal.
    fact_mask_BM: which facts exist.

  Returns:
    As `cluster`.
  """
  chex.assert_rank([key_BM, fact_mask_BM], 2)
  chex.assert_equal_shape([key_BM, fact_mask_BM])
  fact_mask_BM = jnp.asarray(fact_mask_BM, bool)
  facts = fact_mask_BM.shape[1]
  same_BMM = _equal(jnp.asarray(key_BM)) & _pairs(fact_mask_BM)
  # Equality is transitive: the smallest index is one step away.
  index_11M = jnp.arange(facts, dtype=jnp.int32)[None, None, :]
  first_BM = jnp.where(same_BMM, index_11M, facts).min(axis=-1, initial=facts)
  return jnp.where(fact_mask_BM, first_BM, -1)
