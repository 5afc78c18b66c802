# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""CW-GRPO: a trajectory's advantage moves to the searches that earned it.

  python -m experiments.cwgrpo --workdir=runs/cwgrpo

arXiv:2604.14267. Searches are judged by the gold chain of the question; a
question without one needs a judge that reads, and is refused.
"""

import functools

from experiments import recipes, run
from experiments.experiment import Experiment
from searchrl_jax.credit import cwgrpo
from searchrl_jax.types import Credit, Recipe

CONTRIBUTIONS = {
  'both': cwgrpo.contributions,
  'useful': cwgrpo.useful_alone,
  'correct': cwgrpo.correct_alone,
}


def recipe(config, environment) -> Recipe:
  """The parts of CW-GRPO."""
  return Recipe(
    environment=environment,
    score=recipes.judged_score(config, environment),
    credit=credit(config),
  )


def credit(config) -> Credit:
  """CW-GRPO's advantages with the settings of a config."""
  settings = config.cwgrpo.to_dict()
  name = settings.pop('contribution')
  return functools.partial(
    cwgrpo.advantages,
    contribution=recipes.choose('cwgrpo.contribution', name, CONTRIBUTIONS),
    baseline=recipes.baseline(config),
    **settings,
  )


EXPERIMENT = Experiment('cwgrpo', recipe)

if __name__ == '__main__':
  run.main(EXPERIMENT)
