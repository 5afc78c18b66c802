# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a run writes down and prints, and how it ends."""

import dataclasses
import json
import struct
from unittest import mock

import jax
import numpy as np
import pytest
from tensorboardX.proto import event_pb2

from searchrl_jax import checkpoint, metrics, traces
from searchrl_jax.rollout.fingerprint import fingerprint
from searchrl_jax.training import experience
from searchrl_jax.types import Kind

# What every step of reinforcement learning must say.
METRICS = (
  *('reward', 'em', 'f1', 'answered', 'searches'),
  *('useless_searches_per_success', 'sampled_tokens', 'given_tokens'),
  *('clipped_fraction', 'zero_spread_fraction', 'invalid_fraction'),
  *('entropy', 'kl', 'ratio_max', 'clip_low_fraction', 'clip_high_fraction'),
  *('grad_norm', 'sampler_learner_gap', 'token_weighted_mean'),
  *('seconds_rollout', 'seconds_rewards', 'seconds_packing'),
  *('seconds_update', 'seconds_compilation', 'seconds_total'),
  *('seconds_evaluation', 'seconds_checkpoint', 'tokens_per_second'),
  *('sampler_fingerprint', 'compiled_programs', 'skipped'),
  *('prefilled_tokens', 'decoded_tokens'),
)
EVALUATION = (
  *('step', 'phase', 'split', 'temperature', 'n', 'em', 'em_stderr', 'f1'),
  *('answered', 'searches', 'useless_searches_per_success', 'seconds'),
  *('settings', 'data_hash'),
)


def read(workdir, name):
  return list(metrics.read_rows(workdir / name))


# --- rows --------------------------------------------------------------------


def test_metrics_of_every_step(learned):
  workdir, _ = learned
  rows = read(workdir, 'metrics.jsonl')
  assert [row['step'] for row in rows] == [1, 2, 3, 4]
  late = {'seconds_evaluation', 'seconds_checkpoint'}  # not before the first
  for row in rows:
    assert row['phase'] == 'rl'
    assert set(METRICS) - set(row) <= (late if row['step'] == 1 else set())
    parts = [
      value
      for name, value in row.items()
      if name.startswith('seconds_') and name != 'seconds_total'
    ]
    assert row['seconds_total'] == pytest.approx(sum(parts))
    # The counters never go back; 50 tokens is the budget of a trajectory.
    assert 0 < row['sampled_tokens'] <= 50
    assert row['invalid_fraction'] == 0 and row['skipped'] == 0
    # The second of two updates already differs from the sampler a little.
    assert 0 < row['sampler_learner_gap'] < 0.05
    assert row['grad_norm'] > 0
  decoded = [row['decoded_tokens'] for row in rows]
  assert decoded == sorted(set(decoded))


def test_the_sampler_follows_every_update(learned, taught, saved_tree):
  workdir, _ = learned
  rows = read(workdir, 'metrics.jsonl')
  prints = [row['sampler_fingerprint'] for row in rows]
  assert len(set(prints)) == 4
  assert prints[0] == int(fingerprint(saved_tree(taught, 90, 'params')))
  for step in checkpoint.saved_steps(workdir)[:-1]:
    assert prints[step] == int(fingerprint(saved_tree(workdir, step, 'params')))


def test_evaluations(learned):
  workdir, _ = learned
  rows = read(workdir, 'evaluation.jsonl')
  seen = [
    (row['step'], row['phase'], row['split'], row['temperature'])
    for row in rows
  ]
  assert seen == [
    (0, 'warm_start', 'validation', 1.0),
    (0, 'warm_start', 'test', 1.0),
    (0, 'warm_start', 'test', 0.0),
    (2, 'rl', 'validation', 1.0),
    (4, 'rl', 'validation', 1.0),
    (4, 'final', 'test', 1.0),
    (4, 'final', 'test', 0.0),
  ]
  config = json.loads((workdir / 'config.json').read_text())
  hashes = {}
  for row in rows:
    assert set(EVALUATION) <= set(row)
    assert row['n'] == {'validation': 4, 'test': 6}[row['split']]
    assert row['settings'] == config
    hashes.setdefault(row['split'], set()).add(row['data_hash'])
  # The same questions every time, and not the same for both.
  assert len(hashes['validation']) == len(hashes['test']) == 1
  assert hashes['validation'] != hashes['test']


def test_traces_hold_what_was_searched_and_found(learned):
  workdir, _ = learned
  rows = list(traces.read(workdir / 'traces.jsonl'))
  assert len(rows) == 4 * 2 * 2  # steps, questions, rollouts
  searches = [
    turn
    for row in rows
    for turn in row.trajectory.turns
    if turn.action.kind == Kind.SEARCH
  ]
  assert any(turn.evidence for turn in searches)
  assert any(row.advantages[0] for row in rows)


def test_tensorboard_shows_the_same(learned):
  workdir, _ = learned
  shown = {}
  for path in (workdir / 'tensorboard').iterdir():
    data = path.read_bytes()
    while data:
      # length (8 bytes), its checksum (4), the event, its checksum (4)
      (size,) = struct.unpack('<Q', data[:8])
      event = event_pb2.Event.FromString(data[12 : 12 + size])
      data = data[16 + size :]
      for value in event.summary.value:
        shown[value.tag, event.step] = value.simple_value
  for row in read(workdir, 'metrics.jsonl'):
    for name in ('reward', 'searches', 'entropy', 'grad_norm'):
      assert shown[f'rl/{name}', row['step']] == np.float32(row[name])
  for row in read(workdir, 'evaluation.jsonl'):
    tag = f'evaluation/{row["phase"]}/{row["split"]}/t{row["temperature"]:g}'
    assert shown[f'{tag}/em', row['step']] == np.float32(row['em'])


def test_what_is_printed(learned):
  workdir, out = learned
  assert 'beginning with the weights of step 90' in out
  assert 'step 4: test at temperature 0: em ' in out
  table = [line for line in out.splitlines() if line.startswith('│')]
  assert len(table) == 7
  assert sum('validation' in line for line in table) == 3  # not cut to fit
  rows = read(workdir, 'metrics.jsonl')
  [line] = [x for x in out.splitlines() if 'well-formed searches' in x]
  searches = sum(row['searches'] for row in rows)
  tried = searches + sum(row['malformed'] for row in rows)
  silent = sum(row['zero_spread_fraction'] for row in rows) / 4
  assert f'searches {searches / tried:.0%} of the turns' in line
  assert f'zero-spread groups {silent:.0%}' in line
  [line] = [x for x in out.splitlines() if ' s: compilation ' in x]
  for part in ('rollout', 'update', 'evaluation'):
    assert f'{part} ' in line
  assert f'report: {workdir}/report.html' in out
  report = (workdir / 'report.html').read_text()
  assert '<img' in report or '<svg' in report
  assert 'https://' not in report.replace('https://www.w3.org', '')


def test_few_checkpoints_and_the_best(learned):
  workdir, _ = learned
  steps = checkpoint.saved_steps(workdir)
  em = {
    row['step']: row['em']
    for row in read(workdir, 'evaluation.jsonl')
    if row['phase'] == 'rl'
  }
  best = max(em, key=lambda step: (em[step], step))
  assert steps == sorted({3, 4, best})
  # What decides is written beside the weights it was measured with.
  for step in (3, 4):
    place = workdir / 'checkpoints' / str(step) / 'metrics' / 'metrics'
    told = json.loads(place.read_text())
    assert told == ({'em': em[step]} if step in em else {})


def test_a_finished_workdir_says_so(learned, learn, end_of):
  workdir, _ = learned
  before = end_of(workdir)
  again = learn('cwgrpo', workdir, '--config.checkpoint.every=1')
  assert again.code == 0
  assert again.out.endswith(f'{workdir} is finished: all 4 steps are done.\n')
  assert end_of(workdir) == before


def test_alarms_are_loud(start, mini, tmp_path):
  # Words at random: nearly no turn ends before its tokens do.
  ended = start(
    'grpo',
    *mini,
    f'--workdir={tmp_path}/run',
    '--config.training.steps=1',
    '--config.evaluation.final_questions=4',
  )
  assert ended.code == 0
  assert 'WARNING: step 4: a token limit cuts 100%' in ended.out
  rows = read(tmp_path / 'run', 'metrics.jsonl')
  stages = ['drills', 'demonstrations', 'demonstrations', 'experience']
  assert [row['stage'] for row in rows] == stages
  assert [row['phase'] for row in rows] == [*['warm_start'] * 3, 'rl']


# --- shared weights ----------------------------------------------------------


def test_methods_share_a_warm_start(learn, learned, taught, tmp_path):
  workdir, _ = learned
  one = ('--config.training.steps=1', '--config.evaluation.every=9')
  ended = learn('grpo', tmp_path / 'grpo', *one)
  assert ended.code == 0, ended.err
  # The warm start of a workdir that went on to learn, not where it ended.
  init = f'--config.init_from={workdir}'
  ended = learn('grpo', tmp_path / 'other', *one, init)
  assert f'beginning with the weights of step 0 in {workdir}/warm_start' in (
    ended.out
  )
  places = (workdir, tmp_path / 'grpo', tmp_path / 'other')
  rows = [read(place, 'metrics.jsonl')[0] for place in places]
  # One policy, asked the same questions with the same keys.
  same = ('sampler_fingerprint', 'reward', 'searches', 'sampled_tokens')
  assert len({tuple(row[name] for name in same) for row in rows}) == 1
  first = [read(place, 'evaluation.jsonl')[:3] for place in places]
  assert len({tuple(row['f1'] for row in three) for three in first}) == 1


# --- updates that are not finite ---------------------------------------------


def poisoned(steps):
  """Batches of these steps carry advantages that are no numbers."""
  collect = experience.Experience.collect

  def wrapped(self, step, params):
    collected = collect(self, step, params)
    if step not in steps:
      return collected
    bad = np.full_like(collected.targets.advantage, np.nan)
    targets = dataclasses.replace(collected.targets, advantage=bad)
    return dataclasses.replace(collected, targets=targets)

  return mock.patch.object(experience.Experience, 'collect', wrapped)


def test_a_poisoned_step_is_skipped_and_counted(learn, learned, tmp_path):
  workdir, _ = learned
  with poisoned([2]):
    ended = learn('cwgrpo', tmp_path, '--config.checkpoint.every=1')
  assert ended.code == 0, ended.err
  rows = read(tmp_path, 'metrics.jsonl')
  assert [row['skipped'] > 0 for row in rows] == [False, True, False, False]
  prints = [row['sampler_fingerprint'] for row in rows]
  assert prints[1] == prints[2] != prints[3]
  healthy = [
    row['sampler_fingerprint'] for row in read(workdir, 'metrics.jsonl')
  ]
  assert prints[:2] == healthy[:2]


def test_a_run_that_is_never_finite_stops(learn, saved_tree, tmp_path):
  flags = ('--config.training.max_skipped=1', '--config.checkpoint.every=1')
  with poisoned(range(2, 9)):
    ended = learn('cwgrpo', tmp_path, *flags)
  assert ended.code == 2
  assert ended.err.count('\n') == 1
  assert '2 steps in a row, up to step 3' in ended.err
  last = checkpoint.saved_steps(tmp_path)[-1]
  assert f'Step {last} is the last good checkpoint of {tmp_path}' in ended.err
  # Good it is: the weights after the last update that was done.
  params = saved_tree(tmp_path, last, 'params')
  assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))
  rows = read(tmp_path, 'metrics.jsonl')
  assert int(fingerprint(params)) == rows[-1]['sampler_fingerprint']
  assert (tmp_path / 'report.html').exists()
  # Without the poison, the same command goes on.
  ended = learn('cwgrpo', tmp_path, *flags)
  assert ended.code == 0, ended.err
  assert [row['step'] for row in read(tmp_path, 'metrics.jsonl')] == [
    1,
    2,
    3,
    4,
  ]


# --- programs ----------------------------------------------------------------


def test_lengths_vary_and_programs_do_not(learned):
  # A cache of 176 tokens has 8 buckets of length; prompts come in groups of 1
  # and of 2, replies alike: at most 24. Turns are drawn at two temperatures.
  # An update is begin, count, accumulate and apply.
  workdir, _ = learned
  rows = read(workdir, 'metrics.jsonl')
  assert rows[-1]['compiled_programs'] <= 24 + 2 + 4
  # Later steps meet other lengths, but hardly another bucket.
  assert rows[-1]['compiled_programs'] - rows[1]['compiled_programs'] <= 2
  lengths = {
    (len(row['prompt'].split()), row['given_tokens'])
    for row in read(workdir, 'traces.jsonl')
  }
  assert len(lengths) > 8
