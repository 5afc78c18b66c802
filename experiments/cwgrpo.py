# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""CW-GRPO: a trajectory's advantage moves to the searches that earned it.

  python -m experiments.cwgrpo --workdir=runs/cwgrpo

arXiv:2604.14267. Searches are judged by the gold chain of the question; a
question without one needs a judge that reads, and is refused.
"""

import functools

from experiments import cli, recipes, run
from searchrl_jax.credit import cwgrpo
from searchrl_jax.types import Recipe

CONTRIBUTIONS = {
  'both': cwgrpo.contributions,
  'useful': cwgrpo.useful_alone,
  'correct': cwgrpo.correct_alone,
}


def recipe(config, environment) -> Recipe:
  """The parts of CW-GRPO."""
  settings = config.cwgrpo.to_dict()
  name = settings.pop('contribution')
  return Recipe(
    environment=environment,
    score=recipes.judged_score(config, environment),
    credit=functools.partial(
      cwgrpo.advantages,
      contribution=recipes.choose('cwgrpo.contribution', name, CONTRIBUTIONS),
      baseline=recipes.baseline(config),
      **settings,
    ),
  )


if __name__ == '__main__':
  cli.run(functools.partial(run.train, recipe, name='cwgrpo'))
