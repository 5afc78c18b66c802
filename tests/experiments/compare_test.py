# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Finished runs of several seeds become the table of the README."""

import json

import pytest

from searchrl_jax import workdir as workdirs
from searchrl_jax.metrics import JsonLines


def finished(workdir, em, steps=2):
  """A workdir as a run of two steps of 2 x 4 rollouts leaves it."""
  workdirs.write_config(
    workdir,
    {
      'rollout': {'questions': 2, 'group': 4},
      'training': {'steps': steps},
      'evaluation': {'final_questions': 8},
    },
  )
  metrics = JsonLines(workdir / 'metrics.jsonl')
  for step in (1, 2):
    metrics.append(
      {
        'step': step,
        'phase': 'rl',
        'em': em,
        'sampled_tokens': 10.0,
        'seconds_total': 3.0,
        'seconds_evaluation': 1.0,
      }
    )
  evaluation = JsonLines(workdir / 'evaluation.jsonl')
  for temperature, value in ((1.0, em), (0.0, em + 0.1)):
    evaluation.append(
      {
        'step': 2,
        'phase': 'final',
        'split': 'test',
        'temperature': temperature,
        'em': value,
        'searches': 2.0,
        'useless_searches_per_success': 0.25,
      }
    )
  return workdir


def test_two_seeds_of_a_method(tmp_path, start):
  places = [finished(tmp_path / str(i), em) for i, em in ((0, 0.5), (1, 0.7))]
  shown = start(
    'compare', '--runs=Ours=' + ','.join(str(place) for place in places)
  )
  row = shown.out.splitlines()[-1]
  # Mean .6 and sample std .1414; 2 steps x 8 trajectories x 10 tokens = 160.
  assert row.startswith(
    '| Ours | 0.600 ± 0.141 | 0.700 ± 0.141 | 2.00 ± 0.00 |'
  )
  assert '| 160 ± 0 | 4 ± 0 |' in row


def test_runs_that_are_not_alike_are_not_compared_in_silence(tmp_path, start):
  long, short = tmp_path / 'long', tmp_path / 'short'
  finished(long, 0.5, steps=9), finished(short, 0.5)
  alike = start('compare', f'--runs=A={short}', f'--runs=B={short}')
  assert not alike.err
  shown = start('compare', f'--runs=A={long}', f'--runs=B={short}')
  assert shown.code == 0 and 'not alike' in shown.err
  assert '9 steps and n=8' in shown.err and '2 steps and n=8' in shown.err


@pytest.mark.parametrize('runs', ['Ours', '=x', 'Ours='])
def test_a_malformed_specification_is_named(runs, start):
  shown = start('compare', f'--runs={runs}')
  assert shown.code == 2
  assert f'--runs={runs} is not of the form NAME=DIR,DIR.' in shown.err


def test_an_unfinished_run_is_named(tmp_path, start):
  (tmp_path / 'config.json').write_text(
    json.dumps({'rollout': {'questions': 1, 'group': 1}})
  )
  shown = start('compare', f'--runs=A={tmp_path}')
  assert shown.code == 2
  assert f'{tmp_path} has no final evaluation' in shown.err
