# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A bar where there is a terminal, a few lines where there is none."""

import contextlib
import io
from unittest import mock

import pytest

from experiments import console

ROW = {
  'step': 3,
  'stage': 'experience',
  'phase': 'rl',
  'loss': 0.25,
  'em': 0.5,
  'searches': 1.75,
  'useless_searches_per_success': None,  # nobody succeeded
  'entropy': 1.125,
  'grad_norm': 9.0,
  'malformed': 0.25,
  'zero_spread_fraction': 0.75,
}


def shown(rows, environment):
  out = io.StringIO()
  with (
    mock.patch.dict('os.environ', environment),
    contextlib.redirect_stdout(out),
    console.Progress('grpo', total=4, done=0) as progress,
  ):
    for row in rows:
      progress.show(row)
  return out.getvalue()


def test_a_bar_tells_the_most_telling_numbers():
  out = shown([ROW], {'FORCE_COLOR': '1', 'TERM': 'xterm', 'COLUMNS': '160'})
  for word in ('grpo experience', '3/4', 'em 0.500', 'searches 1.750'):
    assert word in out
  assert 'useless' not in out and 'grad_norm' not in out


def test_without_a_terminal_lines_are_few():
  # Three rows at once: one line now, the next in 15 seconds.
  out = shown([ROW, ROW, ROW], {'TERM': 'dumb'})
  assert out == (
    'step 3/4 experience loss 0.250 em 0.500 searches 1.750 entropy 1.125\n'
  )


@pytest.mark.parametrize(
  ('searches', 'malformed', 'share'),
  # 7 of 8 turns that were no answer; all of them; there was no such turn.
  [(1.75, 0.25, '88%'), (2.0, 0.0, '100%'), (0.0, 0.0, 'none')],
)
def test_what_the_policy_says_and_whether_rollouts_differ(
  tmp_path, searches, malformed, share
):
  row = ROW | {'searches': searches, 'malformed': malformed}
  rows = [row | {'zero_spread_fraction': x} for x in (0.5, 1.0)]
  warm = {'phase': 'warm_start', 'step': 1}
  out = io.StringIO()
  with (
    mock.patch.object(console.metrics, 'read_rows', lambda _: [warm, *rows]),
    contextlib.redirect_stdout(out),
  ):
    console.summary(tmp_path, tmp_path / 'report.html')
  text = ' '.join(out.getvalue().split())
  assert (
    f'last 2 steps: well-formed searches {share} of the turns that were no '
    'answer, zero-spread groups 75%'
  ) in text
