# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Experiments are found by the names of their files, with all they need."""

import importlib
import pathlib

import ml_collections
import pytest

import experiments
from experiments import checks, experiment
from experiments.grammars.factagent import FACTAGENT
from experiments.grammars.search_r1 import SEARCH_R1

FILES = pathlib.Path(experiments.__file__).parent
# By what is in the files: one that forgets its name here is found all the same.
NAMES = sorted(
  file.stem
  for file in FILES.glob('*.py')
  if '\nEXPERIMENT = ' in file.read_text(encoding='utf-8')
)


def test_there_are_six():
  assert NAMES == [
    'cwgrpo',
    'cwgrpo_on_facts',
    'factagent',
    'factagent_on_search',
    'grpo',
    'sft',
  ]


@pytest.mark.parametrize('name', NAMES)
def test_a_name_is_that_of_its_file(name):
  assert experiment.find(name).name == name


@pytest.mark.parametrize('name', NAMES)
def test_the_config_it_runs_with_is_there_and_makes_sense(name):
  found = experiment.find(name).config
  config = importlib.import_module(f'experiments.configs.{found}').get_config()
  assert isinstance(config, ml_collections.ConfigDict)
  assert config.is_locked  # a misspelt flag dies
  checks.require_sense(config)


def test_only_those_that_assert_speak_factagent():
  asserting = {
    name for name in NAMES if experiment.find(name).grammar is FACTAGENT
  }
  assert asserting == {'factagent', 'cwgrpo_on_facts'}
  others = set(NAMES) - asserting
  assert {experiment.find(name).grammar for name in others} == {SEARCH_R1}


def test_evaluations_measure_nothing_beside_unless_told_to():
  beside = experiment.find('grpo').beside(None, None)
  assert beside([[]]) == {}
  assert experiment.find('factagent').beside is not experiment.nothing_beside


@pytest.mark.parametrize('name', ['nobody', '', 'grpo.x', '..', 'GRPO'])
def test_an_unknown_name_is_one_line(name):
  with pytest.raises(ValueError, match='there is no experiment') as caught:
    experiment.find(name)
  assert '\n' not in str(caught.value)
  assert repr(name) in str(caught.value)
