# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A finished or running workdir, read back to play with its weights."""

import dataclasses
import pathlib
from typing import Any

import jax
import ml_collections

from experiments import parts
from experiments.configs import base
from experiments.player import Player
from searchrl_jax import checkpoint
from searchrl_jax import workdir as workdirs

NEWEST = 'newest'


@dataclasses.dataclass(frozen=True)
class Saved:
  """What is needed to play."""

  config: ml_collections.ConfigDict
  identity: dict
  step: int
  params: Any
  environment: Any
  player: Player
  data: parts.Data


def load(
  workdir: str, *, step: str, changes: dict[str, Any], rows: int
) -> Saved:
  """Reads the config and the weights of a workdir.

  Args:
    workdir: of a run.
    step: a number, or `newest`.
    changes: dotted config keys to change, such as `data.corpus`.
    rows: trajectories played at a time.

  Raises:
    ValueError: no such workdir, or no checkpoint of that step in it.
  """
  identity = workdirs.read_config(workdir)
  config = base.get_config()
  known = {k: v for k, v in identity.items() if k in config}
  with config.unlocked():
    config.update(known)
    config.update_from_flattened_dict(changes)
    config.devices = 1
  tokenizer = parts.make_tokenizer(config)
  environment = parts.make_environment(config, tokenizer)
  data = parts.make_data(config, identity['seed'])
  model = parts.make_model_of(config, tokenizer)
  template = jax.eval_shape(model.init, jax.random.key(0))
  if step != NEWEST and not step.isdecimal():
    raise ValueError(f'step is {step!r}; give a number or {NEWEST!r}.')
  number, params = checkpoint.restore_params(
    pathlib.Path(workdir),
    template,
    step=None if step == NEWEST else int(step),
  )
  player = parts.make_player(
    config,
    model,
    environment,
    tokenizer,
    data.resolve,
    parts.make_mesh(config),
    seed=identity['seed'],
    rows=rows,
  )
  player.load(params)
  return Saved(config, identity, number, params, environment, player, data)
