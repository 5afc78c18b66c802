# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Every second of a run is counted once."""

import pytest

from searchrl_jax.diagnostics import shares

METRICS = [
  # 10 s of a warm start, 6 of them compiling.
  {
    'phase': 'warm_start',
    'seconds_total': 10.0,
    'seconds_compilation': 6.0,
    'seconds_update': 3.5,
  },
  # 3 + 1 + 4 of 17 - 7 s are accounted for: 2 are other. The evaluation
  # has a row of its own.
  {
    'phase': 'rl',
    'seconds_total': 17.0,
    'seconds_evaluation': 7.0,
    'seconds_rollout': 3.0,
    'seconds_rewards': 1.0,
    'seconds_update': 4.0,
  },
  # Parts that were not measured.
  {'phase': 'rl', 'seconds_total': 5.0, 'seconds_rollout': None},
]
EVALUATION = [
  {'phase': 'final', 'seconds': 15.0, 'seconds_compilation': 5.0},
  {'phase': 'rl', 'seconds': None},
]


def test_parts_add_up():
  seconds = shares.seconds_by_part(METRICS, EVALUATION)
  assert seconds == {
    'compilation': 11.0,  # 6 + 5
    'warm start': 4.0,  # 10 - 6
    'rollout': 3.0,
    'rewards': 1.0,
    'update': 4.0,  # the warm start's update is warm start
    'evaluation': 10.0,  # 15 - 5
    'other': 7.0,  # 2 + 5
  }
  assert tuple(seconds) == shares.PARTS
  assert sum(seconds.values()) == 10 + 10 + 5 + 15
  assert shares.shares(seconds)['evaluation'] == pytest.approx(0.25)


def test_the_line_names_what_took_time():
  seconds = shares.seconds_by_part(METRICS, [])
  # compilation 6, warm start 4, rollout 3, rewards 1, update 4, other 7: 25 s
  assert shares.line(seconds) == (
    '25 s: compilation 24%, warm start 16%, rollout 12%, rewards 4%, '
    'update 16%, other 28%'
  )


def test_a_run_that_never_began():
  seconds = shares.seconds_by_part([], [])
  assert set(shares.shares(seconds).values()) == {0.0}
  assert shares.line(seconds) == '0 s: nothing yet'
