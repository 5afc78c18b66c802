# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent with Qwen2.5-3B-Instruct, directly by reinforcement learning.

Published are the model, the training sets (NQ and HotpotQA), six rollouts of
a question, at most eight rounds and what stands under `factagent`; the other
numbers are ours, untuned. The published retriever is E5 over Wikipedia of
2018; here it is BM25 over the corpus that is given. For 8 devices of 80 GiB;
not run by us.

  python -m experiments.factagent \\
    --config=experiments/configs/factagent_qwen25_3b.py \\
    --config.data.corpus=corpus.jsonl --config.data.questions=train.parquet
"""

from experiments.configs import base

RUNS_ON_CPU = False


def get_config():
  config = base.get_config()
  with config.unlocked():
    config.model.update(
      name='Qwen/Qwen2.5-3B-Instruct', compute_dtype='bfloat16'
    )
    config.tokenizer = 'model'
    config.chat_template = 'model'
    config.world.rendering = 'natural'
    config.environment.update(
      wording='natural', max_turns=8, max_facts=24, topk=3, max_observation=600
    )
    config.retrieval.stem = True
    config.rollout.update(
      questions=64, group=6, max_new_tokens=256, max_tokens=2048, context=3072
    )
    config.rollout.update(append_rows=4, append_tokens=2048)
    config.warm_start.update(drill_steps=0, sft_steps=0, superfluous=0.0)
    config.training.update(
      steps=200, minibatches=2, microbatch=8, packed_length=4096
    )
    config.optimizer.update(learning_rate=1e-6, warmup_steps=20)
    config.loss.update(kl='k3', kl_weight=0.001)
    config.experience.skip_zero_advantage = False
    config.reward.outcome = 'f1'
    config.devices = 0
    config.mesh.fsdp = 8
    config.evaluation.update(every=20, questions=512, final_questions=2048)
  return config
