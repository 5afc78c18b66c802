# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Evaluates the weights of a workdir; appends to its `evaluate.jsonl`.

  python -m experiments.evaluate --workdir=runs/cwgrpo --temperature=0
  python -m experiments.evaluate --workdir=runs/cwgrpo --step=300 --n=5000

The config is that of the workdir. The full split is the default; other
questions come with --corpus and --questions.
"""

import json
import pathlib

from absl import flags

from experiments import cli, recipes, saved
from searchrl_jax import metrics
from searchrl_jax.evaluation.evaluate import evaluate, hash_of, stratified
from searchrl_jax.types import Sampling

_STEP = flags.DEFINE_string('step', saved.NEWEST, 'A step, or "newest".')
_SPLIT = flags.DEFINE_enum(
  'split', 'test', ['validation', 'test'], 'Questions to ask.'
)
_N = flags.DEFINE_integer('n', 0, 'A stratified subset of n; 0 asks all.')
_TEMPERATURE = flags.DEFINE_float('temperature', 0.0, '0 is greedy.')
_CORPUS = flags.DEFINE_string('corpus', '', 'A corpus file (.jsonl).')
_QUESTIONS = flags.DEFINE_string('questions', '', 'A question file.')

ROWS = 128  # trajectories at a time


def main(config) -> None:
  """Prints one row as JSON."""
  del config  # that of the workdir counts
  if not cli.WORKDIR.value:
    raise ValueError('--workdir is missing; give the workdir of a run.')
  changes = {}
  if _CORPUS.value or _QUESTIONS.value:
    changes = {'data.corpus': _CORPUS.value, 'data.questions': _QUESTIONS.value}
  if _N.value and not changes:
    # The generated world has as many questions as are asked for.
    name = 'final_questions' if _SPLIT.value == 'test' else 'questions'
    changes = {f'evaluation.{name}': _N.value}
  run = saved.load(
    cli.WORKDIR.value, step=_STEP.value, changes=changes, rows=ROWS
  )
  questions = getattr(run.data, _SPLIT.value)
  if _N.value:
    questions = stratified(questions, _N.value)
  sampling = Sampling(_TEMPERATURE.value)

  def play(batch, _):
    return run.player.play(
      batch,
      group=1,
      purpose=f'evaluation/{_SPLIT.value}',
      step=0,
      sampling=sampling,
    )

  row = evaluate(
    play,
    recipes.outcome_score(run.config, run.environment),
    questions,
    split=_SPLIT.value,
    phase='evaluate',
    step=run.step,
    temperature=sampling.temperature,
    settings=run.identity | changes,
    data_hash=hash_of(questions),
    batch=len(questions),
  )
  file = metrics.JsonLines(pathlib.Path(cli.WORKDIR.value) / 'evaluate.jsonl')
  file.append(row)
  file.close()
  shown = {k: v for k, v in metrics.plain(row).items() if k != 'settings'}
  print(json.dumps(shown, indent=2))


if __name__ == '__main__':
  cli.run(main)
