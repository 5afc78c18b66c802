# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One trajectory while it happens: its tokens, its turns, its budgets.

Given and sampled tokens are told apart here, at the line where each is added,
and never again.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from searchrl_jax.rollout.policy import Said
from searchrl_jax.types import (
  Action,
  Evidence,
  Failed,
  Generate,
  Open,
  Question,
  Request,
  Result,
  Span,
  Status,
  TokenRow,
  Trajectory,
  Turn,
)


@dataclasses.dataclass(frozen=True)
class Limits:
  """Two budgets of sampled tokens, and the length of a context."""

  max_new_tokens: int  # of one turn
  max_tokens: int  # of one trajectory, all turns together
  context: int  # of one token row: prompt, turns and replies


@dataclasses.dataclass
class Row:
  """A token row while it grows."""

  tokens: list[int] = dataclasses.field(default_factory=list)
  sampled: list[bool] = dataclasses.field(default_factory=list)
  turn_id: list[int] = dataclasses.field(default_factory=list)
  logps: list[float] = dataclasses.field(default_factory=list)

  def give(self, tokens: Sequence[int]) -> None:
    """Adds tokens of the world."""
    self._add(tokens, False, -1, [0.0] * len(tokens))

  def sample(self, said: Said, turn: int) -> None:
    """Adds tokens of the policy."""
    self._add(said.tokens.tolist(), True, turn, said.logps.tolist())

  def _add(self, tokens, sampled, turn, logps):
    self.tokens += tokens
    self.sampled += [sampled] * len(tokens)
    self.turn_id += [turn] * len(tokens)
    self.logps += logps

  def freeze(self) -> TokenRow:
    return TokenRow(
      np.asarray(self.tokens, np.int32),
      np.asarray(self.sampled, bool),
      np.asarray(self.turn_id, np.int32),
      np.asarray(self.logps, np.float32),
    )


@dataclasses.dataclass
class Pending:
  """A turn that was said and waits for what it asked of the world."""

  turn: Turn
  requests: Sequence[Request]
  results: dict[int, Result] = dataclasses.field(default_factory=dict)

  @property
  def complete(self) -> bool:
    return len(self.results) == len(self.requests)

  @property
  def in_order(self) -> list[Result]:
    return [self.results[i] for i in range(len(self.requests))]


@dataclasses.dataclass
class Episode:
  """One trajectory while it happens: the only mutable record of a rollout.

  Attributes:
    id: of its conversation.
    pending: the turn whose results are awaited; None while the policy speaks.
    began: when the present turn was asked for, by `time.perf_counter`.
  """

  id: int
  question: Question
  rollout: int
  state: Any
  prompt: str
  rows: list[Row]
  turns: list[Turn] = dataclasses.field(default_factory=list)
  spent: int = 0  # tokens sampled so far
  status: Status | None = None
  pending: Pending | None = None
  began: float = 0.0

  def budget(self, limits: Limits) -> int:
    """Tokens the next turn may draw."""
    return min(
      limits.max_new_tokens,
      limits.max_tokens - self.spent,
      limits.context - len(self.rows[-1].tokens),
    )

  def say(self, said: Said) -> Span:
    """Adds what the policy drew; where it stands."""
    row = self.rows[-1]
    start = len(row.tokens)
    row.sample(said, turn=len(self.turns))
    self.spent += len(said.tokens)
    return Span(len(self.rows) - 1, start, len(row.tokens))

  def await_results(
    self,
    action: Action,
    text: str,
    span: Span,
    requests: Sequence[Request],
    *,
    clipped: bool,
  ) -> None:
    """Remembers a turn until the world has answered it."""
    turn = Turn(action, text, '', (), span, 0.0, clipped=clipped)
    self.pending = Pending(turn, requests)

  def end_turn(self, reply: str) -> Turn:
    """The pending turn with all that came of it, now one of the turns."""
    pending, self.pending = self.pending, None
    results = pending.in_order
    turn = dataclasses.replace(
      pending.turn,
      reply=reply,
      evidence=_evidence(pending.requests, results),
      failures=tuple(r.why for r in results if isinstance(r, Failed)),
      seconds=time.perf_counter() - self.began,
    )
    self.turns.append(turn)
    return turn

  def append(self, ids: Sequence[int], limits: Limits) -> bool:
    """Adds a reply where another turn can follow it."""
    row = self.rows[-1]
    if not self._fits(len(row.tokens) + len(ids), limits):
      return False
    row.give(ids)
    return True

  def rebuild(self, ids: Sequence[int], limits: Limits) -> bool:
    """Begins a new context where another turn can follow it."""
    if not self._fits(len(ids), limits):
      return False
    self.rows.append(Row())
    self.rows[-1].give(ids)
    return True

  def _fits(self, context: int, limits: Limits) -> bool:
    """Whether another turn is possible; ends the episode where it is not."""
    if self.spent >= limits.max_tokens:
      self.status = Status.TOKEN_LIMIT
    elif context >= limits.context:
      self.status = Status.CONTEXT_LIMIT
    return self.status is None

  def freeze(self) -> Trajectory:
    return Trajectory(
      self.question,
      self.rollout,
      self.prompt,
      tuple(self.turns),
      tuple(row.freeze() for row in self.rows),
      self.status,
    )


def _evidence(
  requests: Sequence[Request], results: Sequence[Result]
) -> tuple[Evidence, ...]:
  """What came back, labelled by where it came from."""
  evidence = []
  for request, result in zip(requests, results, strict=True):
    if isinstance(result, Failed):
      continue
    source = 'external'
    if isinstance(request, Generate):
      source = 'internal'
    elif isinstance(request, Open):
      source = request.url
    if isinstance(result, str):
      evidence.append(Evidence(source, result))
    else:
      text = '\n'.join(document.contents for document in result)
      evidence.append(Evidence(source, text, result))
  return tuple(evidence)
