# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""How much the policy had to read, round by round.

Round t is the t-th turn of a trajectory. What stood before its first sampled
token is what the policy read there, whether the conversation only grew or was
built anew:

  append-only   [ prompt | turn 0 | reply 0 | turn 1 ]    round 1: all of it
  rebuilt       [ prompt | turn 0 ]   [ prompt | turn 1 ]    its own prompt
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from searchrl_jax import types


def prompt_tokens_by_round(groups: types.Groups) -> list[float]:
  """Mean number of tokens before each round's sampled ones.

  The mean of round t is over the trajectories that have a round t; the others
  do not count, not even as 0:

      10 25 60
      14 35        ->  12 30 60

  Args:
    groups: B groups of G trajectories, the same number or not.

  Returns:
    One mean a round, as many as the longest trajectory has turns.
  """
  return [float(np.mean(starts)) for starts in _starts(groups)]


def trajectories_by_round(groups: types.Groups) -> list[int]:
  """How many trajectories have a round t: the n of each mean."""
  return [len(starts) for starts in _starts(groups)]


def _starts(groups: types.Groups) -> Iterator[list[int]]:
  """For each round, the tokens that every trajectory having it had before."""
  by_trajectory = (
    [turn.span.start for turn in one.turns] for group in groups for one in group
  )
  for starts in itertools.zip_longest(*by_trajectory):
    yield [start for start in starts if start is not None]
