# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Who draws the tokens: a model with a living cache, or a script.

The tool loop sees one protocol. Rows are numbered b * G + g; a policy keeps
what belongs to a row between turns, and is told of every given token.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.types import Environment, Question, ScriptedPolicy, Turn


@dataclasses.dataclass(frozen=True)
class Asked:
  """What a policy is told of a row whose turn it shall draw."""

  row: int
  question: Question
  rollout: int
  turns: tuple[Turn, ...]
  budget: int  # tokens it may draw at most


@dataclasses.dataclass(frozen=True)
class Said:
  """The tokens of one turn, exactly as drawn."""

  tokens: np.ndarray  # [n] int32
  logps: np.ndarray  # [n] float32
  stopped: bool  # by itself; False where the budget ended the turn


class Policy(Protocol):
  def start(self, prompts: Sequence[Sequence[int]], group: int) -> None:
    """Opens `group` rows for every prompt."""

  def draw(self, asked: Sequence[Asked]) -> list[Said]:
    """Draws one turn for each of these rows."""

  def append(self, given: Mapping[int, Sequence[int]]) -> None:
    """Appends given tokens to rows."""

  def rebuild(self, prompts: Mapping[int, Sequence[int]]) -> None:
    """Replaces the contexts of rows by new prompts."""


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

  def start(self, prompts, group):
    pass

  def draw(self, asked):
    said = []
    for row in asked:
      action = self._script(row.question, row.turns)
      ids = self._tokenizer.encode(self._environment.render(action))
      tokens = np.asarray(ids[: row.budget], np.int32)
      logps = np.zeros(len(tokens), np.float32)
      said.append(Said(tokens, logps, stopped=len(ids) <= row.budget))
    return said

  def append(self, given):
    pass

  def rebuild(self, prompts):
    pass
