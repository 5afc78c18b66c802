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
import sys

from absl import flags

from experiments import cli, recipes, saved
from searchrl_jax import metrics
from searchrl_jax.evaluation.evaluate import evaluate, hash_of
from searchrl_jax.types import Sampling
from searchrl_jax.workdir import read_config

_STEP = flags.DEFINE_string(
  'step',
  saved.NEWEST,
  'A number, "newest", "best" (by the em of quick evaluations) or '
  '"warm_start".',
)
_SPLIT = flags.DEFINE_enum(
  'split', 'test', ['validation', 'test'], 'Questions to ask.'
)
_N = flags.DEFINE_integer(
  'n', 0, 'A stratified subset of n; 0 asks all.', lower_bound=0
)
_TEMPERATURE = flags.DEFINE_float(
  'temperature', 0.0, '0 is greedy.', lower_bound=0.0
)
_CORPUS = flags.DEFINE_string('corpus', '', 'A corpus file (.jsonl).')
_QUESTIONS = flags.DEFINE_string('questions', '', 'A question file.')


def main(config) -> None:
  """Prints one row as JSON."""
  del config  # that of the workdir counts
  workdir = cli.workdir_of_a_run()
  run = saved.load(workdir, step=_STEP.value, changes=_changes(workdir))
  questions = getattr(run.data, _SPLIT.value)
  section = run.config.rollout
  sampling = Sampling(_TEMPERATURE.value, section.top_k, section.top_p)
  row = evaluate(
    run.player.evaluating(_SPLIT.value, sampling),
    recipes.outcome_score(run.config, run.recipe.environment),
    questions,
    split=_SPLIT.value,
    phase='evaluate',
    step=run.step,
    temperature=sampling.temperature,
    settings=run.identity | run.config.to_dict(),
    data_hash=hash_of(questions),
    batch=len(questions),
  )
  file = metrics.JsonLines(pathlib.Path(workdir) / 'evaluate.jsonl')
  file.append(row)
  file.close()
  shown = {k: v for k, v in metrics.plain(row).items() if k != 'settings'}
  print(json.dumps(shown, indent=2))


def _changes(workdir: str) -> dict:
  """What the flags change in the config of the workdir."""
  changes = {}
  if _CORPUS.value:
    changes['data.corpus'] = _CORPUS.value
  if _QUESTIONS.value:
    changes['data.questions'] = _QUESTIONS.value
    changes['data.evaluation_questions'] = ''
  # The generated world has as many questions as are asked for; of a file, a
  # run may have evaluated on a part, but here the whole is the default.
  size = 'final_questions' if _SPLIT.value == 'test' else 'questions'
  from_files = read_config(workdir)['data']['questions']
  if _N.value:
    changes[f'evaluation.{size}'] = _N.value
  elif _QUESTIONS.value or from_files:
    changes[f'evaluation.{size}'] = sys.maxsize
  return changes


if __name__ == '__main__':
  cli.run(main)
