# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A finished or running workdir, read back to play with its weights."""

import dataclasses
import pathlib
from typing import Any

import ml_collections

from experiments import begin, evaluations, parts
from experiments import policy as policies
from experiments.begin import WARM_START
from experiments.configs import base
from experiments.data import Data, make_data
from experiments.experiment import Experiment, find
from experiments.player import Player, Rows
from searchrl_jax import checkpoint
from searchrl_jax import workdir as workdirs
from searchrl_jax.tokenizer import Tokenizer
from searchrl_jax.types import Recipe

NEWEST, BEST = 'newest', 'best'


_ROWS = 128  # trajectories at a time, at most


@dataclasses.dataclass(frozen=True)
class Restored:
  """The weights of a workdir, and what they are the weights of."""

  config: ml_collections.ConfigDict
  identity: dict
  step: int
  experiment: Experiment
  named: policies.Named
  tokenizer: Tokenizer
  mesh: Any
  policy: policies.Policy
  params: Any  # those that learn


@dataclasses.dataclass(frozen=True)
class Saved:
  """What is needed to play."""

  config: ml_collections.ConfigDict
  identity: dict
  step: int
  recipe: Recipe
  player: Player
  data: Data


def restore(workdir: str, *, step: str, changes: dict[str, Any]) -> Restored:
  """Reads the config and the weights of a workdir.

  Args:
    workdir: of a run.
    step: a number, `newest`, `best` by the quick evaluation, or `warm_start`,
      the weights that experience began with.
    changes: dotted config keys to change, such as `data.corpus`.

  Raises:
    ValueError: no such workdir, or no checkpoint of that step in it.
  """
  identity = workdirs.read_config(workdir)
  if not isinstance(identity, dict) or not {'experiment', 'model'} <= set(
    identity
  ):
    raise ValueError(
      f'{workdir} is no workdir of a run: its config.json names no experiment.'
    )
  config = base.get_config()
  known = {k: v for k, v in identity.items() if k in config}
  with config.unlocked():
    config.update(known)
    config.update_from_flattened_dict(changes)
    config.devices = 1
    config.mesh.update(fsdp=1, tensor=1)
  named = policies.read_name(config)
  experiment = find(identity['experiment'])
  tokenizer = parts.make_tokenizer(config, named, experiment.grammar)
  decoder = policies.make_decoder(config, named, tokenizer)
  mesh = parts.make_mesh(config)
  policy = policies.make_policy(decoder, named, mesh, identity['seed'])
  place = pathlib.Path(workdir)
  begin.require_same_base(place, policy)
  if step == WARM_START:
    place, step = place / WARM_START, NEWEST
  number, params = checkpoint.restore_params(
    place, policy.learned, step=_number(workdir, step)
  )
  return Restored(
    config,
    identity,
    number,
    experiment,
    named,
    tokenizer,
    mesh,
    policy,
    params,
  )


def load(workdir: str, *, step: str, changes: dict[str, Any]) -> Saved:
  """As `restore`, with everything that is needed to play.

  Args:
    workdir, step, changes: as for `restore`.

  Raises:
    ValueError: as `restore`; or there is no such experiment, or no such data.
  """
  run = restore(workdir, step=step, changes=changes)
  config, seed = run.config, run.identity['seed']
  environment = run.experiment.grammar.environment(config, run.tokenizer)
  recipe = run.experiment.recipe(config, environment)
  data = make_data(config, seed)
  player = parts.make_player(
    config,
    run.policy,
    recipe.environment,
    run.tokenizer,
    parts.make_template(config, run.named, run.tokenizer),
    data.resolve,
    run.mesh,
    seed=seed,
    rows=_on_one_device(parts.make_rows(config)),
  )
  player.load(run.params)
  return Saved(config, run.identity, run.step, recipe, player, data)


def _on_one_device(rows: Rows) -> Rows:
  """No more rows than one device holds, of a run that may have had many."""
  return dataclasses.replace(
    rows, rows=min(rows.rows, _ROWS), width=min(rows.width, _ROWS)
  )


def _number(workdir: str, step: str) -> int | None:
  """The step that a flag names; None for the newest."""
  if step == NEWEST:
    return None
  if step.isdecimal():
    return int(step)
  if step != BEST:
    raise ValueError(
      f'step is {step!r}; give a number, {NEWEST!r}, {BEST!r} or '
      f'{WARM_START!r}.'
    )
  best = checkpoint.best_step(workdir, evaluations.QUICK)
  if best is None:
    raise ValueError(
      f'no checkpoint of {workdir} was evaluated when it was saved: '
      'checkpoint.every and evaluation.every never fell together.'
    )
  return best
