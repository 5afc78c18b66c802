# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The same rollouts for everybody: how long each turn is, is scripted.

  [ prompt 200 | turn 40-120 | reply 400 | turn | reply | ... | last turn ]

Every contestant draws as many tokens in each turn, whatever they say: the
script is a policy around theirs that sets the budget of each turn.
"""

from __future__ import annotations

import dataclasses
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from searchrl_jax import types
from searchrl_jax.rollout.engine import Limits, stream
from searchrl_jax.rollout.policy import Asked
from searchrl_jax.rollout.requests import Tools


@dataclasses.dataclass(frozen=True)
class Workload:
  """Trajectories whose lengths are known beforehand."""

  prompt: int = 200  # tokens
  shortest: int = 40  # sampled tokens of a turn, evenly distributed
  longest: int = 120
  reply: int = 400  # tokens
  searches: int = 4  # then a turn that answers
  group: int = 8  # rollouts of a question

  @property
  def turns(self) -> int:
    return self.searches + 1

  @property
  def capacity(self) -> int:
    """Tokens of the longest conversation that can be."""
    given = self.prompt + self.searches * self.reply
    return given + self.turns * self.longest

  @property
  def limits(self) -> Limits:
    most = self.turns * self.longest
    return Limits(self.longest, max_tokens=most, context=self.capacity)

  def length(self, question: types.Question, rollout: int, turn: int) -> int:
    """Tokens of a turn."""
    seed = (zlib.crc32(question.id.encode()), rollout, turn)
    rng = np.random.default_rng(seed)
    return int(rng.integers(self.shortest, self.longest, endpoint=True))

  def contexts(self) -> list[int]:
    """Every length that a context before a turn can have."""
    return [
      self.prompt + turn * self.reply + said
      for turn in range(self.turns)
      for said in range(turn * self.shortest, turn * self.longest + 1)
    ]


@dataclasses.dataclass(frozen=True)
class Setting:
  """One measurement: a workload, who has a row, how slow the search is."""

  workload: Workload = Workload()
  rows: int = 16  # R
  width: int = 16  # W, where it differs from R
  latency_ms: float = 0.0  # of a call, which may hold many searches
  trajectories: int = 16

  def questions(self) -> list[types.Question]:
    count = self.trajectories // self.workload.group
    return [types.Question(f'q{i}', '', ()) for i in range(count)]


@dataclasses.dataclass(frozen=True)
class Texts:
  """A tokenizer of texts that say how long they are, such as '400 tokens 7'."""

  vocabulary: int
  eos_ids = frozenset()
  special_texts = ()

  @property
  def token_bytes(self) -> tuple[bytes, ...]:
    return (b'.',) * self.vocabulary

  def encode(self, text: str, *, markup: bool = False) -> list[int]:
    del markup
    length, seed = map(int, text.split(' tokens '))
    rng = np.random.default_rng(seed)
    return rng.integers(0, self.vocabulary, length).tolist()

  def decode(self, ids: Sequence[int]) -> str:
    del ids
    return ''


@dataclasses.dataclass(frozen=True)
class Progress:
  """The state of a conversation."""

  seed: int
  turns: int = 0


@dataclasses.dataclass(frozen=True)
class Searches:
  """An environment whose agent searches a number of times and then answers."""

  workload: Workload
  stops = ()

  @property
  def all_turns(self) -> int:
    return self.workload.turns

  def start(self, question):
    seed = zlib.crc32(question.id.encode())
    return Progress(seed), f'{self.workload.prompt} tokens {seed}'

  def act(self, state, text):
    del text
    state = dataclasses.replace(state, turns=state.turns + 1)
    if state.turns > self.workload.searches:
      return state, types.Action(types.Kind.ANSWER, {'answer': ''}), ()
    action = types.Action(types.Kind.SEARCH, {'query': ''})
    return state, action, (types.Search('', 1, ''),)

  def reply(self, state, results):
    if not results:
      return state, types.Stop(types.Status.ANSWERED)
    seed = state.seed + state.turns
    return state, types.Append(f'{self.workload.reply} tokens {seed}')

  def render(self, action):
    raise NotImplementedError('nobody plays a script of actions here.')


class Scripted:
  """A policy whose turns are as long as the workload says."""

  def __init__(self, policy, workload: Workload):
    self._policy = policy
    self._workload = workload

  @property
  def busy(self) -> bool:
    return self._policy.busy

  def ask(self, asked: Asked) -> None:
    turn = len(asked.turns)
    length = self._workload.length(asked.question, asked.rollout, turn)
    self._policy.ask(dataclasses.replace(asked, budget=length))

  def advance(self):
    said = self._policy.advance()
    assert all(len(one.tokens) == asked.budget for asked, one in said)
    # The end of a turn was its own wish.
    return [(a, dataclasses.replace(one, stopped=True)) for a, one in said]

  def release(self, id: int) -> None:
    self._policy.release(id)


def search_after(milliseconds: float) -> types.Resolver:
  """A search that finds nothing, after a while."""

  def resolve(requests):
    time.sleep(milliseconds / 1000)
    return [()] * len(requests)

  return resolve


def play(policy, vocabulary: int, setting: Setting) -> Mapping[str, Any]:
  """Plays a setting; figures of it.

  Policies have `counters`: `prefilled_tokens`, and all that are `_seconds`
  are such in which the device works.
  """
  before = dataclasses.asdict(policy.counters)
  began = time.perf_counter()
  sampled = trajectories = 0
  for trajectory in stream(
    Scripted(policy, setting.workload),
    Searches(setting.workload),
    setting.questions(),
    search_after(setting.latency_ms),
    Texts(vocabulary),
    group=setting.workload.group,
    limits=setting.workload.limits,
    # As many calls at a time as anybody makes: what is measured is how long
    # they take, not how few there may be.
    tools=Tools(concurrency=setting.rows),
  ):
    assert trajectory.status == types.Status.ANSWERED
    sampled += sum(int(row.sampled.sum()) for row in trajectory.rows)
    trajectories += 1
  seconds = time.perf_counter() - began
  after = dataclasses.asdict(policy.counters)
  spent = {name: after[name] - before[name] for name in before}
  busy = sum(n for name, n in spent.items() if name.endswith('_seconds'))
  return {
    'sampled_tokens_per_s': sampled / seconds,
    'device_busy_share': busy / seconds,
    'prefilled_tokens': spent['prefilled_tokens'],
    'seconds_per_trajectory': seconds / trajectories,
    'sampled_tokens': sampled,
    'seconds': seconds,
  }
