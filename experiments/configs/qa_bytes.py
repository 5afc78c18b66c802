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
    # The terse wording: instructions would be most of what a byte policy
    # reads, and it cannot read them.
    config.environment.update(
      wording='words', max_turns=1, topk=1, max_observation=60
    )
    config.retrieval.stem = True
    config.model.sizes.update(layers=2)
    # A search of the longest title takes 133 bytes, a whole demonstration 460.
    config.rollout.update(
      questions=4, group=4, max_new_tokens=144, max_tokens=288, context=512
    )
    config.rollout.append_tokens = 256
    config.warm_start.update(
      lessons='titles', drill_steps=0, sft_steps=120, questions=8
    )
    config.warm_start.sft_optimizer.learning_rate = 1.2e-2
    # Rows hold two demonstrations of common length.
    config.training.update(
      steps=2, minibatches=1, microbatch=2, packed_length=640
    )
    config.optimizer.warmup_steps = 0
    config.evaluation.update(every=2, questions=16, final_questions=44)
    config.traces.every = 1
  return config
