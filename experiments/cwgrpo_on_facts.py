# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""CW-GRPO's credit in FactAgent's conversation.

  python -m experiments.cwgrpo_on_facts --workdir=runs/cwgrpo_on_facts

The advantage of a trajectory moves to the searches that earned it; Asserts
and the answer keep it. Facts are clustered for the log alone.
"""

from experiments import cwgrpo, facts, recipes, run, yardstick
from experiments.experiment import Experiment
from experiments.grammars.factagent import FACTAGENT
from searchrl_jax.types import Recipe


def recipe(config, environment) -> Recipe:
  """The parts of FactAgent, credited by CW-GRPO."""
  return facts.asserting(
    config, environment, recipes.judged_score, cwgrpo.credit(config)
  )


EXPERIMENT = Experiment(
  'cwgrpo_on_facts',
  recipe,
  grammar=FACTAGENT,
  config='factagent_tiny',
  beside=yardstick.search_r1_prompts,
)

if __name__ == '__main__':
  run.main(EXPERIMENT)
