# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""DAPO's dynamic sampling (arXiv:2503.14476), bounded.

A group whose rollouts all score alike teaches nothing. Its place is taken by
a group of a fresh round that does:

  silent   1 0 1 0                      places 0 and 2 are to be filled
  fresh    silent, speaking, silent, speaking
  result   fresh 1, old 1, fresh 3, old 3
"""

import jax
import numpy as np

from searchrl_jax.types import Groups, Scores


def replace_silent(
  groups: Groups,
  scores: Scores,
  silent_B,
  fresh: Groups,
  fresh_scores: Scores,
  fresh_silent_B,
) -> tuple[Groups, Scores]:
  """Fills silent places with speaking groups, in order, as far as they go."""
  places = np.flatnonzero(silent_B)
  speaking = np.flatnonzero(~np.asarray(fresh_silent_B))
  count = min(len(places), len(speaking))
  places, speaking = places[:count], speaking[:count]
  merged = list(groups)
  for place, b in zip(places, speaking, strict=True):
    merged[place] = fresh[b]

  def fill(old, new):
    filled = np.array(old)
    filled[places] = np.asarray(new)[speaking]
    return filled

  return merged, jax.tree.map(fill, scores, fresh_scores)
