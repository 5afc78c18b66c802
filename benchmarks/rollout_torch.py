# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's contestant of `benchmarks.rollout`: `generate`, in lock step.

The whole context of every row, padded at the left, is read anew before every
turn. Weights are random and of the same sizes. Imports PyTorch: only processes
that found it import this file.
"""

from __future__ import annotations

import os

import numpy as np
import torch
import transformers

from benchmarks.lock_step import InStep
from benchmarks.workload import Setting, Texts, play
from searchrl_jax.models import hf_config
from searchrl_jax.rollout.policy import Said


class Generate(InStep):
  """A model of transformers that draws with its own `generate`."""

  def __init__(self, model, rows: int):
    super().__init__(rows)
    self._model = model

  def _draw(self, asked, *, fresh):
    contexts = [np.asarray(one.context) for one in asked.values()]
    budget = torch.tensor([one.budget for one in asked.values()])
    width = max(map(len, contexts))
    tokens = torch.zeros((len(contexts), width), dtype=torch.int64)
    attended = torch.zeros_like(tokens)
    for i, context in enumerate(contexts):
      tokens[i, width - len(context) :] = torch.from_numpy(context)
      attended[i, width - len(context) :] = 1
    self.counters.prefilled_tokens += sum(map(len, contexts))

    def ended(sequences, scores, **_):
      del scores
      return budget <= sequences.shape[1] - width

    said = self._model.generate(
      tokens,
      attention_mask=attended,
      generation_config=transformers.GenerationConfig(
        max_new_tokens=int(budget.max()),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        use_cache=True,
      ),
      stopping_criteria=transformers.StoppingCriteriaList([ended]),
    )[:, width:].numpy()
    return [
      Said(row[:n].astype(np.int32), np.zeros(n, np.float32), stopped=False)
      for row, n in zip(said, budget.tolist(), strict=True)
    ]

  def _forget(self):
    pass


def generate(config):
  """`generate` in lock step; returns what measures a setting."""
  torch.set_num_threads(len(os.sched_getaffinity(0)))
  torch.manual_seed(0)
  theirs = transformers.AutoConfig.for_model(**hf_config.to_hf(config))
  model = transformers.AutoModelForCausalLM.from_config(
    theirs, dtype=torch.float32, attn_implementation='sdpa'
  ).eval()
  # They would end turns whose length is scripted.
  model.generation_config.eos_token_id = None
  prompt = torch.tensor([Texts(config.vocabulary).encode('200 tokens 0')])
  model.generate(prompt, max_new_tokens=2, do_sample=False)  # touches memory

  def measure(setting: Setting):
    policy = Generate(model, setting.rows)
    return play(policy, config.vocabulary, setting)

  return measure
