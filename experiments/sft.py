# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Warm start alone: drills and demonstrations, no reinforcement learning.

  python -m experiments.sft --workdir=runs/sft

Other runs share its result with --config.init_from=runs/sft.
"""

from experiments import cli, grpo, run
from experiments.experiment import Experiment

EXPERIMENT = Experiment('sft', grpo.recipe)


def main(config):
  """Trains as GRPO would, and stops where experience would begin."""
  with config.unlocked():
    config.training.steps = 0
  return run.train(EXPERIMENT, config)


if __name__ == '__main__':
  cli.run(main)
