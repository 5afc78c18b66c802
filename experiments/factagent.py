# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent: asserted facts are worth what they tell of success.

  python -m experiments.factagent --workdir=runs/factagent

EMNLP 2026, "Dense Process Supervision for Search Agents via Fact Utility
Estimation". The agent keeps a store of facts instead of a transcript. Its
ablations are keys of `factagent`: omega=0 (no process reward), to_search=0
(nothing goes back to the Search), exact=True (only equal facts are one).
"""

from experiments import facts, recipes, run, yardstick
from experiments.experiment import Experiment
from experiments.grammars.factagent import FACTAGENT
from searchrl_jax.types import Recipe


def recipe(config, environment) -> Recipe:
  """The parts of FactAgent."""
  return facts.asserting(
    config, environment, recipes.outcome_score, facts.credit(config)
  )


EXPERIMENT = Experiment(
  'factagent',
  recipe,
  grammar=FACTAGENT,
  config='factagent_tiny',
  beside=yardstick.search_r1_prompts,
)

if __name__ == '__main__':
  run.main(EXPERIMENT)
