# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Coefficients of tokens and the denominators they share."""

import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.training import aggregation

SEGMENTS = np.array([[1, 2, 2, 2, 2, 0]])
SAMPLED = np.array([[1, 0, 1, 1, 1, 0]], bool)


def make(weight):
  zeros = np.zeros(SEGMENTS.shape, np.float32)
  batch = types.Batch(
    tokens=zeros,
    positions=zeros,
    segment_ids=SEGMENTS,
    sampled=SAMPLED,
    turn_id=zeros,
    trajectory_id=zeros,
    sampler_logps=zeros,
  )
  weight = np.array([weight], np.float32)
  return batch, types.Targets(zeros, zeros, zeros, weight)


@pytest.mark.parametrize(
  ('weight', 'tokens', 'segments'),
  [
    ([1, 1, 1, 1, 1, 1], 4, 2),
    ([1, 9, 1, 0, 1, 9], 3, 2),  # a token weighted away
    ([0, 1, 1, 1, 1, 1], 3, 1),  # a segment weighted away
    ([0.5, 1, 1, 1, 1, 1], 3.5, 1.5),
    ([np.nan, 1, 1, 1, np.nan, np.inf], 2, 1),  # a NaN weight never counts
    ([0] * 6, 0, 0),
  ],
)
def test_counts(weight, tokens, segments):
  counts = aggregation.count(*make(weight))
  np.testing.assert_allclose(counts.tokens, tokens)
  np.testing.assert_allclose(counts.segments, segments, rtol=1e-6)


def coefficients(function, weight, **options):
  batch, targets = make(weight)
  weight_NL = aggregation.kept_weight(batch, targets)
  counts = aggregation.count(batch, targets)
  return function(weight_NL, batch.segment_ids, counts, **options)


def test_every_token_every_segment_or_a_constant():
  ones = [1] * 6
  np.testing.assert_allclose(
    coefficients(aggregation.token_mean, ones),
    np.array([[1, 0, 1, 1, 1, 0]]) / 4,
  )
  np.testing.assert_allclose(
    coefficients(aggregation.segment_mean, ones),
    np.array([[3, 0, 1, 1, 1, 0]]) / 6,
    rtol=1e-6,
  )
  np.testing.assert_allclose(
    coefficients(aggregation.constant_length, ones, length=5),
    np.array([[1, 0, 1, 1, 1, 0]]) / 10,
    rtol=1e-6,
  )


def test_a_token_weighted_away_leaves_its_segment_whole():
  # The other two tokens share the segment's half. Dividing by the three that
  # were sampled would leave 1/6 each and the mean too small.
  np.testing.assert_allclose(
    coefficients(aggregation.segment_mean, [1, 1, 1, 0, 1, 1]),
    [[1 / 2, 0, 1 / 4, 0, 1 / 4, 0]],
    rtol=1e-6,
  )


def test_means_have_coefficients_that_sum_to_one():
  weight = [0.3, 1, 0.7, 2.0, 0, 1]
  for function in (aggregation.token_mean, aggregation.segment_mean):
    total = jnp.sum(coefficients(function, weight))
    np.testing.assert_allclose(total, 1, rtol=1e-6)


def test_a_segment_of_half_weight_counts_half():
  actual = coefficients(aggregation.segment_mean, [0.5, 1, 1, 1, 1, 1])
  np.testing.assert_allclose(
    actual, [[1 / 3, 0, 2 / 9, 2 / 9, 2 / 9, 0]], rtol=1e-6
  )
