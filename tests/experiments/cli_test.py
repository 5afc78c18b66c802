# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What cannot work ends at once, in one line that says what to do."""

import json
from unittest import mock

import ml_collections
import pytest

from experiments.configs import base
from searchrl_jax import workdir as workdirs


def refused(ended, *words):
  """Exit code 2, nothing printed but one line with these words in it."""
  assert ended.code == 2, ended
  assert ended.err.startswith('error: ')
  assert ended.err.count('\n') == 1
  for word in words:
    assert word in ended.err


def everything_in(folder):
  return {
    str(path.relative_to(folder)): path.read_bytes()
    for path in sorted(folder.rglob('*'))
    if path.is_file()
  }


# --- flags -------------------------------------------------------------------


@pytest.mark.parametrize(
  ('flag', 'words'),
  [
    # A misspelt key, wherever it stands, with the nearest one.
    ('--config.rollot.group=3', ['"rollot"', 'Did you mean "rollout"']),
    ('--config.rollout.grup=3', ['"grup"', 'Did you mean "group"']),
    ('--config.tokeniser=bytes', ['Did you mean "tokenizer"']),
    ('--config.init_form=x', ['Did you mean "init_from"']),
    ('--config.xyz=1', ['the config has no key "xyz"']),
    ('--workdri=x', ['workdri', 'Did you mean: workdir']),
    ('--seed=one', ['seed', "'one'"]),
    # A wrong type.
    ('--config.rollout.group=two', ['config.rollout.group', "'two'"]),
    ('--config.rollout.group=2.5', ['config.rollout.group', "'2.5'"]),
    ('--config.optimizer.beta1=big', ['config.optimizer.beta1', "'big'"]),
    ('--config.loss.llds=maybe', ['config.loss.llds', 'maybe']),
    ('--config.reward=3', ['config.reward', 'not a dict']),
    ('--config.rollout.group.x=3', ['rollout.group.x']),
    ('--config.loss.kl=3', ["loss.kl is '3'", 'k3']),
    ('--config.data.hops=x', ['data.hops', "'x'"]),
    ('--config.data.hops=0', ['data.hops', '(0,)']),
    ('stray', ["'stray'"]),
    # Numbers and combinations that cannot be.
    ('--config.rollout.top_p=1.5', ['rollout.top_p is 1.5', '1']),
    ('--config.rollout.context=200', ['200', 'packed_length 176', 'fit']),
    ('--config.rollout.max_tokens=0', ['rollout.max_tokens is 0', '1 or more']),
    ('--config.checkpoint.keep=1', ['checkpoint.keep is 1', 'at least 2']),
    ('--config.model.sizes.kv_heads=3', ['kv_heads', '3']),
    ('--config.devices=9', ['devices is 9', '8']),
    ('--config.devices=8', ['rollout.questions is 2', 'multiple of 8']),
    ('--config.experience.overlong_margin=51', ['overlong_margin', '50']),
    ('--config.loss.kl=k3', ['skip_zero_advantage', 'set it to False']),
    ('--config.warm_start.drill_optimizer.warmup_steps=9', ['drills', '9']),
    ('--config.warm_start.sft_optimizer.warmup_steps=9', ['demonstrations']),
    ('--config.init_from=/nowhere', ['/nowhere', 'no checkpoint']),
    ('--config.data.evaluation_questions=x.jsonl', ['needs data.corpus']),
  ],
)
def test_flags(start, mini, tmp_path, flag, words):
  workdir = tmp_path / 'run'
  refused(start('grpo', *mini, f'--workdir={workdir}', flag), *words)
  assert not (workdir / 'config.json').exists()  # not taken


def test_a_batch_that_does_not_divide(start, mini, tmp_path):
  uneven = start(
    'grpo',
    *mini,
    f'--workdir={tmp_path}',
    '--config.devices=2',
    '--config.training.microbatch=3',
  )
  refused(uneven, 'training.microbatch is 3', 'multiple of 2')


def test_config_files(start, tmp_path):
  ended = start('grpo', f'--config={tmp_path}/nowhere.py')
  refused(ended, 'no config file', 'nowhere.py')
  (tmp_path / 'mine.py').write_text(
    'from experiments.configs import base\n'
    'def get_config():\n'
    '  config = base.get_config()\n'
    '  config.model.sizes.widht = 32\n'
    '  return config\n'
  )
  ended = start('grpo', f'--config={tmp_path}/mine.py')
  refused(ended, '"widht"', 'Did you mean "width"')


def test_nothing_to_do(start, mini, tmp_path):
  none = ('drill_steps', 'sft_steps')
  ended = start(
    'sft',
    *mini,
    f'--workdir={tmp_path}/run',
    *(f'--config.warm_start.{name}=0' for name in none),
  )
  refused(ended, 'nothing to do')


class BuiltError(Exception):
  """Nothing was found wrong before the workdir was taken."""


def keys(config, prefix=''):
  for key, value in config.items():
    if isinstance(value, ml_collections.ConfigDict):
      yield from keys(value, f'{prefix}{key}.')
    elif not isinstance(value, bool | tuple):
      yield f'{prefix}{key}', value


def test_every_key_refuses_nonsense(start, mini, tmp_path):
  # A new key must be checked, too: here, or by the part that reads it.
  accepted = []
  with mock.patch.object(workdirs, 'write_config', side_effect=BuiltError):
    for key, value in keys(base.get_config()):
      nonsense = 'nonsense' if isinstance(value, str) else -1
      flag = f'--config.{key}={nonsense}'
      workdir = f'--workdir={tmp_path}/run'
      try:
        refused(start('cwgrpo', *mini, workdir, flag))
      except BuiltError:
        accepted.append(key)
  assert not accepted


# --- files -------------------------------------------------------------------


def row(**changes):
  fields = {'id': 'q', 'question': 'who ?', 'golden_answers': ['Ada']}
  return json.dumps(fields | changes) + '\n'


@pytest.mark.parametrize(
  ('corpus', 'questions', 'words'),
  [
    ('', row(), ['corpus.jsonl', 'empty']),
    ('{"id": "0"}\n', row(), ['corpus.jsonl:1', 'contents']),
    (None, row(), ['corpus.jsonl', 'no such corpus file']),
    ('ok', row(golden_answers=[]), ['questions.jsonl:1', "'q'", 'no answers']),
    ('ok', '', ['questions.jsonl', 'no questions']),
    ('ok', '{"question": ', ['questions.jsonl:1', 'broken JSON']),
    ('ok', None, ['questions.jsonl', 'no such question file']),
    # Questions of real people, words of an invented world.
    ('ok', row(question='Who was Ada?'), ["'Who'", 'byte tokenizer']),
  ],
)
def test_files(start, mini, tmp_path, corpus, questions, words):
  page = json.dumps({'id': '0', 'contents': '"Ada"\nAda is a person.'})
  if corpus is not None:
    text = page if corpus == 'ok' else corpus
    (tmp_path / 'corpus.jsonl').write_text(text)
  if questions is not None:
    (tmp_path / 'questions.jsonl').write_text(questions)
  ended = start(
    'grpo',
    *mini,
    f'--workdir={tmp_path}/run',
    '--config.warm_start.drill_steps=0',
    f'--config.data.corpus={tmp_path}/corpus.jsonl',
    f'--config.data.questions={tmp_path}/questions.jsonl',
  )
  refused(ended, *words)
  assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize('which', [0, 1])
def test_corpus_and_questions_belong_together(
  start, mini, written, tmp_path, which
):
  ended = start('grpo', *mini, f'--workdir={tmp_path}/run', written[which])
  refused(ended, 'data.corpus and data.questions belong together')


def test_lessons_are_of_two_kinds(start, mini, tmp_path):
  lessons = '--config.warm_start.lessons=films'
  ended = start('grpo', *mini, f'--workdir={tmp_path}/run', lessons)
  refused(ended, 'lessons', '"world" or "titles"')


def test_cwgrpo_needs_a_judge_before_anything_is_trained(
  start, mini, written, tmp_path
):
  ended = start(
    'cwgrpo',
    *mini,
    *written,
    '--config.warm_start.drill_steps=0',
    f'--workdir={tmp_path}/run',
  )
  refused(ended, 'no hops', 'needs a judge')
  assert not (tmp_path / 'run').exists()


# --- workdirs ----------------------------------------------------------------


@pytest.mark.parametrize(
  ('entry', 'flag', 'words'),
  [
    ('grpo', '--seed=0', ['experiment ("sft" there, "grpo" now)']),
    ('sft', '--seed=1', ['seed (0 there, 1 now)']),
    (
      'sft',
      '--config.model.sizes.width=32',
      ['model.sizes.width (16 there, 32 now)'],
    ),
  ],
)
def test_the_workdir_of_something_else(start, mini, taught, entry, flag, words):
  before = everything_in(taught)
  settings = json.loads((taught / 'config.json').read_text())['warm_start']
  same = (
    '--config.warm_start.drill_steps=0',
    f'--config.warm_start.sft_steps={settings["sft_steps"]}',
    f'--config.warm_start.questions={settings["questions"]}',
    '--config.warm_start.sft_optimizer.learning_rate=2e-2',
    '--config.checkpoint.every=1000',
  )
  ended = start(entry, *mini, *same, f'--workdir={taught}', flag)
  refused(ended, 'begun with another config', *words)
  assert everything_in(taught) == before


def test_weights_of_another_model(start, mini, taught, tmp_path):
  command = (*mini, f'--workdir={tmp_path}/run', f'--config.init_from={taught}')
  ended = start('grpo', *command, '--config.model.sizes.width=32')
  refused(ended, '[', 'there and', 'here')
  # Nothing keeps the workdir from being used with the right one.
  assert not (tmp_path / 'run' / 'config.json').exists()


@pytest.mark.parametrize('entry', ['evaluate', 'ask'])
def test_reading_a_workdir(start, taught, tmp_path, entry):
  refused(start(entry), '--workdir is missing')
  refused(start(entry, f'--workdir={tmp_path}'), 'config.json', 'workdir of a')
  refused(start(entry, f'--workdir={taught}', '--step=7'), 'no step 7')
  refused(start(entry, f'--workdir={taught}', '--step=last'), "'last'")
