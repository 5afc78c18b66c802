# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Every experiment with every config: two steps, a stop, two more.

A config says with RUNS_ON_CPU whether it may be run here; others are built.
"""

import dataclasses
import functools
import importlib
import pathlib
from unittest import mock

import jax
import pytest

from experiments import checks, configs, experiment, parts, policy
from searchrl_jax import (
  checkpoint,
  metrics,
  model_files,
  pretrained_tokenizer,
)
from searchrl_jax import workdir as workdirs
from searchrl_jax.models import export, presets
from searchrl_jax.models.config import tiny
from searchrl_jax.models.decoder import make_model

FOLDER = pathlib.Path(configs.__file__).parent
CONFIGS = sorted(
  path.stem
  for path in FOLDER.glob('*.py')
  if path.stem not in ('__init__', 'base')
)
# What may be run with a config: those of its grammar.
SEARCHING = ('sft', 'grpo', 'cwgrpo')
EXPERIMENTS = {
  'tiny': (*SEARCHING, 'factagent_on_search'),
  'qa_bytes': SEARCHING,
  'smollm2_2wiki': SEARCHING,
  'factagent_tiny': ('factagent', 'cwgrpo_on_facts'),
  'factagent_smollm2': ('factagent',),
  'factagent_qwen25_3b': ('factagent',),
  'factagent_qwen25_7b': ('factagent',),
}


def module_of(name):
  return importlib.import_module(f'experiments.configs.{name}')


def runs_on_cpu(name):
  module = module_of(name)
  assert isinstance(getattr(module, 'RUNS_ON_CPU', None), bool), (
    f'experiments/configs/{name}.py must say RUNS_ON_CPU = True or False'
  )
  return module.RUNS_ON_CPU


def test_there_are_configs():
  assert set(EXPERIMENTS) == set(CONFIGS)


def test_every_experiment_begins_with_a_config_of_its_own_grammar():
  for config, names in EXPERIMENTS.items():
    for name in names:
      start = experiment.find(name).config
      grammars = {experiment.find(n).grammar for n in EXPERIMENTS[start]}
      assert experiment.find(name).grammar in grammars, (config, name)


@pytest.mark.parametrize('name', CONFIGS)
def test_every_config_builds(name):
  runs_on_cpu(name)
  config = module_of(name).get_config()
  checks.require_sense(config)
  if not runs_on_cpu(name):  # nor are its weights here: random ones, its sizes
    (config.model.name,) = [
      preset
      for preset, sizes in presets.PRESETS.items()
      if sizes.hub_id == config.model.name
    ]
    config.tokenizer = 'bytes'
  named = policy.read_name(config)
  for experiment_name in EXPERIMENTS[name]:
    found = experiment.find(experiment_name)
    tokenizer = parts.make_tokenizer(config, named, found.grammar)
    environment = found.grammar.environment(config, tokenizer)
    assert found.recipe(config, environment).environment is environment
  model = make_model(policy.make_decoder(config, named, tokenizer))
  params = jax.eval_shape(model.init, jax.random.key(0))
  assert jax.tree.leaves(params)
  parts.make_limits(config)
  parts.make_sampling(config)


# The published model whose files come with the tests.
AT_HAND = 'HuggingFaceTB/SmolLM2-135M-Instruct'


class BuiltError(Exception):
  """All parts of a run were made and nothing was found wrong."""


@pytest.fixture(scope='session')
def in_small(tmp_path_factory):
  """in_small(): flags of a small model with a published tokenizer.

  Published weights would take minutes and gigabytes for what is tested here.
  """

  @functools.cache
  def in_small():
    files = model_files.find(AT_HAND, model_files.TOKENIZER)
    tokenizer = pretrained_tokenizer.load(files, vocabulary=0)
    rows = len(tokenizer.token_bytes)
    sizes = dataclasses.replace(tiny(rows), layers=1, width=16)
    folder = tmp_path_factory.mktemp('small') / 'model'
    params = make_model(sizes).init(jax.random.key(0))
    export.export(folder, params, sizes, beside=tokenizer.save)
    return (
      f'--config.model.name={folder}',
      '--config.rollout.questions=2',
      '--config.rollout.group=2',
      '--config.rollout.max_new_tokens=16',
      '--config.rollout.max_tokens=32',
      # Few widths to compile.
      '--config.rollout.append_rows=4',
      '--config.rollout.append_tokens=64',
    )

  return in_small


@pytest.fixture
def passages(request):
  """Flags of real passages for configs that can read them, else none."""

  def passages(config):
    config = module_of(config).get_config()
    if config.tokenizer == 'words':
      return ()
    place = request.getfixturevalue('data')
    small = ()
    if config.model.name:
      small = request.getfixturevalue('in_small')()
    return (
      *small,
      f'--config.data.corpus={place}/corpus.jsonl',
      f'--config.data.questions={place}/questions.jsonl',
    )

  return passages


# Small in everything that does not make the config what it is.
QUICK = (
  '--config.warm_start.sft_optimizer.warmup_steps=0',
  '--config.warm_start.questions=4',
  '--config.evaluation.questions=4',
  '--config.evaluation.final_questions=4',
  '--config.checkpoint.every=2',
)


@pytest.mark.slow
@pytest.mark.parametrize(
  'name, config',
  [(name, config) for config, names in EXPERIMENTS.items() for name in names],
)
def test_two_steps_and_two_more(
  start, mini, passages, interrupted, tmp_path, name, config
):
  real = passages(config)
  file = f'--config={FOLDER / config}.py'
  command = [file, *real, f'--workdir={tmp_path}/run']
  if not runs_on_cpu(config):
    command.append('--config.rollout.questions=8')  # one for each device
    with (
      mock.patch.object(workdirs, 'write_config', side_effect=BuiltError),
      pytest.raises(BuiltError),
    ):
      start(name, *command)
    return
  command += QUICK if real else mini
  if name == 'cwgrpo' and real:
    ended = start(name, *command)
    assert ended.code == 2
    assert 'it needs a judge' in ended.err
    return
  # Four steps of supervised learning, or none and four of reinforcement.
  supervised, learning = (4, 0) if name == 'sft' else (0, 4)
  command += [
    '--config.warm_start.drill_steps=0',
    f'--config.warm_start.sft_steps={supervised}',
    f'--config.training.steps={learning}',
  ]
  with interrupted(3):
    assert start(name, *command).code == 130
  assert checkpoint.saved_steps(tmp_path / 'run') == [2]
  ended = start(name, *command)
  assert ended.code == 0, ended.err
  assert 'going on after step 2.' in ended.out
  rows = list(metrics.read_rows(tmp_path / 'run' / 'metrics.jsonl'))
  assert [row['step'] for row in rows] == [1, 2, 3, 4]
  stage = 'demonstrations' if name == 'sft' else 'experience'
  assert {row['stage'] for row in rows} == {stage}
