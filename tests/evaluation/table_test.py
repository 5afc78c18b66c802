# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The table of methods is worked out from files, seed by seed."""

import dataclasses
import io

import pytest
import rich.console

from searchrl_jax import metrics
from searchrl_jax.evaluation import table


def write(path, rows):
  lines = metrics.JsonLines(path)
  for row in rows:
    lines.append(row)
  lines.close()


def evaluation(phase, temperature, em, split='test', **more):
  return {
    'step': 9,
    'phase': phase,
    'split': split,
    'temperature': temperature,
    'n': 1024,
    'em': em,
    'em_stderr': 0.01,
    'f1': em,
    'answered': 1.0,
    'searches': 2.0,
    'useless_searches_per_success': 0.25,
    'seconds': 3.0,
    **more,
  }


def training(em, phase='rl', tokens=100, seconds=2.0):
  return [
    {
      'step': step,
      'phase': phase,
      'em': value,
      'sampled_tokens': tokens,
      'seconds_total': seconds,
    }
    for step, value in enumerate(em)
  ]


def test_steps_to_a_target():
  rows = training([0.4, 0.5, 0.6, 0.7, 0.8])
  # means of three: .5 after 3 steps, .6 after 4, .7 after 5
  assert table.steps_to(rows, target=0.6, window=3) == 4
  assert table.steps_to(rows, target=0.71, window=3) is None
  assert table.steps_to(rows, target=0.6, window=1) == 3
  # One lucky batch is not yet a level.
  spike = training([0.3, 0.9, 0.3, 0.3])
  assert table.steps_to(spike, target=0.6, window=3) is None
  # A warm start is no reinforcement learning, however good.
  warm = training([1.0] * 9, phase='warm_start')
  assert table.steps_to(warm + rows, target=0.6, window=3) == 4


def test_a_run_from_its_files(tmp_path):
  write(
    tmp_path / 'evaluation.jsonl',
    [
      evaluation('warm_start', 1.0, 0.1),
      evaluation('rl', 1.0, 0.5),
      evaluation('final', 1.0, 0.75),
      evaluation('final', 0.0, 0.85, searches=1.5),
      evaluation('final', 1.0, 0.2, split='other'),
    ],
  )
  write(
    tmp_path / 'metrics.jsonl',
    training([0.9] * 7, phase='warm_start')
    + training([0.6] * 5)
    + [
      training([0.6])[0]
      | {
        'seconds_total': 9.0,
        'seconds_evaluation': 3.0,
        'seconds_compilation': 4.0,
      }
    ],
  )
  run = table.read_run(tmp_path, split='test', trajectories=128)
  assert run == table.Run(
    em_sampled=0.75,
    em_greedy=0.85,
    searches=2.0,  # sampled, not the greedy 1.5
    useless_searches=0.25,
    steps_to_target=5,  # the first full window
    tokens=76_800,  # 6 steps x 128 x 100; not those of the warm start
    seconds=12.0,  # 6 x 2 s, without evaluating (3 s) and compiling (4 s)
  )
  with pytest.raises(ValueError, match="no final evaluation of 'nq'"):
    table.read_run(tmp_path, split='nq', trajectories=128)


def test_a_run_that_never_finished(tmp_path):
  with pytest.raises(ValueError, match='let the run finish'):
    table.read_run(tmp_path, split='test', trajectories=128)


RUN = table.Run(
  em_sampled=0.70,
  em_greedy=0.8,
  searches=2.0,
  useless_searches=None,
  steps_to_target=30,
  tokens=1_000_000,
  seconds=100.0,
)


def test_mean_and_sample_std():
  """.70, .72, .74: mean .72, std with ddof 1 .02 (with ddof 0 .016)."""
  runs = [
    dataclasses.replace(RUN, em_sampled=em, steps_to_target=steps)
    for em, steps in ((0.70, 30), (0.72, None), (0.74, 32))
  ]
  [row] = table.compare({'GRPO': runs})
  assert row == {
    'method': 'GRPO',
    'EM sampled': '0.720 ± 0.020',
    'EM greedy': '0.800 ± 0.000',
    'searches per question': '2.00 ± 0.00',
    'useless searches per success': '—',
    'steps to EM .60': '31.0 ± 1.4 (2 of 3)',
    'tokens generated': '1,000,000 ± 0',
    'seconds': '100 ± 0',
  }


def test_one_seed_has_no_spread():
  [row] = table.compare({'GRPO': [RUN]})
  assert row['EM sampled'] == '0.700'


def test_markdown_has_the_columns_of_the_readme():
  text = table.markdown(table.compare({'GRPO': [RUN], 'a|b': [RUN]}))
  head, rule, first, second = text.splitlines()
  assert head == (
    '| method | EM sampled | EM greedy | searches per question | useless '
    'searches per success | steps to EM .60 | tokens generated | seconds |'
  )
  assert rule.count('---') == 8 and first.startswith('| GRPO | 0.700 |')
  assert r'a\|b' in second


def printed(made):
  console = rich.console.Console(width=200, record=True, file=io.StringIO())
  console.print(made)
  return console.export_text()


def test_tables_for_a_terminal():
  rows = [
    evaluation('final', 0.0, 0.8, em_macro=0.7, split='[red]nq'),
    {
      **evaluation('rl', 1.0, 0.5),
      'useless_searches_per_success': None,
      'em_stderr': None,
    },
  ]
  text = printed(table.evaluations(rows))
  assert '0.800 ± 0.010' in text and '0.700' in text and '—' in text
  assert '[red]nq' in text  # data, not markup
