# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One model policy that plays for training and for evaluation alike."""

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax

from experiments.policy import Policy
from searchrl_jax.chat import ChatTemplate
from searchrl_jax.rollout.engine import Limits, rollout
from searchrl_jax.rollout.fingerprint import fingerprint
from searchrl_jax.rollout.model_policy import ModelPolicy
from searchrl_jax.tokenizer import Tokenizer
from searchrl_jax.types import (
  Environment,
  Groups,
  Question,
  Resolver,
  Sampling,
  Turn,
)


class Player:
  """Plays questions with the current weights of the learner.

  Training and evaluation share rows, programs, templates and stops; only the
  purpose of the random keys and the sampling differ.
  """

  def __init__(
    self,
    policy: Policy,
    environment: Environment,
    tokenizer: Tokenizer,
    resolve: Resolver,
    *,
    seed: int,
    rows: int,
    limits: Limits,
    template: ChatTemplate | None,
    mesh,
  ):
    self._weights = policy
    self.policy = ModelPolicy(
      policy.model,
      tokenizer,
      environment.stops,
      rows=rows,
      capacity=limits.context,
      max_new_tokens=limits.max_new_tokens,
      mesh=mesh,
    )
    self._environment = environment
    self._tokenizer = tokenizer
    self._resolve = resolve
    self._limits = limits
    self._template = template
    self._key = jax.random.key(seed)

  def load(self, learned: Any) -> None:
    """Takes the weights to play with: those that learn."""
    params = self._weights.complete(learned)
    self.policy.load(params)
    self._fingerprint = fingerprint(params)

  def describe(self) -> dict[str, int]:
    """For the log: whose weights play, and the work done so far."""
    counters = self.policy.counters
    return {
      'sampler_fingerprint': int(self._fingerprint),
      'prefilled_tokens': counters.prefilled_tokens,
      'decoded_tokens': counters.decoded_tokens,
    }

  def play(
    self,
    questions: Sequence[Question],
    *,
    group: int,
    purpose: str,
    step: int,
    sampling: Sampling,
    watch: Callable[[Question, int, Turn], None] | None = None,
  ) -> Groups:
    """Groups of every question, a bounded number of rows at a time."""
    key = jax.random.fold_in(self._key, zlib.crc32(purpose.encode()))
    self.policy.use(sampling, jax.random.fold_in(key, step))
    size = self.policy.rows // group
    groups = []
    for start in range(0, len(questions), size):
      groups += rollout(
        self.policy,
        self._environment,
        questions[start : start + size],
        self._resolve,
        self._tokenizer,
        group=group,
        limits=self._limits,
        template=self._template,
        watch=watch,
      )
    return groups

  def evaluating(
    self, split: str, sampling: Sampling
  ) -> Callable[[Sequence[Question], float], Groups]:
    """What `evaluation.evaluate` plays with: one rollout of every question.

    The same keys whoever evaluates and after whatever step, so that the
    command repeats what the run reported of itself.
    """

    def play(questions, temperature):
      del temperature  # part of the sampling
      return self.play(
        questions,
        group=1,
        purpose=f'evaluation/{split}',
        step=0,
        sampling=sampling,
      )

    return play
