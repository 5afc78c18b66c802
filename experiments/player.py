# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One model policy that plays for training and for evaluation alike."""

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax

from experiments.policy import Policy
from searchrl_jax.chat import ChatTemplate
from searchrl_jax.rollout.engine import Limits, rollout
from searchrl_jax.rollout.fingerprint import fingerprint
from searchrl_jax.rollout.model_policy import ModelPolicy
from searchrl_jax.rollout.requests import Tools
from searchrl_jax.tokenizer import Tokenizer
from searchrl_jax.types import (
  Environment,
  Groups,
  Question,
  Resolver,
  Sampling,
  Turn,
)


@dataclasses.dataclass(frozen=True)
class Rows:
  """How many conversations there are, and are worked on, at a time.

  Attributes: see `ModelPolicy`.
  """

  rows: int
  width: int
  reserved: int
  append_rows: int
  append_tokens: int


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
    rows: Rows,
    limits: Limits,
    tools: Tools,
    template: ChatTemplate | None,
    mesh,
  ):
    self._weights = policy
    self.policy = ModelPolicy(
      policy.model,
      tokenizer,
      environment.stops,
      capacity=limits.context,
      max_new_tokens=limits.max_new_tokens,
      mesh=mesh,
      **dataclasses.asdict(rows),
    )
    self._environment = environment
    self._tokenizer = tokenizer
    self._resolve = resolve
    self._limits = limits
    self._tools = tools
    self._template = template
    self._key = jax.random.key(seed)

  def load(self, learned: Any) -> None:
    """Takes the weights to play with: those that learn."""
    params = self._weights.complete(learned)
    self.policy.load(params)
    self._fingerprint = fingerprint(params)

  def warm_up(self, learned: Any, sampling: Sampling) -> None:
    """Compiles every program that rollouts of a config can ask for."""
    self.load(learned)
    self.policy.use(sampling, self._key)
    self.policy.warm_up()

  def describe(self) -> dict[str, int]:
    """For the log: whose weights play, and the work done so far."""
    return {
      'sampler_fingerprint': int(self._fingerprint),
      **self.policy.counters.tokens,
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
    return rollout(
      self.policy,
      self._environment,
      questions,
      self._resolve,
      self._tokenizer,
      group=group,
      limits=self._limits,
      template=self._template,
      watch=watch,
      tools=self._tools,
    )

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
