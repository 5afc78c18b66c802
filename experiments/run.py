# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The one assembly: a recipe and a config become a run in a workdir.

  workdir/config.json          the config, and whose workdir this is
          checkpoints/         newest and best
          warm_start/          the weights experience began with
          metrics.jsonl        one row a step, also under tensorboard/
          evaluation.jsonl     one row an evaluation
          traces.jsonl         some trajectories with their credit
          report.html          drawn from these files when the run ends

The same command begins a run, goes on after an interruption, and says so when
there is nothing left to do.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

import jax
import ml_collections

from experiments import begin, checks, cli, console, parts, phases
from experiments.evaluations import QUICK, Evaluations
from experiments.records import Records
from searchrl_jax import checkpoint
from searchrl_jax import workdir as workdirs
from searchrl_jax.diagnostics.report import write_report
from searchrl_jax.training import loop
from searchrl_jax.training.clock import Clock
from searchrl_jax.training.sources import TrainingStoppedError
from searchrl_jax.types import Environment, Recipe

# (config, environment) -> the parts of a method.
MakeRecipe = Callable[[ml_collections.ConfigDict, Environment], Recipe]


def train(
  make_recipe: MakeRecipe, config: ml_collections.ConfigDict, *, name: str
) -> int:
  """Runs, or goes on with, the experiment `name`; returns the exit code.

  Raises:
    ValueError: something in the config, the files or the workdir is wrong.
    TrainingStoppedError: the run must not go on.
  """
  workdir = pathlib.Path(cli.WORKDIR.value or f'runs/{name}')
  seed = cli.SEED.value
  identity = {'experiment': name, 'seed': seed, **config.to_dict()}
  workdirs.require_same_config(workdir, identity)
  checks.require_sense(config)
  parts.make_devices(config)
  clock = Clock()

  tokenizer = parts.make_tokenizer(config)
  environment = parts.make_environment(config, tokenizer)
  recipe = make_recipe(config, environment)
  environment = recipe.environment  # a method may have a grammar of its own
  data = parts.make_data(config, seed)
  checks.require_playable(
    recipe,
    tokenizer,
    data.known_questions(),
    context=config.rollout.context,
  )
  mesh = parts.make_mesh(config)
  model = parts.make_model_of(config, tokenizer)
  player = parts.make_player(
    config,
    model,
    environment,
    tokenizer,
    data.resolve,
    mesh,
    seed=seed,
    rows=config.rollout.questions * config.rollout.group,
  )
  learner = phases.Learner(config, model, mesh, seed)
  questions = phases.train_questions(config, data, seed)
  records = Records(workdir, config)
  stages = phases.warm_start_phases(
    config, learner, environment, tokenizer, data, clock, seed
  )
  if config.training.steps:
    stages.append(
      phases.experience_phase(
        config,
        learner,
        recipe,
        player,
        questions,
        clock,
        record=records.traces,
        keep=functools.partial(begin.keep_warm_start, workdir, identity),
        reference=functools.partial(begin.reference, workdir, learner.template),
      )
    )
  total = sum(stage.steps for stage in stages)
  if not total:
    raise ValueError(
      'there is nothing to do: every phase of this config has 0 steps.'
    )

  checkpoints = checkpoint.Checkpoints(
    workdir, identity, keep=config.checkpoint.keep, best_metric=QUICK
  )
  state, done = begin.begin(
    config, learner, checkpoints, questions, player.policy.counters
  )
  # A workdir is taken only when everything above has been found in order.
  workdirs.write_config(workdir, identity)
  if done == total:
    print(f'{workdir} is finished: all {total} steps are done.')
    write_report(workdir)
    return 0
  records.resume(done)
  evaluations = Evaluations(
    config, identity, data, recipe, player, clock, records
  )
  if done == 0 and config.init_from:
    evaluations.warm_start(0, state)

  def save(step, state):
    with clock('checkpoint'):
      checkpoints.save(
        step,
        state,
        rng=jax.random.key(seed),
        data=questions.get_state(),
        progress=dataclasses.asdict(player.policy.counters),
        metrics=evaluations.metrics_of(step),
      )

  def compiled():
    return learner.compiled_programs + player.policy.compiled_programs

  with console.Progress(name, total, done) as progress:
    hooks = loop.Hooks(
      log=lambda row: progress.show(records.log(row, compiled())),
      evaluate=lambda *at: evaluations(*at, last=total),
      save=save,
    )
    try:
      loop.train(
        stages,
        state,
        done=done,
        clock=clock,
        hooks=hooks,
        save_every=config.checkpoint.every,
        max_skipped=config.training.max_skipped,
      )
    except TrainingStoppedError as error:
      last = checkpoints.latest()
      good = 'There is no' if last is None else f'Step {last} is the last good'
      raise TrainingStoppedError(
        f'{error} {good} checkpoint of {workdir}.'
      ) from error
    finally:
      # Also on Ctrl-C: what has been learned so far can be looked at.
      records.close()
      report = write_report(workdir)
  console.summary(workdir, report)
  return 0
