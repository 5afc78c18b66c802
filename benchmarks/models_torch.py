# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of `benchmarks.models`: what it measures, measured there.

Weights are random, of the same sizes; attention is PyTorch's own fused one
and the optimizer its fused AdamW. Imports PyTorch: only processes that found
it import this file.
"""

from __future__ import annotations

import contextlib
import os
import time

import numpy as np
import torch
import transformers

from searchrl_jax.models import hf_config


def _model(sizes):
  torch.set_num_threads(len(os.sched_getaffinity(0)))
  torch.manual_seed(0)
  config = transformers.AutoConfig.for_model(**hf_config.to_hf(sizes.decoder))
  return transformers.AutoModelForCausalLM.from_config(
    config, dtype=torch.float32, attn_implementation='sdpa'
  )


def decode(sizes, *, bfloat16: bool):
  """Greedy `generate` of a batch; returns what measures it once."""
  model = _model(sizes).eval()
  if bfloat16:
    model = model.to(torch.bfloat16)
  prompts = torch.from_numpy(sizes.prompts().astype(np.int64))
  attended = torch.ones_like(prompts)

  def measure(new_tokens=sizes.new_tokens):
    moments = []

    # Asked after every token: the first is known when the prompts are read.
    def moment(tokens, scores, **_):
      moments.append(time.perf_counter())
      return torch.zeros(len(tokens), dtype=torch.bool)

    began = time.perf_counter()
    tokens = model.generate(
      prompts,
      attention_mask=attended,
      generation_config=transformers.GenerationConfig(
        max_new_tokens=new_tokens, do_sample=False, use_cache=True
      ),
      stopping_criteria=transformers.StoppingCriteriaList([moment]),
    )
    assert tokens.shape[1] == prompts.shape[1] + new_tokens
    decoded = (new_tokens - 1) * len(prompts)
    return {
      'decode_tokens_per_s': decoded / (moments[-1] - moments[0]),
      'prefill_seconds': moments[0] - began,
    }

  measure(new_tokens=2)
  return measure


def update(sizes, *, checkpointing: bool, bfloat16: bool):
  """Forward, backward and AdamW of all weights, clipped surrogate and KL.

  Args:
    sizes: of `benchmarks.models`.
    checkpointing: layers are made again in the backward pass.
    bfloat16: `torch.autocast`; weights and optimizer stay float32.
  """
  model = _model(sizes).train()
  if checkpointing:
    model.gradient_checkpointing_enable()
  model.config.use_cache = False
  optimizer = torch.optim.AdamW(
    model.parameters(), lr=1e-6, weight_decay=0.0, fused=True
  )

  def measure(rows=sizes.rows_of_tokens()):
    tokens = torch.from_numpy(rows.astype(np.int64))
    began = time.perf_counter()
    _one_update(model, optimizer, tokens, bfloat16)
    return {
      'update_tokens_per_s': tokens.numel() / (time.perf_counter() - began)
    }

  measure()  # touches its memory
  return measure


def _one_update(model, optimizer, tokens, bfloat16):
  precision = (
    torch.autocast('cpu', dtype=torch.bfloat16)
    if bfloat16
    else contextlib.nullcontext()
  )
  with precision:
    logits = model(input_ids=tokens).logits
  logps = -torch.nn.functional.cross_entropy(
    logits[:, :-1].float().flatten(0, 1),
    tokens[:, 1:].flatten(),
    reduction='none',
  )
  # Advantage 1 everywhere; on-policy, the old log-probs are these.
  ratio = torch.exp(logps - logps.detach())
  clipped = ratio.clamp(0.8, 1.28)
  difference = logps.detach() - logps
  kl = torch.expm1(difference) - difference
  loss = (-torch.minimum(ratio, clipped) + 0.001 * kl).mean()
  loss.backward()
  torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
  optimizer.step()
  optimizer.zero_grad(set_to_none=True)
