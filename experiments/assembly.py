# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a run, put together; nothing is written or learned yet."""

import dataclasses
from typing import Any

import ml_collections

from experiments import checks, memory, parts, phases
from experiments import policy as policies
from experiments.data import Data, make_data
from experiments.experiment import Experiment
from experiments.grammars.grammar import Grammar
from experiments.player import Player
from searchrl_jax.tokenizer import Tokenizer
from searchrl_jax.training.clock import Clock
from searchrl_jax.training.loop import Phase
from searchrl_jax.types import Recipe


@dataclasses.dataclass(frozen=True)
class Assembly:
  """What a run consists of."""

  config: ml_collections.ConfigDict
  seed: int
  grammar: Grammar
  tokenizer: Tokenizer
  recipe: Recipe
  data: Data
  player: Player
  policy: policies.Policy
  learner: phases.Learner
  questions: Any  # batches of training questions; resumable
  clock: Clock

  @property
  def compiled_programs(self) -> int:
    """Programs compiled so far, of rollouts and updates."""
    return self.learner.compiled_programs + self.player.policy.compiled_programs

  def phases(self, *, record, keep, reference) -> list[Phase]:
    """What the run goes through; see `phases.experience_phase`."""
    config, environment = self.config, self.recipe.environment
    stages = phases.warm_start_phases(
      config,
      self.learner,
      self.grammar,
      environment,
      self.tokenizer,
      self.data,
      self.clock,
      self.seed,
    )
    if config.training.steps:
      experience = phases.experience_phase(
        config,
        self.learner,
        self.grammar,
        self.recipe,
        self.player,
        self.questions,
        self.clock,
        record=record,
        keep=keep,
        reference=reference,
      )
      stages.append(experience)
    if not sum(stage.steps for stage in stages):
      raise ValueError(
        'there is nothing to do: every phase of this config has 0 steps.'
      )
    return stages


def assemble(
  experiment: Experiment, config: ml_collections.ConfigDict, seed: int
) -> Assembly:
  """Puts the parts of a run together.

  Raises:
    ValueError: something in the config or the files is wrong.
  """
  checks.require_sense(config)
  parts.make_devices(config)
  named = policies.read_name(config)
  tokenizer = parts.make_tokenizer(config, named, experiment.grammar)
  decoder = policies.make_decoder(config, named, tokenizer)
  mesh = parts.make_mesh(config)
  memory.require_fitting(config, decoder, dict(mesh.shape))
  environment = experiment.grammar.environment(config, tokenizer)
  recipe = experiment.recipe(config, environment)
  data = make_data(config, seed)
  template = parts.make_template(config, named, tokenizer)
  checks.require_playable(
    recipe,
    tokenizer,
    template,
    data.known_questions(),
    context=config.rollout.context,
  )
  policy = policies.make_policy(decoder, named, mesh, seed)
  player = parts.make_player(
    config,
    policy,
    recipe.environment,
    tokenizer,
    template,
    data.resolve,
    mesh,
    seed=seed,
    rows=parts.make_rows(config),
  )
  return Assembly(
    config,
    seed,
    experiment.grammar,
    tokenizer,
    recipe,
    data,
    player,
    policy,
    phases.Learner(config, policy, mesh),
    phases.train_questions(config, data, seed),
    Clock(),
  )
