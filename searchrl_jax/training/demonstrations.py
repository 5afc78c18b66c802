# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Experts played through real environments: the supervised warm start."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from searchrl_jax import packing as packer
from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.rollout.engine import Limits, rollout
from searchrl_jax.rollout.policy import ScriptPolicy
from searchrl_jax.training.clock import Clock
from searchrl_jax.training.sources import Collected, Packing, token_counts
from searchrl_jax.types import Batch, Lesson, Targets

# (state, batch, targets) -> (state, metrics)
Update = Callable[[Any, Batch, Targets], tuple[Any, dict]]

# Metrics that compare the learner with another policy.
_COMPARING = (
  *('clip_low_fraction', 'clip_high_fraction', 'ratio_max'),
  *('kl', 'off_policy_weight', 'sampler_learner_gap'),
)


class Demonstrations:
  """A fresh batch of played lessons every step, in equal shares."""

  def __init__(
    self,
    lessons: Sequence[Lesson],
    *,
    questions: int,
    tokenizer: tokenizers.Tokenizer,
    limits: Limits,
    packing: Packing,
    clock: Clock,
  ):
    self._lessons = lessons
    self._questions = questions
    self._tokenizer = tokenizer
    self._limits = limits
    self._packing = packing
    self._clock = clock

  def collect(self, step, params):
    del params  # an expert does not learn
    with self._clock('demonstrations'):
      groups = []
      for lesson in self._lessons:
        policy = ScriptPolicy(
          lesson.policy, lesson.environment, self._tokenizer
        )
        groups += rollout(
          policy,
          lesson.environment,
          lesson.questions(step, self._questions // len(self._lessons)),
          lesson.resolve,
          self._tokenizer,
          group=1,
          limits=self._limits,
        )
      batch = packer.pack(
        groups, length=self._packing.length, multiple=self._packing.multiple
      )
    ones = batch.sampled.astype(np.float32)
    # A script draws with certainty: its log-probs are 0, and no ratio is
    # formed with them (the loss of demonstrations is the likelihood).
    targets = Targets(ones, batch.sampler_logps, batch.sampler_logps, ones)
    return Collected(batch, targets, token_counts(groups))


def imitating(update: Update) -> Update:
  """An update that is silent on how the learner compares with a policy.

  A script's log-probs are 0: its KL would be 10, the clamp, at every token.
  """

  def updated(state, batch, targets):
    state, metrics = update(state, batch, targets)
    kept = {k: v for k, v in metrics.items() if k not in _COMPARING}
    return state, kept

  return updated
