# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Every way to collapse is said aloud, once in a while, and health is quiet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax.diagnostics import alarms

LIMITS = alarms.Thresholds(window=4, every=10)
HEALTHY = {
  'answered': 0.9,
  'sampled_tokens': 300.0,
  'entropy': 0.8,
  'logp': -0.7,
  'clipped_fraction': 0.05,
  'zero_spread_fraction': 0.3,
}


def run(rows, limits=LIMITS):
  """(step, warning) of a run whose rows differ from health as given."""
  watch = alarms.Alarms(limits)
  return [
    (step, warning)
    for step, row in enumerate(rows)
    for warning in watch.update({'step': step, 'phase': 'rl', **HEALTHY, **row})
  ]


def test_a_healthy_run_is_quiet():
  """Learning: more answers, more searches, a sharper policy."""
  rows = [
    {
      'answered': 0.6 + 0.01 * step,
      'sampled_tokens': 200 + 4 * step,
      'entropy': 0.8 * 0.97**step,
      'logp': -0.7 * 0.97**step,
      'zero_spread_fraction': 0.02 * step,
    }
    for step in range(40)
  ]
  assert run(rows) == []


@pytest.mark.parametrize(
  'name, late, words',
  [
    ('answered', 0.6, 'stops answering: 90% answered before, 60% now'),
    ('sampled_tokens', 650.0, 'turns grow: 300 sampled tokens at first, 650'),
    ('entropy', 0.01, 'entropy collapses: 0.8 nats at first, 0.01 now'),
    ('logp', -1.5, 'likelihood collapses: mean log-probability -0.70'),
    ('clipped_fraction', 0.51, 'cuts 51% of the completions: raise max_new'),
    ('zero_spread_fraction', 0.95, '95% of the groups have no spread'),
  ],
)
def test_each_collapse_is_named(name, late, words):
  message = alarms.CHECKS[name]([HEALTHY[name]] * 8 + [late] * 4, LIMITS)
  assert words in message and '\n' not in message
  # In a run, this metric alone speaks, and only once it went wrong.
  warnings = run([{}] * 8 + [{name: late}] * 4)
  subject = message.split(':')[0].split('%')[-1]
  assert len(warnings) == 1
  assert warnings[0][0] >= 8 and subject in warnings[0][1]


def test_answers_are_measured_against_the_best_window_not_the_first():
  """.3 rises to .9, then falls to .5: above the start, and yet a collapse."""
  history = [0.3] * 4 + [0.9] * 4 + [0.5] * 4
  assert 'stops answering: 90%' in alarms.answered_falls(history, LIMITS)
  assert alarms.answered_falls([0.3] * 8 + [0.5] * 4, LIMITS) is None


def test_long_is_not_growing():
  """1, 1, 1, 1 | 3 3 3 3 | 3 3 3 3: grew, then stayed: quiet again."""
  assert alarms.tokens_grow([1.0] * 4 + [3.0] * 4, LIMITS)
  assert alarms.tokens_grow([1.0] * 4 + [3.0] * 8, LIMITS) is None
  endless = [float(step) for step in range(1, 17)]
  assert alarms.tokens_grow(endless, LIMITS)


def test_windows_do_not_overlap():
  """Seven rows hold no two windows of four: too early to compare."""
  assert alarms.entropy_collapses([1.0] * 4 + [0.0] * 3, LIMITS) is None
  assert alarms.entropy_collapses([1.0] * 4 + [0.0] * 4, LIMITS)


def test_clipping_is_loud_from_the_first_step_and_again_every_k():
  warnings = run([{'clipped_fraction': 0.6}] * 25)
  assert [step for step, _ in warnings] == [0, 10, 20]


def test_half_clipped_is_not_most():
  assert run([{'clipped_fraction': 0.5}] * 3) == []


def test_missing_and_non_finite_metrics_are_no_evidence():
  rows = [dict.fromkeys(HEALTHY), dict.fromkeys(HEALTHY, float('nan'))] * 20
  assert run(rows) == []
  watch = alarms.Alarms(LIMITS)
  assert watch.update({'step': 0, 'phase': 'rl'}) == []


def test_a_warm_start_raises_no_alarm_and_is_no_reference():
  """Its entropy falls from 6 to .01, as it should; then learning goes on."""
  watch = alarms.Alarms(LIMITS)
  warnings = []
  for step in range(40):
    phase = 'warm_start' if step < 20 else 'rl'
    entropy = 6.0 if step < 10 else 0.01
    row = {**HEALTHY, 'step': step, 'phase': phase, 'entropy': entropy}
    warnings += watch.update(row)
  assert warnings == []


@given(
  st.lists(st.floats(0, 1), min_size=8, max_size=40),
)
def test_the_best_window_is_the_best_of_all_windows(history):
  best, now = alarms._best_and_now(history, 4)
  means = [sum(history[i : i + 4]) / 4 for i in range(len(history) - 4 - 4 + 1)]
  assert best == pytest.approx(max(means), abs=1e-9)
  assert now == pytest.approx(sum(history[-4:]) / 4)
