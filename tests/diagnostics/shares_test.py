# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Every second of a run is counted once."""

import pytest

from searchrl_jax.diagnostics import shares

METRICS = [
  # 10 s of a warm start, 6 of them compiling.
  {
    'step': 1,
    'phase': 'warm_start',
    'seconds_total': 10.0,
    'seconds_compilation': 6.0,
    'seconds_update': 3.5,
  },
  # 3 + 1 + 4 of 19 - 9 s are accounted for: 2 are other. Its evaluation took
  # 7 s and compiled for 2.
  {
    'step': 2,
    'phase': 'rl',
    'seconds_total': 19.0,
    'seconds_compilation': 2.0,
    'seconds_evaluation': 7.0,
    'seconds_rollout': 3.0,
    'seconds_rewards': 1.0,
    'seconds_update': 4.0,
  },
  # Parts that were not measured.
  {'step': 3, 'phase': 'rl', 'seconds_total': 5.0, 'seconds_rollout': None},
]
EVALUATION = [
  # Before the first step: no row of a step has it.
  {'step': 0, 'phase': 'warm_start', 'seconds': 10.0},
  {
    'step': 0,
    'phase': 'warm_start',
    'seconds': 5.0,
    'seconds_compilation': 4.0,
  },
  # Step 2 has it.
  {'step': 2, 'phase': 'rl', 'seconds': 9.0},
  {'step': 4, 'phase': 'final', 'seconds': None},
]


def test_parts_add_up():
  seconds = shares.seconds_by_part(METRICS, EVALUATION)
  assert seconds == {
    'compilation': 12.0,  # 6 + 2 + 4
    'warm start': 4.0,  # 10 - 6
    'rollout': 3.0,
    'rewards': 1.0,
    'update': 4.0,  # the warm start's update is warm start
    'evaluation': 18.0,  # 7 + 10 + 1; the 9 s of step 2 are its 7 + 2
    'other': 7.0,  # 2 + 5
  }
  assert tuple(seconds) == shares.PARTS
  assert sum(seconds.values()) == 10 + 19 + 5 + 10 + 5
  assert shares.shares(seconds)['evaluation'] == pytest.approx(18 / 49)


def test_the_line_names_what_took_time():
  seconds = shares.seconds_by_part(METRICS, [])
  # 8, 4, 3, 1, 4, 7 and 7 of 34 s
  assert shares.line(seconds) == (
    '34 s: compilation 24%, warm start 12%, rollout 9%, rewards 3%, '
    'update 12%, evaluation 21%, other 21%'
  )


def test_a_run_that_never_began():
  seconds = shares.seconds_by_part([], [])
  assert set(shares.shares(seconds).values()) == {0.0}
  assert shares.line(seconds) == '0 s: nothing yet'
