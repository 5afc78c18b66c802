# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of FactAgent's credit runs and prints what it promises."""

import json
from unittest import mock

import numpy as np
import pytest

from benchmarks import factagent

TINY = factagent.Sizes(
  questions=5,
  rollouts=3,
  facts=4,
  width=16,
  turns=3,
  rounds=2,
  grown_questions=2,
  grown_facts=(1, 4),
)


def test_everything_is_measured(capsys):
  with mock.patch.object(factagent, '_REST_SECONDS', 0):
    factagent.main(TINY)
  result = json.loads(capsys.readouterr().out)
  assert 'jax' in result['machine']
  for figures in (*result['figures'].values(), *result['growth_in_M']):
    assert 0 < figures['seconds_min'] <= figures['seconds']
    assert figures['seconds'] <= figures['seconds_max']
  assert set(result['figures']) == {'process', 'cluster', 'cluster_scipy'}
  for pair, ratio in result['ratios'].items():
    above, below = (result['figures'][name] for name in pair.split('/'))
    assert ratio * below['seconds'] == pytest.approx(above['seconds'])
  # Embeddings and relations alone: 5 * 12 * 16 * 2 floats.
  assert result['figures']['process']['memory_mib'] > 7680 / 2**20
  assert [row['M'] for row in result['growth_in_M']] == [3, 12]
  small, large = (row['memory_mib'] for row in result['growth_in_M'])
  assert small < large
  assert result['embedding']['texts'] == 60
  assert result['embedding']['seconds'] > 0


def test_the_groups_have_something_to_cluster():
  scores = factagent._scores(TINY, 5, 4)
  names = factagent._scipy_clusters(scores.facts)
  mask = scores.facts['mask']
  np.testing.assert_array_equal(names >= 0, mask)
  several = [len(set(row[row >= 0])) for row in names]
  assert all(1 < count < 12 for count in several)


def test_a_wrong_clustering_is_not_timed():
  wrong = np.full((5, 12), -1)
  with (
    mock.patch.object(factagent, '_scipy_clusters', return_value=wrong),
    pytest.raises(RuntimeError, match='not those of SciPy'),
  ):
    factagent.measure(TINY)
