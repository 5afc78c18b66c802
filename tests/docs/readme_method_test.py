# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The method that README.md adds is a method, exactly as it stands there.

A group of two right and two wrong rollouts; late turns count double:

  search  search  answer            .8660   .8660  1.7321
  search  answer                    .8660  1.7321
  search  invalid search  answer   -.8660  -.8660 -1.7321 -1.7321
  answer                           -.8660
"""

import dataclasses
import importlib.util
import pathlib
import re
import subprocess
import sys
import types as pytypes
from unittest import mock

import jax
import numpy as np
import pytest

from experiments import cli, parts, policy, recipes, run
from experiments.configs import base
from experiments.experiment import Experiment
from searchrl_jax import types
from searchrl_jax.credit import grpo

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / 'README.md').read_text()
CODE = dict(
  re.findall(
    r'`([\w/]+\.py)`:\n\n```python\n(.*?)^```$',
    README,
    re.MULTILINE | re.DOTALL,
  )
)


@pytest.fixture
def added(monkeypatch):
  """The modules of the README, importable for the length of a test."""
  modules = {}
  for path, source in CODE.items():
    name = path.removesuffix('.py').replace('/', '.')
    module = pytypes.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    package, _, last = name.rpartition('.')
    owner = importlib.import_module(package)
    monkeypatch.setattr(owner, last, module, raising=False)
    exec(compile(source, path, 'exec'), module.__dict__)
    modules[path] = module
  return modules


def scores_of(outcome, kind):
  kind = np.array(kind, np.int32)
  outcome = np.array(outcome, np.float32)
  return types.Scores(
    outcome=np.where(np.isfinite(outcome), outcome, 0),
    success=outcome == 1,
    valid=np.isfinite(outcome),
    kind=kind,
    judged=np.zeros(kind.shape, bool),
    signals={},
  )


SEARCH, ANSWER = types.Kind.SEARCH, types.Kind.ANSWER
INVALID = types.Kind.INVALID

# Two right, two wrong: A = .5 / .57735 = .8660.
GROUP = scores_of(
  [[1, 1, 0, 0]],
  [
    [
      [SEARCH, SEARCH, ANSWER, 0],
      [SEARCH, ANSWER, 0, 0],
      [SEARCH, INVALID, SEARCH, ANSWER],
      [ANSWER, 0, 0, 0],
    ]
  ],
)
A = 0.8660
EXPECTED = [
  [
    [A, A, 2 * A, 0],  # the middle one of three is early
    [A, 2 * A, 0, 0],
    [-A, -A, -2 * A, -2 * A],
    [-A, 0, 0, 0],
  ]
]


def test_the_readme_adds_a_credit_and_an_experiment():
  assert sorted(CODE) == ['experiments/late.py', 'searchrl_jax/credit/late.py']
  for path in CODE:
    assert not (ROOT / path).exists()  # the example stays an example


def test_the_added_credit_gives_late_turns_double(added):
  credit = added['searchrl_jax/credit/late.py'].advantages
  result = jax.jit(credit)(GROUP)
  assert result.dtype == np.float32
  np.testing.assert_allclose(result, EXPECTED, atol=6e-5)


def test_the_added_credit_keeps_to_the_rules_of_groups(added):
  credit = added['searchrl_jax/credit/late.py'].advantages
  kind = [[[SEARCH, ANSWER]] * 4]
  # An invalid member gets nothing and does not count: .5773 as in grpo.py.
  result = credit(scores_of([[1, np.nan, 0, 1]], kind))
  np.testing.assert_allclose(
    result[0, :, 0], [0.5773, 0, -1.1547, 0.5773], atol=6e-5
  )
  np.testing.assert_allclose(result[..., 1], 2 * result[..., 0])
  assert not np.any(credit(scores_of([[1, 1, 1, 1]], kind)))


def test_the_added_experiment_is_a_recipe(added):
  config = base.get_config()
  experiment = added['experiments/late.py'].EXPERIMENT
  assert experiment.name == 'late'
  tokenizer = parts.make_tokenizer(
    config, policy.read_name(config), experiment.grammar
  )
  environment = experiment.grammar.environment(config, tokenizer)
  recipe = experiment.recipe(config, environment)
  assert isinstance(recipe, types.Recipe)
  assert recipe.environment is environment
  np.testing.assert_allclose(jax.jit(recipe.credit)(GROUP), EXPECTED, atol=6e-5)
  # Its score reads a trajectory, here one that never answered.
  question = types.Question('q', 'who?', ('Ada',))
  silent = types.Trajectory(question, 0, '', (), (), types.Status.TURN_LIMIT)
  scores = recipe.score([[silent, silent]])
  assert scores.kind.shape == (1, 2, environment.all_turns)
  assert not np.any(recipe.credit(scores))


class PlayedError(Exception):
  """The run is about to play."""


def test_the_environment_that_a_recipe_names_is_played(tmp_path):
  """That of the config is an offer."""
  config = base.get_config()
  config.evaluation.update(questions=1, final_questions=1)

  def recipe(config, environment):
    other = dataclasses.replace(environment, max_turns=1)
    score = recipes.outcome_score(config, other)
    return types.Recipe(other, score, grpo.turn_advantages)

  def make_player(config, model, environment, *rest, **more):
    raise PlayedError(environment.max_turns)

  def flag(value):
    return pytypes.SimpleNamespace(value=value)

  with (
    mock.patch.multiple(cli, WORKDIR=flag(str(tmp_path)), SEED=flag(0)),
    mock.patch.object(parts, 'make_player', make_player),
    pytest.raises(PlayedError, match=r'^1$'),
  ):
    run.train(Experiment('other', recipe), config)


def test_the_added_files_pass_what_ours_must_pass(tmp_path):
  # The layering table and the header, by the test that holds them.
  path = ROOT / 'tests' / 'imports_test.py'
  spec = importlib.util.spec_from_file_location('imports_table', path)
  table = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(table)
  for name, source in CODE.items():
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(source)
    assert tuple(source.splitlines()[:2]) == table.HEADER
  assert table.complaints(tmp_path) == []
  # As though they stood in the repository, where imports are told apart.
  for name, source in CODE.items():
    for command in (('check',), ('format', '--check')):
      done = subprocess.run(
        [sys.executable, '-m', 'ruff', *command, f'--stdin-filename={name}'],
        input=source,
        cwd=ROOT,
        capture_output=True,
        text=True,
      )
      assert done.returncode == 0, done.stdout + done.stderr
