# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a file of this folder says of its method: one record, read by all.

`python -m experiments.<name>` trains it; `evaluate`, `ask` and `export` find
it by the name that a workdir remembers.
"""

import dataclasses
import importlib
import pathlib
from collections.abc import Callable

import ml_collections

from experiments.data import Data
from experiments.grammars.grammar import Grammar
from experiments.grammars.search_r1 import SEARCH_R1
from searchrl_jax.evaluation import evaluate
from searchrl_jax.types import Environment, Recipe

# (config, environment) -> the parts of a method.
MakeRecipe = Callable[[ml_collections.ConfigDict, Environment], Recipe]
MakeBeside = Callable[[ml_collections.ConfigDict, Data], evaluate.Beside]


def nothing_beside(
  config: ml_collections.ConfigDict, data: Data
) -> evaluate.Beside:
  """Of experiments that are measured by what all are measured by."""
  del config, data
  return evaluate.nothing_beside


@dataclasses.dataclass(frozen=True)
class Experiment:
  """A method on a grammar.

  Attributes:
    name: of its file in this folder.
    recipe: makes its parts from a config.
    grammar: of the conversation it is about.
    config: the file in `configs/` that it runs with where none is named.
    beside: makes what its evaluations measure beside the usual.
  """

  name: str
  recipe: MakeRecipe
  grammar: Grammar = SEARCH_R1
  config: str = 'tiny'
  beside: MakeBeside = nothing_beside


def find(name: str) -> Experiment:
  """The experiment of that name.

  Raises:
    ValueError: there is none here.
  """
  module = None
  if (pathlib.Path(__file__).parent / f'{name}.py').is_file():
    module = importlib.import_module(f'experiments.{name}')
  if not hasattr(module, 'EXPERIMENT'):
    raise ValueError(
      f'there is no experiment {name!r} here; evaluate where it was run.'
    )
  return module.EXPERIMENT
