# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The tool loop: a policy and an environment in, trajectories out.

One tick is one turn of every living episode: draw, parse, resolve the
requests of all in one call, reply. Given and sampled tokens are told apart
here, at the line where each is added, and never again.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from searchrl_jax import chat
from searchrl_jax.rollout.policy import Asked, Policy, Said
from searchrl_jax.rollout.stops import cut
from searchrl_jax.tokenizer import Tokenizer
from searchrl_jax.types import (
  Append,
  Environment,
  Evidence,
  Failed,
  Generate,
  Groups,
  Open,
  Question,
  Request,
  Resolver,
  Result,
  Span,
  Status,
  Stop,
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
class _Row:
  """A token row while it grows."""

  tokens: list[int] = dataclasses.field(default_factory=list)
  sampled: list[bool] = dataclasses.field(default_factory=list)
  turn_id: list[int] = dataclasses.field(default_factory=list)
  logps: list[float] = dataclasses.field(default_factory=list)

  def give(self, tokens: Sequence[int]) -> None:
    self._add(tokens, False, -1, [0.0] * len(tokens))

  def sample(self, said: Said, turn: int) -> None:
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
class _Episode:
  """One trajectory while it happens: the only mutable record here."""

  row: int  # of the policy: b * G + g
  question: Question
  rollout: int
  state: Any
  prompt: str
  rows: list[_Row]
  turns: list[Turn] = dataclasses.field(default_factory=list)
  spent: int = 0  # tokens sampled so far
  status: Status | None = None

  def budget(self, limits: Limits) -> int:
    """Tokens the next turn may draw."""
    return min(
      limits.max_new_tokens,
      limits.max_tokens - self.spent,
      limits.context - len(self.rows[-1].tokens),
    )

  def freeze(self) -> Trajectory:
    return Trajectory(
      self.question,
      self.rollout,
      self.prompt,
      tuple(self.turns),
      tuple(row.freeze() for row in self.rows),
      self.status,
    )


def rollout(
  policy: Policy,
  environment: Environment,
  questions: Sequence[Question],
  resolve: Resolver,
  tokenizer: Tokenizer,
  *,
  group: int,
  limits: Limits,
  template: chat.ChatTemplate | None = None,
  watch: Callable[[Question, int, Turn], None] | None = None,
) -> Groups:
  """Plays every question `group` times.

  Args:
    policy: draws the tokens.
    environment: parses turns and replies.
    questions: B of them.
    resolve: serves the requests of one tick together. A request that fails
      comes back as `Failed`; an exception here ends the rollout.
    tokenizer: for prompts and replies; sampled ids are never re-encoded.
    group: G, rollouts of each question.
    limits: token budgets.
    template: wraps the prompt as a first chat message.
    watch: told of every turn (question, rollout, turn) as it ends.

  Returns:
    B groups of G trajectories, in the order of the questions.

  Raises:
    ValueError: a prompt leaves no room for a single sampled token.
  """
  episodes, prompts = [], []
  for b, question in enumerate(questions):
    for g in range(group):
      state, text = environment.start(question)
      if g == 0:
        prompt, ids = chat.opening(tokenizer, template, text)
        _require_room(ids, question, limits)
        prompts.append(ids)
      row = _Row()
      row.give(prompts[b])
      episodes.append(
        _Episode(b * group + g, question, g, state, prompt, [row])
      )
  policy.start(prompts, group)
  while living := [e for e in episodes if e.status is None]:
    _tick(policy, environment, living, resolve, tokenizer, limits, template)
    if watch is not None:
      for episode in living:
        watch(episode.question, episode.rollout, episode.turns[-1])
  done = [episode.freeze() for episode in episodes]
  return [done[i : i + group] for i in range(0, len(done), group)]


def _require_room(ids, question, limits):
  if len(ids) >= limits.context:
    raise ValueError(
      f'the prompt of question {question.id!r} has {len(ids)} tokens and the '
      f'context {limits.context}; raise the context or drop the question.'
    )


def _tick(policy, environment, living, resolve, tokenizer, limits, template):
  """One turn of every living episode."""
  began = time.perf_counter()
  asked = [
    Asked(e.row, e.question, e.rollout, tuple(e.turns), e.budget(limits))
    for e in living
  ]
  parsed = []
  for episode, said in zip(living, policy.draw(asked), strict=True):
    row = episode.rows[-1]
    start = len(row.tokens)
    row.sample(said, turn=len(episode.turns))
    episode.spent += len(said.tokens)
    span = Span(len(episode.rows) - 1, start, len(row.tokens))
    text = cut(tokenizer.decode(said.tokens), environment.stops)
    episode.state, action, requests = environment.act(episode.state, text)
    turn = Turn(action, text, '', (), span, 0.0, clipped=not said.stopped)
    parsed.append((episode, turn, requests))

  wanted = [r for _, _, requests in parsed for r in requests]
  results = iter(resolve(wanted) if wanted else ())
  append, rebuild = {}, {}
  for episode, turn, requests in parsed:
    got = [next(results) for _ in requests]
    episode.state, reply = environment.reply(episode.state, got)
    text = ''
    if isinstance(reply, Stop):
      episode.status = reply.status
    elif isinstance(reply, Append):
      ids = tokenizer.encode(reply.text)
      if _fits(episode, len(episode.rows[-1].tokens) + len(ids), limits):
        text = reply.text
        episode.rows[-1].give(ids)
        append[episode.row] = ids
    else:
      prompt, ids = chat.opening(tokenizer, template, reply.prompt)
      if _fits(episode, len(ids), limits):
        text = prompt
        episode.rows.append(_Row())
        episode.rows[-1].give(ids)
        rebuild[episode.row] = ids
    episode.turns.append(
      dataclasses.replace(
        turn,
        reply=text,
        evidence=_evidence(requests, got),
        failures=tuple(r.why for r in got if isinstance(r, Failed)),
        seconds=time.perf_counter() - began,
      )
    )
  policy.append(append)
  policy.rebuild(rebuild)


def _fits(episode: _Episode, context: int, limits: Limits) -> bool:
  """Whether another turn is possible; ends the episode where it is not."""
  if episode.spent >= limits.max_tokens:
    episode.status = Status.TOKEN_LIMIT
  elif context >= limits.context:
    episode.status = Status.CONTEXT_LIMIT
  return episode.status is None


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
