# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent with Qwen2.5-7B-Instruct, with the published settings.

NQ and HotpotQA for training, six rollouts of a question, no warm start. The
published retriever is E5 over Wikipedia of 2018; here it is BM25 over the
corpus that is given. For 8 devices of 80 GiB; not run by us.

  python -m experiments.factagent \\
    --config=experiments/configs/factagent_qwen25_7b.py \\
    --config.data.corpus=corpus.jsonl --config.data.questions=train.parquet
"""

from experiments.configs import factagent_qwen25_3b

RUNS_ON_CPU = False


def get_config():
  config = factagent_qwen25_3b.get_config()
  with config.unlocked():
    config.model.name = 'Qwen/Qwen2.5-7B-Instruct'
  return config
