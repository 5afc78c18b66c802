# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Long streams become short ones that still tell the whole story."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax import traces, types
from searchrl_jax.diagnostics import samples

KINDS = {'s': types.Kind.SEARCH, 'i': types.Kind.INVALID}


def trace(step, rollout=0, *, success=False, advantage=1.0, turns=()):
  """`turns` are (kind, contribution)."""
  span = types.Span(0, 0, 1)
  made = [
    types.Turn(types.Action(KINDS[kind]), '', '', (), span, 0.0)
    for kind, _ in turns
  ]
  return traces.Trace(
    step=step,
    phase='rl',
    trajectory=types.Trajectory(
      question=types.Question('q', 'q', ('a',)),
      rollout=rollout,
      prompt='',
      turns=tuple(made),
      rows=(),
      status=types.Status.TURN_LIMIT,
    ),
    outcome=float(success),
    success=success,
    valid=True,
    sampled_tokens=1,
    given_tokens=1,
    advantages=(advantage,),
    signals=tuple({} for _ in turns),
    contributions=tuple(contribution for _, contribution in turns),
    notes=tuple({} for _ in turns),
  )


def test_thinning_by_hand():
  assert samples.thin(range(8), limit=3) == [0, 4, 7]
  assert samples.thin(range(3), limit=5) == [0, 1, 2]
  assert samples.thin([], limit=5) == []


@given(st.integers(1, 500), st.integers(2, 40))
def test_thinning_keeps_ends_and_even_gaps(n, limit):
  kept = samples.thin(iter(range(n)), limit=limit)
  assert len(kept) <= limit and kept[0] == 0 and kept[-1] == n - 1
  gaps = {b - a for a, b in itertools.pairwise(kept[:-1])}
  assert len(gaps) <= 1  # all but the last are the same
  if n <= limit - 1:
    assert kept == list(range(n))


@given(st.integers(1, 300), st.integers(1, 9))
def test_a_sample_is_bounded_and_spread(steps, rollouts):
  sample = samples.Sample(limit=40, per_step=4)
  for step in range(steps):
    for rollout in range(rollouts):
      sample.add(trace(step, rollout, success=rollout % 2 == 0))
  kept = sample.traces()
  assert len(kept) <= 40
  found = sorted({one.step for one in kept})
  assert found[0] == 0 and found[-1] == steps - 1
  assert len(kept) == len(found) * min(4, rollouts)
  # Never a hole larger than the steps over the places there are, doubled.
  gaps = [b - a for a, b in itertools.pairwise(found)]
  assert max(gaps, default=1) <= max(1, 2 * steps / 9 + 1)


def of_step(successes, failures):
  sample = samples.Sample(limit=40, per_step=4)
  for rollout in range(successes):
    sample.add(trace(0, rollout, success=True))
  for rollout in range(failures):
    sample.add(trace(0, rollout, success=False))
  return [one.success for one in sample.traces()]


@pytest.mark.parametrize(
  'successes, failures, good, bad',
  [(9, 9, 2, 2), (9, 1, 3, 1), (0, 9, 0, 4), (1, 9, 1, 3), (1, 1, 1, 1)],
)
def test_good_and_bad_side_by_side(successes, failures, good, bad):
  kept = of_step(successes, failures)
  assert kept == [True] * good + [False] * bad


def test_trajectories_with_credit_come_first():
  """Groups without spread, advantage 0, are shown only for want of others."""
  sample = samples.Sample(limit=40, per_step=4)
  for rollout in range(6):
    sample.add(trace(0, rollout, advantage=0.0 if rollout < 3 else -1.0))
  rollouts = [one.trajectory.rollout for one in sample.traces()]
  assert rollouts == [3, 4, 5, 0]


def test_contributions_count_judged_searches_of_successes():
  tally = samples.Contributions()
  for one in (
    trace(1, success=True, turns=[('s', 1.0), ('s', 0.0)]),
    trace(1, success=True, turns=[('s', 0.5), ('i', 1.0), ('s', 1.0)]),
    trace(1, success=True, turns=[('s', None), ('s', None)]),  # unjudged
    trace(1, success=False, turns=[('s', 0.0), ('s', 0.0)]),  # failed
    trace(2, success=True, turns=[('s', 1.0)]),
  ):
    tally.add(one)
  assert tally.phases == ['rl']
  assert tally.by_turn('rl') == {
    0: [(1, 0.75, 2), (2, 1.0, 1)],  # (1 + .5) / 2
    1: [(1, 0.0, 1)],  # the invalid turn is no search
    2: [(1, 1.0, 1)],
  }
