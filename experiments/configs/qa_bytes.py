# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Real passages and questions with bytes as tokens: every real part, small.

A fresh policy of bytes learns the form of a search from scripted
demonstrations (a title that the question names), then takes two steps of
GRPO. It learns to ask, not to answer: the answers need a language model.

  python -m experiments.grpo --config=experiments/configs/qa_bytes.py \\
    --config.data.corpus=corpus.jsonl --config.data.questions=questions.jsonl
"""

from experiments.configs import base

RUNS_ON_CPU = True


def get_config():
  config = base.get_config()
  with config.unlocked():
    config.tokenizer = 'bytes'
    config.environment.update(
      wording='natural', max_turns=2, topk=2, max_observation=300
    )
    config.retrieval.stem = True
    config.model.update(width=128, mlp_width=256, rope_base=10_000.0)
    config.rollout.update(
      questions=4, group=4, max_new_tokens=160, max_tokens=400, context=2048
    )
    config.warm_start.update(drill_steps=0, sft_steps=60, questions=4)
    config.warm_start.sft_optimizer.update(learning_rate=3e-3, warmup_steps=5)
    config.training.update(
      steps=2, minibatches=1, microbatch=1, packed_length=2048
    )
    config.optimizer.warmup_steps = 0
    config.evaluation.update(every=2, questions=16, final_questions=44)
    config.checkpoint.every = 20
    config.traces.every = 1
  return config
