# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent from random weights, minutes on two cores."""

from experiments.configs import base

RUNS_ON_CPU = True


def get_config():
  config = base.get_config()
  with config.unlocked():
    # Three hops take three searches, three Asserts and an answer.
    config.environment.update(max_turns=8, max_facts=8)
    # An Assert of one fact has 5 tokens.
    config.rollout.update(max_new_tokens=12, max_tokens=64, context=112)
    config.training.packed_length = 192
    # Process rewards mislead a policy that seldom succeeds: docs/methods.md.
    config.warm_start.update(drill_steps=200, sft_steps=350, superfluous=0.2)
    config.reward.outcome = 'f1'
  return config
