# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What had to be read in a round, averaged over those who got there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax import types
from searchrl_jax.evaluation import prompts


def trajectory(spans):
  """A turn for each (row, start, stop)."""
  action = types.Action(types.Kind.SEARCH, {'query': 'who'})
  return types.Trajectory(
    question=types.Question('q', 'q', ('a',)),
    rollout=0,
    prompt='',
    turns=tuple(
      types.Turn(action, '', '', (), types.Span(*span), 0.0) for span in spans
    ),
    rows=(),
    status=types.Status.TURN_LIMIT,
  )


def test_a_growing_and_a_rebuilt_conversation_by_hand():
  """Sampled tokens of earlier turns were read, too; later rows begin anew.

  growing   30 given, 5 sampled, 40 given, 7 sampled, 40 given, 3 sampled:
            30, 30 + 5 + 40 = 75, 75 + 7 + 40 = 122
  rebuilt   a row a turn: 50, 61
  """
  growing = trajectory([(0, 30, 35), (0, 75, 82), (0, 122, 125)])
  rebuilt = trajectory([(0, 50, 58), (1, 61, 64)])
  groups = [[growing], [rebuilt]]
  # Of round 2 only one has an entry: 122, not 122 / 2 = 61.
  assert prompts.prompt_tokens_by_round(groups) == [40.0, 68.0, 122.0]
  assert prompts.trajectories_by_round(groups) == [2, 2, 1]
  # How trajectories are grouped does not matter.
  assert prompts.prompt_tokens_by_round([[growing, rebuilt]]) == [40, 68, 122]


def test_nobody_had_a_round():
  groups = [[trajectory([])], []]
  assert prompts.prompt_tokens_by_round(groups) == []
  assert prompts.trajectories_by_round(groups) == []


@given(st.lists(st.lists(st.integers(0, 9999), max_size=8), max_size=12))
def test_every_turn_counts_once(starts):
  """Sums over rounds, from means and counts, are those over turns."""
  groups = [[trajectory([(0, s, s + 1) for s in one])] for one in starts]
  means = prompts.prompt_tokens_by_round(groups)
  counts = prompts.trajectories_by_round(groups)
  assert len(means) == len(counts) == max(map(len, starts), default=0)
  assert counts == sorted(counts, reverse=True)
  total = sum(m * n for m, n in zip(means, counts, strict=True))
  assert total == pytest.approx(sum(map(sum, starts)))
