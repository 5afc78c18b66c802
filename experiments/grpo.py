# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""GRPO: every turn of a rollout gets its group-relative outcome advantage.

  python -m experiments.grpo --workdir=runs/grpo

The baseline of all methods (arXiv:2402.03300); Dr. GRPO with
--config.grpo.normalize_std=False and --config.loss.aggregation=constant_length.
Searches are judged where the gold chain is known, for the log alone.
"""

import functools

from experiments import recipes, run
from experiments.experiment import Experiment
from searchrl_jax.credit import grpo
from searchrl_jax.types import Recipe


def recipe(config, environment) -> Recipe:
  """The parts of GRPO."""
  return Recipe(
    environment=environment,
    score=recipes.outcome_score(config, environment),
    credit=functools.partial(
      grpo.turn_advantages, baseline=recipes.baseline(config)
    ),
  )


EXPERIMENT = Experiment('grpo', recipe)

if __name__ == '__main__':
  run.main(EXPERIMENT)
