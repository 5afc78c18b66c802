# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A run in a workdir: begins, goes on after an interruption, ends.

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

import functools
import pathlib
from typing import Any

import jax
import ml_collections

from experiments import begin, cli, console, parts
from experiments.assembly import Assembly, assemble
from experiments.evaluations import QUICK, Evaluations
from experiments.experiment import Experiment
from experiments.records import Records
from searchrl_jax import checkpoint
from searchrl_jax import workdir as workdirs
from searchrl_jax.diagnostics.report import write_report
from searchrl_jax.training import loop
from searchrl_jax.training.sources import TrainingStoppedError


def main(experiment: Experiment) -> None:
  """The entry point of an experiment's file; never returns."""
  cli.run(functools.partial(train, experiment), config=experiment.config)


def train(experiment: Experiment, config: ml_collections.ConfigDict) -> int:
  """Runs an experiment, or goes on with it; returns the exit code.

  Raises:
    ValueError: something in the config, the files or the workdir is wrong.
    TrainingStoppedError: the run must not go on.
  """
  name = experiment.name
  workdir = pathlib.Path(cli.WORKDIR.value or f'runs/{name}')
  seed = cli.SEED.value
  identity = {'experiment': name, 'seed': seed, **config.to_dict()}
  workdirs.require_same_config(workdir, identity)
  run = assemble(experiment, config, seed)
  begin.require_same_base(workdir, run.policy)
  if config.init_from:
    begin.require_same_base(pathlib.Path(config.init_from), run.policy)
  records = Records(workdir, config)
  stages = run.phases(
    record=records.traces,
    keep=functools.partial(begin.keep_warm_start, workdir, identity),
    reference=functools.partial(
      begin.reference, workdir, run.learner.params_template
    ),
  )
  total = sum(stage.steps for stage in stages)
  checkpoints = checkpoint.Checkpoints(
    workdir, identity, keep=config.checkpoint.keep, best_metric=QUICK
  )
  state, done = begin.begin(
    config, run.learner, checkpoints, run.questions, run.player.policy.counters
  )
  # A workdir is taken only when everything above has been found in order.
  workdirs.write_config(workdir, identity)
  begin.keep_base(workdir, run.policy)
  if done == total:
    print(f'{workdir} is finished: all {total} steps are done.')
    write_report(workdir)
    return 0
  records.resume(done)
  evaluations = Evaluations(
    config,
    identity,
    run.data,
    run.recipe,
    run.player,
    run.clock,
    records,
    experiment.beside(config, run.data),
  )
  with run.clock('warm_up'):
    run.player.warm_up(state.params, parts.make_sampling(config))
  if done == 0 and config.init_from:
    evaluations.warm_start(0, state)
  with console.Progress(name, total, done) as progress:
    hooks = loop.Hooks(
      log=lambda row: progress.show(records.log(row, run.compiled_programs)),
      evaluate=lambda *at: evaluations(*at, last=total),
      save=_saver(run, checkpoints, evaluations),
    )
    try:
      _learn(run, stages, state, done, hooks, checkpoints, workdir)
    finally:
      # Also on Ctrl-C: what has been learned so far can be looked at.
      records.close()
      report = write_report(workdir)
  console.summary(workdir, report)
  return 0


def _learn(
  run: Assembly, stages, state: Any, done, hooks, checkpoints, workdir
):
  """The loop; where it must stop, says what is left to go on from."""
  try:
    loop.train(
      stages,
      state,
      done=done,
      clock=run.clock,
      hooks=hooks,
      save_every=run.config.checkpoint.every,
      max_skipped=run.config.training.max_skipped,
    )
  except KeyboardInterrupt:
    last = checkpoints.latest() or 0
    print(f'the same command goes on after step {last}, the last one saved.')
    raise
  except TrainingStoppedError as error:
    last = checkpoints.latest()
    good = 'There is no' if last is None else f'Step {last} is the last good'
    raise TrainingStoppedError(
      f'{error} {good} checkpoint of {workdir}.'
    ) from error


def _saver(run: Assembly, checkpoints, evaluations):
  """What a checkpoint of a run holds."""

  def save(step: int, state: Any) -> None:
    with run.clock('checkpoint'):
      checkpoints.save(
        step,
        state,
        rng=jax.random.key(run.seed),
        data=run.questions.get_state(),
        progress=run.player.policy.counters.tokens,
        metrics=evaluations.metrics_of(step),
      )

  return save
