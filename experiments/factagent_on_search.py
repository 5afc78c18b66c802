# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent's credit in the Search-R1 conversation.

  python -m experiments.factagent_on_search --workdir=runs/factagent_on_search

Nobody asserts anything here: a thought that names the relation just asked for
and a value states a fact, and is credited as an Assert would be.
"""

from experiments import facts, recipes, run
from experiments.experiment import Experiment
from searchrl_jax.rewards.facts import stated
from searchrl_jax.types import Recipe


def recipe(config, environment) -> Recipe:
  """The parts of GRPO, credited by the facts that thoughts state."""
  score = recipes.outcome_score(config, environment)
  return Recipe(
    environment=environment,
    # A turn states one fact at most.
    score=facts.with_facts(
      config, score, stated, max_facts=environment.all_turns
    ),
    credit=facts.credit(config),
    explain=facts.explain(config, stated),
  )


EXPERIMENT = Experiment('factagent_on_search', recipe)

if __name__ == '__main__':
  run.main(EXPERIMENT)
