# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Our side of `benchmarks.models`: the programs that a run uses, measured."""

from __future__ import annotations

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np

from searchrl_jax import packing, sharding
from searchrl_jax.models import decoder, lora
from searchrl_jax.models.config import Lora, Remat
from searchrl_jax.rollout.model_policy import ModelPolicy
from searchrl_jax.rollout.policy import Asked
from searchrl_jax.training import losses, optimizer, state, step
from searchrl_jax.types import Question, Sampling, Targets


def _mesh():
  return sharding.make_mesh(devices=jax.devices()[:1])


@dataclasses.dataclass(frozen=True)
class _NoText:
  """As much of a tokenizer as a policy reads whose turns never stop."""

  vocabulary: int
  eos_ids: tuple[int, ...] = ()

  @property
  def token_bytes(self):
    return (b'.',) * self.vocabulary


def _in_dtype(sizes, bfloat16: bool):
  """The decoder, computing in float32 or bfloat16."""
  dtype = jnp.bfloat16 if bfloat16 else jnp.float32
  return dataclasses.replace(sizes.decoder, compute_dtype=dtype)


def decode(sizes, *, bfloat16: bool):
  """Greedy turns of a batch by `ModelPolicy`; returns what measures them."""
  model = decoder.make_model(_in_dtype(sizes, bfloat16))
  prompts = sizes.prompts()
  policy = ModelPolicy(
    model,
    _NoText(sizes.decoder.vocabulary),
    (),
    rows=len(prompts),
    width=len(prompts),
    capacity=sizes.capacity,
    max_new_tokens=sizes.new_tokens,
    mesh=_mesh(),
  )
  policy.load(model.init(jax.random.key(0)))
  policy.use(Sampling(temperature=0), jax.random.key(0))
  question = Question(id='', text='', answers=())

  def measure(budget=sizes.new_tokens):
    before = dataclasses.replace(policy.counters)
    for row, prompt in enumerate(prompts):
      policy.ask(Asked(row, question, row, (), prompt.tolist(), budget))
    while policy.busy:
      for asked, turn in policy.advance():
        assert len(turn.tokens) == budget
        policy.release(asked.id)
    after = policy.counters
    decoding = after.decode_seconds - before.decode_seconds
    return {
      'decode_tokens_per_s': budget * len(prompts) / decoding,
      'prefill_seconds': after.prefill_seconds - before.prefill_seconds,
    }

  measure(budget=2)  # the programs are the same whatever the budget
  return measure


def update(sizes, *, bfloat16: bool, adapters: bool, remat: Remat):
  """Gradients and AdamW as a run makes them; returns what measures an update.

  Args:
    sizes: of `benchmarks.models`.
    bfloat16: of the forward and backward pass; weights stay float32.
    adapters: only LoRA learns, on every matrix, with its default rank.
    remat: what the backward pass makes again.
  """
  config = dataclasses.replace(
    _in_dtype(sizes, bfloat16),
    lora=Lora() if adapters else None,
    remat=remat,
  )
  model = decoder.make_model(config)
  params = model.init(jax.random.key(0))
  axes, frozen, join = model.axes(params), {}, step.all_learn
  if adapters:
    params, frozen = lora.split(params)
    axes, _ = lora.split(axes)
    join = lora.join
  mesh = _mesh()
  adam = optimizer.make_optimizer(optimizer.OptimizerConfig(), 1)
  shardings = state.state_shardings(
    mesh, adam, params, sharding.param_shardings(mesh, params, axes)
  )
  scores = step.make_token_scores(
    model.apply,
    model.unembedding,
    join=join,
    chunk=sizes.logps_chunk,
    temperature=1.0,
  )
  gradients = step.make_gradients(
    scores,
    losses.make_loss(losses.LossConfig()),
    mesh,
    shardings,
    micro_rows=len(sizes.rows_of_tokens()),
    frozen=frozen,
  )
  one = step.make_update(gradients, adam, mesh, shardings)
  learner = state.init_state(params, adam, shardings)
  del params
  batch, targets = _batch(sizes.rows_of_tokens())

  def measure(learner):
    began = time.perf_counter()
    learner, metrics = one(learner, batch, targets)
    jax.block_until_ready(learner)
    assert not metrics['skipped']
    seconds = time.perf_counter() - began
    return learner, {'update_tokens_per_s': batch.tokens.size / seconds}

  return _Remembering(measure, measure(learner)[0])


class _Remembering:
  """Calls a function with the state it returned last."""

  def __init__(self, function, state):
    self._function, self._state = function, state

  def __call__(self):
    self._state, figures = self._function(self._state)
    return figures


def _batch(tokens_NL):
  """Rows of one segment, every token but the first sampled, advantage 1."""
  batch = packing.empty(*tokens_NL.shape)
  sampled_NL = np.ones(tokens_NL.shape, bool)
  sampled_NL[:, 0] = False
  batch = dataclasses.replace(
    batch,
    tokens=tokens_NL,
    positions=np.broadcast_to(
      np.arange(tokens_NL.shape[1], dtype=np.int32), tokens_NL.shape
    ),
    segment_ids=np.ones(tokens_NL.shape, np.int32),
    sampled=sampled_NL,
    turn_id=np.where(sampled_NL, 0, -1).astype(np.int32),
  )
  ones = np.ones(tokens_NL.shape, np.float32)
  # Log-probs near those of random weights: no ratio overflows.
  uniform = ones * np.float32(-np.log(tokens_NL.max() + 1.0))
  return batch, Targets(ones, uniform, uniform, ones)
