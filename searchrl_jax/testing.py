# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Honest fakes of the world, for tests and notebooks.

They obey the same contracts as the real parts and are small enough to be read
at a glance: a tokenizer of chosen pieces, a dictionary in place of a search
engine, a policy that says what it is told, an environment that rebuilds.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence

from searchrl_jax.types import (
  Action,
  Append,
  Document,
  Failed,
  Kind,
  Question,
  Rebuild,
  Search,
  Status,
  Stop,
  Turn,
)


@dataclasses.dataclass(frozen=True)
class ToyTokenizer:
  """Greedy longest match over chosen pieces, then single bytes.

  Ids: 0 pad, 1 end, then the pieces, then the 256 bytes, then control tokens.
  Unlike a sampler, its `encode` never spells "hello" as "he" + "llo" when
  "hello" is a piece.
  """

  pieces: tuple[str, ...] = ()
  special_texts: tuple[str, ...] = ()

  @functools.cached_property
  def token_bytes(self) -> tuple[bytes, ...]:
    pieces = [piece.encode() for piece in self.pieces]
    text = (*pieces, *(bytes([i]) for i in range(256)))
    return (b'', b'', *text, *(b'' for _ in self.special_texts))

  @property
  def eos_ids(self) -> frozenset[int]:
    return frozenset({1})

  def id(self, piece: str) -> int:
    return self.token_bytes.index(piece.encode())

  def control_id(self, text: str) -> int:
    first = len(self.token_bytes) - len(self.special_texts)
    return first + self.special_texts.index(text)

  def encode(self, text: str, *, markup: bool = False) -> list[int]:
    if not (markup and self.special_texts):
      return self._plain(text)
    parts = re.split(f'({"|".join(map(re.escape, self.special_texts))})', text)
    ids = []
    for i, part in enumerate(parts):  # text, control, text, control, text
      ids += [self.control_id(part)] if i % 2 else self._plain(part)
    return ids

  def _plain(self, text: str) -> list[int]:
    data, ids = text.encode(), []
    while data:
      match = max(
        (i for i, b in enumerate(self.token_bytes) if b and data.startswith(b)),
        key=lambda i: len(self.token_bytes[i]),
      )
      ids.append(match)
      data = data[len(self.token_bytes[match]) :]
    return ids

  def decode(self, ids: Sequence[int]) -> str:
    return b''.join(self.token_bytes[i] for i in ids).decode('utf-8', 'replace')


@dataclasses.dataclass(frozen=True)
class DictionarySearch:
  """A resolver: the query is the title of the one passage it brings.

  A query in `failing` comes back as `Failed`.
  """

  passages: Mapping[str, str]
  failing: tuple[str, ...] = ()

  def __call__(self, requests):
    return [self._one(request) for request in requests]

  def _one(self, request):
    if not isinstance(request, Search):
      return Failed(f'no tool for {type(request).__name__}.')
    if request.query in self.failing:
      return Failed('the search engine did not answer.')
    if request.query not in self.passages:
      return ()
    text = self.passages[request.query]
    return (Document(request.query, request.query, text),)


@dataclasses.dataclass(frozen=True)
class Script:
  """A scripted policy: its actions in order, the last one repeated."""

  actions: tuple[Action, ...]

  def __call__(self, question: Question, turns: Sequence[Turn]) -> Action:
    return self.actions[min(len(turns), len(self.actions) - 1)]


@dataclasses.dataclass(frozen=True)
class Notebook:
  """An environment that rebuilds its context: each turn sees the question and
  the notes so far, nothing else. `note x` adds x; `answer x` ends."""

  max_turns: int = 3
  stops: tuple[str, ...] = ('.',)

  def start(self, question):
    return (question, (), None), f'{question.text}|'

  def act(self, state, text):
    question, notes, _ = state
    word, _, rest = text.rstrip('.').partition(' ')
    if word == 'answer':
      action = Action(Kind.ANSWER, {'answer': rest})
    elif word == 'note':
      action = Action(Kind.ASSERT, {'triples': [rest]})
      notes = (*notes, rest)
    else:
      action = Action(Kind.INVALID, {'why': 'neither note nor answer'})
    return (question, notes, action), action, ()

  def reply(self, state, results):
    question, notes, action = state
    if action.kind == Kind.ANSWER:
      return state, Stop(Status.ANSWERED)
    if action.kind == Kind.INVALID:
      return state, Append('say note or answer|')
    if len(notes) >= self.max_turns:
      return state, Stop(Status.TURN_LIMIT)
    return state, Rebuild(f'{question.text}|{",".join(notes)}|')

  def render(self, action):
    if action.kind == Kind.ANSWER:
      return f'answer {action.arguments["answer"]}.'
    return f'note {action.arguments["triples"][0]}.'
