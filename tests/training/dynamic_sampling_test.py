# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Silent groups give their places to speaking ones."""

import numpy as np
import pytest

from searchrl_jax.training.dynamic_sampling import replace_silent
from searchrl_jax.types import Scores


def scores_of(first, count):
  """Scores of `count` groups of 2, every number naming its group."""
  name_B = np.arange(first, first + count)
  name_BG = np.tile(name_B[:, None], (1, 2))
  name_BGS = np.tile(name_B[:, None, None], (1, 2, 3))
  return Scores(
    outcome=name_BG.astype(np.float32),
    success=name_BG % 2 == 1,
    valid=name_BG > 0,
    kind=name_BGS.astype(np.int32),
    judged=name_BGS % 2 == 0,
    signals={'useful': name_BGS.astype(np.float32)},
  )


def fill(silent, fresh_silent):
  """Names of the groups after filling; old are 0, 1, ..., fresh 10, 11, ..."""
  old = [[i, i] for i in range(len(silent))]
  fresh = [[10 + i] * 2 for i in range(len(fresh_silent))]
  groups, scores = replace_silent(
    old,
    scores_of(0, len(silent)),
    np.array(silent, bool),
    fresh,
    scores_of(10, len(fresh_silent)),
    np.array(fresh_silent, bool),
  )
  names = [members[0] for members in groups]
  # Whatever moved, every array moved with it.
  expected = scores_of(0, 20)
  for name in ('outcome', 'success', 'valid', 'kind', 'judged'):
    np.testing.assert_array_equal(
      getattr(scores, name), getattr(expected, name)[names], err_msg=name
    )
  np.testing.assert_array_equal(
    scores.signals['useful'], expected.signals['useful'][names]
  )
  return names


@pytest.mark.parametrize(
  'silent, fresh_silent, result',
  [
    # The example at the top of the module.
    ([1, 0, 1, 0], [1, 0, 1, 0], [11, 1, 13, 3]),
    # More places than speakers: in order, as far as they go.
    ([1, 1, 1, 0], [1, 1, 0, 1], [12, 1, 2, 3]),
    # More speakers than places: the rest is thrown away.
    ([0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 10, 3]),
    ([0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 2, 3]),
    ([1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 2, 3]),
    ([1, 1, 1, 1], [0, 0, 0, 0], [10, 11, 12, 13]),
  ],
)
def test_places_are_filled_in_order(silent, fresh_silent, result):
  assert fill(silent, fresh_silent) == result


def test_the_old_arrays_are_left_alone():
  old, fresh = scores_of(0, 2), scores_of(10, 2)
  groups = [['a'], ['b']]
  silent, speaking = np.ones(2, bool), np.zeros(2, bool)
  merged, _ = replace_silent(
    groups, old, silent, [['c'], ['d']], fresh, speaking
  )
  assert merged == [['c'], ['d']]
  assert groups == [['a'], ['b']]
  np.testing.assert_array_equal(old.outcome, scores_of(0, 2).outcome)
