# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The tool loop: a policy and an environment in, trajectories out.

Every trajectory goes round on its own, as fast as its own turns and tools:

  ask the policy ──► said ──► act ──► requests ──► reply ──┐
        ▲                                                  │
        └────────────────────── context ◄──────────────────┘

While one waits for its tools, the policy draws for the others. What a
trajectory says depends on its own context and random key, never on who was
faster.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence

from searchrl_jax import chat
from searchrl_jax.rollout.episode import Episode, Limits, Row
from searchrl_jax.rollout.policy import Asked, Policy, Said
from searchrl_jax.rollout.requests import Requests, Tools
from searchrl_jax.rollout.stops import cut
from searchrl_jax.tokenizer import Tokenizer
from searchrl_jax.types import (
  Append,
  Environment,
  Failed,
  Generate,
  Groups,
  Question,
  Resolver,
  Result,
  Stop,
  Trajectory,
  Turn,
)

# Tools that answer in less are waited for, so that their rows miss no step.
_MOMENT = 0.002  # seconds

Watch = Callable[[Question, int, Turn], None]


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
  watch: Watch | None = None,
  tools: Tools = Tools(),
) -> Groups:
  """Plays every question `group` times.

  Args:
    policy: draws the tokens.
    environment: parses turns and replies.
    questions: B of them.
    resolve: serves the requests of turns that ended together in one call, on
      another thread. A request that fails comes back as `Failed`; an
      exception here ends the rollout.
    tokenizer: for prompts and replies; sampled ids are never re-encoded.
    group: G, rollouts of each question.
    limits: token budgets.
    template: wraps the prompt as a first chat message.
    watch: told of every turn (question, rollout, turn) as it ends.
    tools: how many calls of `resolve` at a time, and how long one may take.

  Returns:
    B groups of G trajectories, in the order of the questions and rollouts,
    whoever ended first.

  Raises:
    ValueError: a prompt leaves no room for a single sampled token.
  """
  loop = _Loop(policy, environment, tokenizer, limits, template)
  done = dict(loop.play(questions, group, resolve, tools, watch))
  return [
    [done[b * group + g] for g in range(group)] for b in range(len(questions))
  ]


def stream(
  policy: Policy,
  environment: Environment,
  questions: Sequence[Question],
  resolve: Resolver,
  tokenizer: Tokenizer,
  *,
  group: int,
  limits: Limits,
  template: chat.ChatTemplate | None = None,
  watch: Watch | None = None,
  tools: Tools = Tools(),
) -> Iterator[Trajectory]:
  """As `rollout`, yielding each trajectory when it ends."""
  loop = _Loop(policy, environment, tokenizer, limits, template)
  for _, trajectory in loop.play(questions, group, resolve, tools, watch):
    yield trajectory


class _Loop:
  """The conversations of one rollout, between the policy and the world."""

  def __init__(self, policy, environment, tokenizer, limits, template):
    self._policy = policy
    self._environment = environment
    self._tokenizer = tokenizer
    self._limits = limits
    self._template = template
    self._ids = itertools.count()
    self.living: dict[int, Episode] = {}
    # Conversation of a `Generate` request -> (its episode, number of request).
    self._asides: dict[int, tuple[Episode, int]] = {}

  def play(self, questions, group, resolve, tools, watch):
    """Yields (b * G + g, trajectory) as trajectories end."""
    self._begin(questions, group)
    with Requests(resolve, tools) as requests:
      try:
        for episode in self.living.values():
          self._ask(episode, sharing=group)
        while self.living:
          for episode in self._hear(requests):
            turn = self._reply(episode)
            if watch is not None:
              watch(episode.question, episode.rollout, turn)
            if episode.status is None:
              self._ask(episode)
            else:
              del self.living[episode.id]
              self._policy.release(episode.id)
              yield episode.id, episode.freeze()
      finally:
        for id in (*self.living, *self._asides):
          self._policy.release(id)

  def _begin(self, questions, group) -> None:
    """An episode for every rollout of every question."""
    for question in questions:
      prompt = None
      for g in range(group):
        state, text = self._environment.start(question)
        if prompt is None:
          prompt, ids = self._encode(text)
          _require_room(ids, question, self._limits)
        row = Row()
        row.give(ids)
        episode = Episode(next(self._ids), question, g, state, prompt, [row])
        self.living[episode.id] = episode

  def _ask(self, episode: Episode, sharing: int = 1) -> None:
    """Asks the policy for the next turn of an episode."""
    episode.began = time.perf_counter()
    self._policy.ask(
      Asked(
        episode.id,
        episode.question,
        episode.rollout,
        tuple(episode.turns),
        tuple(episode.rows[-1].tokens),
        episode.budget(self._limits),
        sharing,
      )
    )

  def _hear(self, requests: Requests) -> list[Episode]:
    """What the world and the policy say; episodes that can be replied to."""
    wait = None  # nothing to draw before the world has answered
    if self._policy.busy:
      wait = _MOMENT if requests.last_seconds < _MOMENT else 0.0
    ready = []
    for (id, number), result in requests.collect(wait):
      ready += self._answer(self.living[id], number, result)
    wanted = []
    for asked, said in self._policy.advance():
      if asked.aside:
        self._policy.release(asked.id)
        episode, number = self._asides.pop(asked.id)
        ready += self._answer(episode, number, self._read(said))
      else:
        episode = self.living[asked.id]
        self._parse(episode, said)
        wanted += self._request(episode)
        if episode.pending.complete:  # it waits for nothing
          ready.append(episode)
    requests.submit(wanted)
    return ready

  # --- one turn --------------------------------------------------------------

  def _parse(self, episode: Episode, said: Said) -> None:
    span = episode.say(said)
    text = self._read(said)
    episode.state, action, wanted = self._environment.act(episode.state, text)
    episode.await_results(action, text, span, wanted, clipped=not said.stopped)

  def _read(self, said: Said) -> str:
    return cut(self._tokenizer.decode(said.tokens), self._environment.stops)

  def _request(self, episode: Episode) -> list:
    """What a turn wants of the world; what it wants of the policy is asked."""
    wanted = []
    for number, request in enumerate(episode.pending.requests):
      if isinstance(request, Generate):
        self._ask_aside(episode, number, request)
      else:
        wanted.append(((episode.id, number), request))
    return wanted

  def _ask_aside(self, episode: Episode, number: int, request: Generate):
    _, ids = self._encode(request.prompt)
    room = self._limits.context - len(ids)
    if room < 1:
      why = f'the prompt has {len(ids)} tokens, the context has room for fewer.'
      episode.pending.results[number] = Failed(why)
      return
    aside = Asked(
      next(self._ids),
      episode.question,
      episode.rollout,
      tuple(episode.turns),
      tuple(ids),
      min(self._limits.max_new_tokens, room),
      aside=number + 1,
      sampling=request.sampling,
    )
    self._asides[aside.id] = (episode, number)
    self._policy.ask(aside)

  def _answer(self, episode, number: int, result: Result) -> list[Episode]:
    """Notes a result; the episode, if it was the last one it waited for."""
    episode.pending.results[number] = result
    return [episode] if episode.pending.complete else []

  def _reply(self, episode: Episode) -> Turn:
    """The world's reply to a turn, added to the context."""
    results = episode.pending.in_order
    episode.state, reply = self._environment.reply(episode.state, results)
    if isinstance(reply, Stop):
      episode.status = reply.status
      return episode.end_turn('')
    if isinstance(reply, Append):
      text, ids = reply.text, self._tokenizer.encode(reply.text)
      added = episode.append(ids, self._limits)
    else:
      text, ids = self._encode(reply.prompt)
      added = episode.rebuild(ids, self._limits)
    return episode.end_turn(text if added else '')

  def _encode(self, prompt: str):
    """(text, ids) of a prompt, as a first chat message where there is one."""
    return chat.opening(self._tokenizer, self._template, prompt)


def _require_room(ids, question, limits):
  if len(ids) >= limits.context:
    raise ValueError(
      f'the prompt of question {question.id!r} has {len(ids)} tokens and the '
      f'context {limits.context}; raise the context or drop the question.'
    )
