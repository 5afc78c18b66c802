# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The phases of a run: drills, demonstrations, experience.

All share the model, the mesh and the structure of the optimizer's state; each
has its own source of batches, loss and optimizer.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax

from experiments import parts
from experiments.data import Data
from experiments.grammars.grammar import Grammar
from experiments.player import Player
from experiments.policy import Policy
from searchrl_jax.credit.grpo import zero_spread
from searchrl_jax.data import pipeline
from searchrl_jax.rewards.measures import measure
from searchrl_jax.training import losses, state, step
from searchrl_jax.training.clock import Clock
from searchrl_jax.training.demonstrations import Demonstrations, imitating
from searchrl_jax.training.experience import Experience, ExperienceConfig
from searchrl_jax.training.loop import Phase
from searchrl_jax.training.minibatches import minibatches
from searchrl_jax.training.optimizer import OptimizerConfig, make_optimizer
from searchrl_jax.training.sources import Packing
from searchrl_jax.types import Recipe

WARM_START, RL = 'warm_start', 'rl'


class Learner:
  """A policy with its shardings, and what turns batches into updates."""

  def __init__(self, config, policy: Policy, mesh):
    self._config = config
    self._mesh = mesh
    self.policy = policy
    self._scores = self._scores_of(policy.model, policy.join)
    self._optimizer = make_optimizer(OptimizerConfig(), 1)
    self.shardings = state.state_shardings(
      mesh,
      self._optimizer,
      policy.learned,
      jax.tree.map(lambda shape: shape.sharding, policy.learned),
    )
    self.logps = self._logps_of(self._scores, policy.frozen)
    self._gradients = functools.cache(self._make_gradients)
    self._updates: list[step.Update] = []

  @property
  def params_template(self):
    """Shapes of the params that learn, and where they lie."""
    return self.policy.learned

  @property
  def template(self) -> state.TrainState:
    """Shapes of a whole state, and where they lie."""
    return state.template(self.policy.learned, self._optimizer, self.shardings)

  def init(self) -> state.TrainState:
    """A state before its first update."""
    return self.init_with(self.policy.begin())

  def init_with(self, params) -> state.TrainState:
    """A state that begins with given parameters."""
    return state.init_state(params, self._optimizer, self.shardings)

  def reference(self, kept: Callable[[], Any]) -> Callable[[Any], Any]:
    """What gives the log-probs of a KL reference, batch by batch.

    Where adapters learn, the reference is the base without them: it is there
    already. Elsewhere it is the weights that `kept` reads, once.
    """
    policy = self.policy
    if policy.frozen:
      scores = self._scores_of(policy.base, step.all_learn)
      logps = self._logps_of(scores, {})
      return lambda batch: logps(policy.frozen, batch)
    kept = functools.cache(kept)
    return lambda batch: self.logps(kept(), batch)

  def _scores_of(self, model, join) -> step.TokenScores:
    return step.make_token_scores(
      model.apply,
      model.unembedding,
      join=join,
      chunk=self._config.training.logps_chunk,
      temperature=self._config.rollout.temperature or 1.0,
    )

  def _logps_of(self, scores, frozen) -> step.LearnerLogps:
    return step.make_learner_logps(
      scores,
      self._mesh,
      micro_rows=self._config.training.microbatch,
      frozen=frozen,
    )

  def _make_gradients(self, loss: losses.LossConfig) -> step.Gradients:
    """The gradient programs of a loss, shared by the phases that use it."""
    return step.make_gradients(
      self._scores,
      losses.make_loss(loss),
      self._mesh,
      self.shardings,
      micro_rows=self._config.training.microbatch,
      frozen=self.policy.frozen,
    )

  def phase(self, kind, name, steps, source, loss, optimizer, *, updates):
    """A phase with `updates` (minibatches, epochs) per step."""
    count, epochs = updates
    try:
      optimizer = make_optimizer(
        OptimizerConfig(**optimizer), max(1, steps * count * epochs)
      )
    except ValueError as error:  # say which of the optimizers
      raise ValueError(f'{name}: {error}') from None
    update = step.make_update(
      self._gradients(losses.LossConfig(**loss)),
      optimizer,
      self._mesh,
      self.shardings,
    )
    self._updates.append(update)

    def split(batch, targets):
      for _ in range(epochs):
        yield from minibatches(batch, targets, count)

    begin = functools.partial(
      state.restart_optimizer, optimizer=optimizer, shardings=self.shardings
    )
    return Phase(kind, name, steps, source, begin, update, split)

  @property
  def compiled_programs(self) -> int:
    """Programs compiled so far, each counted once."""
    counts = {id(self.logps): self.logps.compiled_programs()}
    for update in self._updates:
      counts[id(update)] = {'apply': update.compiled_programs()['apply']}
      counts[id(update.gradients)] = update.gradients.compiled_programs()
    return sum(sum(programs.values()) for programs in counts.values())


def warm_start_phases(
  config,
  learner: Learner,
  grammar: Grammar,
  environment,
  tokenizer,
  data,
  clock: Clock,
  seed,
) -> list[Phase]:
  """Drills and demonstrations; none where another run's are shared."""
  if config.init_from:
    return []
  section = config.warm_start
  stages = [
    (
      'drills',
      section.drill_steps,
      grammar.drills,
      section.drill_optimizer,
    ),
    (
      'demonstrations',
      section.sft_steps,
      grammar.demonstrations,
      section.sft_optimizer,
    ),
  ]
  loss = {'surrogate': 'likelihood', 'kl': 'none'}
  phases = []
  for name, steps, lessons, optimizer in stages:
    if not steps:
      continue
    source = Demonstrations(
      lessons(config, environment, data, seed),
      questions=section.questions,
      tokenizer=tokenizer,
      limits=parts.make_limits(config),
      packing=_packing(config),
      clock=clock,
    )
    phase = learner.phase(
      WARM_START, name, steps, source, loss, optimizer, updates=(1, 1)
    )
    phases.append(dataclasses.replace(phase, update=imitating(phase.update)))
  return phases


def experience_phase(
  config,
  learner: Learner,
  grammar: Grammar,
  recipe: Recipe,
  player: Player,
  questions,
  clock: Clock,
  *,
  record: Callable[..., None],
  keep: Callable[[Any], None],
  reference: Callable[[], Any],
) -> Phase:
  """Rollouts of the policy itself, credited by the recipe.

  `record` is told of every step's trajectories, `keep` of the state before
  the first; `reference` gives the weights of a KL term.
  """
  section, training = config.experience, config.training
  sampling = parts.make_sampling(config)

  def play(batch, params: Any, number: int, redraw: int):
    player.load(params)
    return player.play(
      batch,
      group=config.rollout.group,
      # A question met again in a redraw of its step is drawn anew.
      purpose=f'train/{redraw}' if redraw else 'train',
      step=number,
      sampling=sampling,
    )

  source = Experience(
    recipe,
    play,
    questions,
    config=ExperienceConfig(
      **section,
      max_tokens=config.rollout.max_tokens,
      reference=config.loss.kl != 'none',
    ),
    packing=_packing(config),
    clock=clock,
    logps=learner.logps,
    reference=learner.reference(reference),
    describe=player.describe,
    measure=functools.partial(measure, formed=grammar.formed),
    zero_spread=jax.jit(zero_spread),
    record=record,
  )
  phase = learner.phase(
    RL,
    'experience',
    training.steps,
    source,
    config.loss,
    config.optimizer,
    updates=(training.minibatches, training.epochs),
  )
  _check_skipping(config)

  def begin(state):
    keep(state)
    return phase.begin(state)

  return dataclasses.replace(phase, begin=begin)


def _check_skipping(config) -> None:
  """Refuses to skip trajectories that a term of the loss acts on."""
  loss = config.loss
  acts = loss.kl != 'none' or loss.entropy_weight or loss.llds
  if config.experience.skip_zero_advantage and acts:
    raise ValueError(
      'experience.skip_zero_advantage leaves out tokens that a KL, entropy or '
      'LLDS term of the loss acts on; set it to False, or turn the term off.'
    )


def train_questions(config, data: Data, seed: int):
  """Batches of training questions, for ever, with a state to resume from."""
  return pipeline.question_iterator(
    data.train,
    batch=config.rollout.questions,
    seed=seed,
    shuffle=data.shuffle,
  )


def _packing(config) -> Packing:
  return Packing(config.training.packed_length, config.training.microbatch)
