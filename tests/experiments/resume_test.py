# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A run that was stopped anywhere ends as if it had never been.

  steps     1  2  3 | 4  5  6  7  8         saved after 2, 4, 6, 8
            warm    | rl                    evaluated after 3, 5, 7, 8
            start   |

What a run leaves is compared whole: arrays bit for bit, the rows of all files.
"""

import signal
import subprocess
import sys

import pytest

from searchrl_jax import checkpoint

# Outcomes that depend on length: every step moves the weights.
LEARNING = (
  '--config.experience.overlong_margin=50',
  '--config.training.steps=5',
)


def steps_of(rows):
  return [row['step'] for row in rows]


# --- killed, in processes of their own ---------------------------------------

# One script forks them all: imports take longer than steps. Each child runs
# the command and is killed by its own hand at a moment of its own.
KILLED = r"""
import functools, os, pathlib, runpy, signal, sys

sys.path.insert(0, os.getcwd())
from experiments import recipes, run
from searchrl_jax import metrics

def kill():
  os.kill(os.getpid(), signal.SIGKILL)

def after(owner, name, moment):
  # Kills once the moment has come, after all was done as always.
  whole = getattr(owner, name)
  @functools.wraps(whole)
  def wrapped(*args, **kwargs):
    result = whole(*args, **kwargs)
    if moment(*args):
      kill()
    return result
  setattr(owner, name, wrapped)

def before_rename(place):
  rename = os.rename
  def wrapped(source, target, *args, **kwargs):
    if str(target).endswith(place):
      kill()
    return rename(source, target, *args, **kwargs)
  os.rename = wrapped

def half_a_row(step):
  append = metrics.JsonLines.append
  def wrapped(self, row):
    if self.path.name == 'metrics.jsonl' and row['step'] == step:
      with open(self.path, 'a') as file:
        file.write('{"step": %d, "phase": "warm' % step)
      kill()
    append(self, row)
  metrics.JsonLines.append = wrapped

def logged(step):
  after(metrics.Metrics, 'write', lambda self, row: row['step'] == step)

def traced(step):
  after(run.Records, 'traces', lambda self, at, *_: at == step)

def evaluated(step):
  after(run.Records, 'evaluation', lambda self, row: row['step'] == step)

KEPT = '/warm_start/checkpoints/3'
# Rows are written one step late: that of step 3 in the midst of step 4.
MOMENTS = {
  'before anything was saved': lambda: logged(1),
  'in the first save': lambda: before_rename('/checkpoints/2'),
  'in the save of the warm start': lambda: before_rename(KEPT),
  'within a row': lambda: half_a_row(3),
  'in the first evaluation of several': lambda: evaluated(3),
  'after its traces': lambda: traced(5),
  'between metrics and checkpoint': lambda: logged(6),
  'within a save': lambda: before_rename('/6.orbax-checkpoint-tmp/meta'),
  'before the last checkpoint': lambda: evaluated(8),
}

for name, arm in MOMENTS.items():
  pid = os.fork()
  if not pid:
    arm()
    sys.argv = ['cwgrpo', *sys.argv[1:]]
    runpy.run_module('experiments.cwgrpo', run_name='__main__')
  _, status = os.waitpid(pid, 0)
  print(name, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 'ended',
        file=sys.stderr, flush=True)
"""


@pytest.mark.slow
def test_killed_nine_times_and_still_the_same(
  start, mini, end_of, rows_of, tmp_path
):
  command = (*mini, *LEARNING, '--seed=3')
  whole, broken = tmp_path / 'whole', tmp_path / 'broken'
  assert start('cwgrpo', *command, f'--workdir={whole}').code == 0
  run = subprocess.run(
    [sys.executable, '-c', KILLED, *command, f'--workdir={broken}'],
    capture_output=True,
    text=True,
    timeout=600,
  )
  moments = run.stderr.splitlines()[-9:]
  assert all(line.endswith(f' {signal.SIGKILL}') for line in moments), moments
  # Each went on where the last checkpoint stood.
  goings = [x for x in run.stdout.splitlines() if x.startswith('going on')]
  assert goings == [f'going on after step {n}.' for n in (2, 2, 2, 4, 4, 4)]
  assert checkpoint.saved_steps(broken) == [4, 6]
  ended = start('cwgrpo', *command, f'--workdir={broken}')
  assert ended.code == 0
  assert 'going on after step 6.' in ended.out
  assert steps_of(rows_of(broken, 'metrics.jsonl')) == [1, 2, 3, 4, 5, 6, 7, 8]
  assert steps_of(rows_of(broken, 'evaluation.jsonl')) == [
    3,
    3,
    3,
    5,
    7,
    8,
    8,
    8,
  ]
  assert end_of(broken) == end_of(whole)
  # The comparison means something: every step of experience moved the weights.
  prints = [
    row['sampler_fingerprint']
    for row in rows_of(whole, 'metrics.jsonl')
    if row['phase'] == 'rl'
  ]
  assert len(set(prints)) == 5


# --- stopped by Ctrl-C -------------------------------------------------------


# Every knob that makes a step depend on more than the step before: a reference
# to the first weights, redrawn groups, several updates of a batch, the
# learner's own old log-probs; questions of a file that is asked many times
# over; and rows split over two devices.
EVERYTHING = (
  '--config.devices=2',
  '--config.training.epochs=2',
  '--config.training.steps=6',
  '--config.experience.skip_zero_advantage=False',
  '--config.experience.redraws=2',
  '--config.experience.mask_overlong=True',
  '--config.experience.learner_old_logps=True',
  '--config.loss.kl=k3',
  '--config.loss.kl_weight=0.1',
  '--config.loss.entropy_weight=0.01',
  '--config.loss.llds=True',
  '--config.loss.ratio=sequence',
  '--config.loss.aggregation=segment_mean',
  '--config.loss.off_policy=truncated',
  '--config.optimizer.weight_decay=0.1',
  '--config.optimizer.schedule=linear',
)


@pytest.mark.slow
def test_three_and_three_steps_are_six_with_everything_on(
  learn, written, interrupted, end_of, rows_of, tmp_path
):
  command = (*written, *EVERYTHING)
  whole, broken = tmp_path / 'whole', tmp_path / 'broken'
  ended = learn('grpo', whole, *command)
  assert ended.code == 0, ended.err
  with interrupted(5):  # written in the midst of step 6, two after a save
    ended = learn('grpo', broken, *command)
  assert ended.code == 130
  assert ended.err == 'stopped.\n'
  assert (
    'the same command goes on after step 4, the last one saved.' in ended.out
  )
  assert (broken / 'report.html').exists()  # of what there is
  assert steps_of(rows_of(broken, 'metrics.jsonl'))[-1] == 5
  assert checkpoint.saved_steps(broken)[-1] == 4
  ended = learn('grpo', broken, *command)
  assert ended.code == 0, ended.err
  assert 'going on after step 4.' in ended.out
  assert end_of(broken) == end_of(whole)
  rows = rows_of(whole, 'metrics.jsonl')
  assert steps_of(rows) == [1, 2, 3, 4, 5, 6]
  # Six steps of two questions are more than two epochs of five.
  asked = [
    (row['step'], row['question']['id'])
    for row in rows_of(whole, 'traces.jsonl')
    if row['rollout'] == 0
  ]
  assert len(asked) == 12 > len({name for _, name in asked})
  # Nothing was on in vain.
  assert 0 < rows[0]['kl'] < rows[-1]['kl']  # away from the first weights
  assert all(row['loss_entropy'] != 0 for row in rows)
  assert any(row['loss_llds'] > 0 for row in rows)
  assert len({row['sampler_fingerprint'] for row in rows}) == 6
