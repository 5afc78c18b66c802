# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Who draws the tokens: a model with a living cache, or a script.

The tool loop asks for turns and is given them when they are done, in any
order. A question carries the whole context of its turn; a policy finds out by
itself what of it it has read already.
"""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.types import (
  Environment,
  Question,
  Sampling,
  ScriptedPolicy,
  Turn,
)


@dataclasses.dataclass(frozen=True)
class Asked:
  """A turn that someone wants drawn.

  Attributes:
    id: of the conversation, the same for all its turns.
    question, rollout, turns: whose turn it is; its random key depends on
      these and on `aside` alone.
    context: every token before the turn, prompt included.
    budget: tokens it may draw at most.
    sharing: conversations that begin with this context (G).
    aside: 0 for a turn; n for the n-th `Generate` request of the turn.
    sampling: how to draw; the policy's own where None.
  """

  id: int
  question: Question
  rollout: int
  turns: tuple[Turn, ...]
  context: Sequence[int]
  budget: int
  sharing: int = 1
  aside: int = 0
  sampling: Sampling | None = None


@dataclasses.dataclass(frozen=True)
class Said:
  """The tokens of one turn, exactly as drawn."""

  tokens: np.ndarray  # [n] int32
  logps: np.ndarray  # [n] float32
  stopped: bool  # by itself; False where the budget ended the turn


class Policy(Protocol):
  @property
  def busy(self) -> bool:
    """Whether `advance` has anything to do."""

  def ask(self, asked: Asked) -> None:
    """Asks for a turn; one at a time of each conversation."""

  def advance(self) -> list[tuple[Asked, Said]]:
    """Works for a while; returns the turns that ended."""

  def release(self, id: int) -> None:
    """Forgets a conversation, whether it waits for a turn or not."""


class ScriptPolicy:
  """Plays a scripted policy: its actions, rendered and tokenised.

  Log-probs are 0: a script draws every token with certainty.
  """

  def __init__(
    self,
    script: ScriptedPolicy,
    environment: Environment,
    tokenizer: tokenizers.Tokenizer,
  ):
    self._script = script
    self._environment = environment
    self._tokenizer = tokenizer
    self._asked: dict[int, Asked] = {}

  @property
  def busy(self) -> bool:
    return bool(self._asked)

  def ask(self, asked):
    self._asked[asked.id] = asked

  def advance(self):
    asked, self._asked = self._asked, {}
    return [(one, self._say(one)) for one in asked.values()]

  def _say(self, asked: Asked) -> Said:
    action = self._script(asked.question, asked.turns)
    ids = self._tokenizer.encode(self._environment.render(action))
    tokens = np.asarray(ids[: asked.budget], np.int32)
    logps = np.zeros(len(tokens), np.float32)
    return Said(tokens, logps, stopped=len(ids) <= asked.budget)

  def release(self, id):
    self._asked.pop(id, None)
