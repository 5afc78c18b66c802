# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The nouns of searchrl_jax and the signatures of its parts.

Everything else in the package is verbs on what stands here. Longer than 400
lines: who knows this one page can guess the others.

Letters of array shapes, used as suffixes in numeric code (`logps_NL`) and as
remarks on fields (`# [N, L]`):

  B  questions of a batch            N  packed rows
  G  rollouts of a question          L  tokens of a packed row
  S  turns of a trajectory, padded   R  rollout slots (rows that decode)
  M  facts of a group, padded        C  cache capacity, in tokens
  V  vocabulary    D  model width    Q / K  query / key-value heads
  H  head width    E  embedding width

A trajectory is parsed once, when it happens. Nobody downstream reads text
again to find out where a turn was:

  row 0   [ prompt | turn 0 | reply 0 | turn 1 | reply 1 | turn 2 ]
  sampled    0 0 0   1 1 1    0 0 0 0   1 1 1    0 0 0 0   1 1 1
  turn_id    - - -   0 0 0    - - - -   1 1 1    - - - -   2 2 2   (-1 = given)
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

# --- questions and documents -------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Document:
  """One passage of a corpus."""

  id: str
  title: str
  text: str

  @property
  def contents(self) -> str:
    """The passage in the corpus format: quoted title, newline, text."""
    return f'"{self.title}"\n{self.text}'


@dataclasses.dataclass(frozen=True)
class Hop:
  """One link of a question's gold chain: (subject, relation) -> object."""

  subject: str
  relation: str
  object: str
  document_id: str


@dataclasses.dataclass(frozen=True)
class Question:
  """A question, its gold answers and whatever ground truth is known of it.

  `corpus` names the collection it is asked of: one batch may span several.
  `hops` is empty where the gold chain is unknown. `rubrics` are single-hop
  statements with placeholders, `<E0>` being the answer.
  """

  id: str
  text: str
  answers: tuple[str, ...]
  source: str = ''
  corpus: str = ''
  hops: tuple[Hop, ...] = ()
  rubrics: tuple[str, ...] = ()
  metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)


# --- what the agent may say, what it may ask of the world --------------------


class Kind(enum.IntEnum):
  """What a turn was. 0 marks the padding of `[B, G, S]` arrays."""

  NONE = 0
  SEARCH = 1
  ASSERT = 2
  OPEN = 3
  FIND = 4
  ANSWER = 5
  INVALID = 6


@dataclasses.dataclass(frozen=True)
class Action:
  """One parsed turn: its kind and JSON-able arguments.

  Arguments by kind: SEARCH `query`; ANSWER `answer` (later also `source`,
  `citations`); ASSERT `triples`; OPEN `url`; FIND `keyword`; INVALID `why`.
  Any kind may carry `thought`, the reasoning written before it.
  """

  kind: Kind
  arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Sampling:
  """How tokens are drawn: temperature 0 is greedy, top_k 0 and top_p 1 off."""

  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0


@dataclasses.dataclass(frozen=True)
class Search:
  query: str
  topk: int
  corpus: str


@dataclasses.dataclass(frozen=True)
class Open:
  url: str


@dataclasses.dataclass(frozen=True)
class Find:
  text: str


@dataclasses.dataclass(frozen=True)
class Generate:
  """Asks the policy itself, in a context of its own; never trained on."""

  prompt: str
  sampling: Sampling = Sampling()


Request = Search | Open | Find | Generate


@dataclasses.dataclass(frozen=True)
class Failed:
  """The result of a request that could not be served, and why."""

  why: str


# Search -> documents, best first; Open, Find and Generate -> text.
Result = tuple[Document, ...] | str | Failed
Resolver = Callable[[Sequence[Request]], Sequence[Result]]


# --- environments ------------------------------------------------------------


class Status(enum.StrEnum):
  """Why a trajectory ended.

  TURN_LIMIT: the environment allows no further turn. TOKEN_LIMIT: the
  trajectory's budget of sampled tokens is spent. CONTEXT_LIMIT: the next
  reply would not fit into the context. The last two occur only where a
  config stops at the first malformed action or failed tool.
  """

  ANSWERED = 'answered'
  TURN_LIMIT = 'turn_limit'
  TOKEN_LIMIT = 'token_limit'
  CONTEXT_LIMIT = 'context_limit'
  STOPPED_MALFORMED = 'stopped_malformed'
  STOPPED_TOOL = 'stopped_tool'


@dataclasses.dataclass(frozen=True)
class Append:
  """The world's reply is appended to the conversation."""

  text: str


@dataclasses.dataclass(frozen=True)
class Rebuild:
  """The context is replaced by a new prompt (a new token row)."""

  prompt: str


@dataclasses.dataclass(frozen=True)
class Stop:
  """The trajectory ends."""

  status: Status


class Environment(Protocol):
  """What the agent may say and what the world replies.

  Pure functions of an explicit, frozen state, so that n rollouts of one
  question never share anything mutable. An environment knows no retrieval:
  it states requests as data, and the engine resolves them.
  """

  # A turn ends with the token that completes one of these strings.
  stops: tuple[str, ...]
  # The most turns a trajectory has: S of the arrays of its scores.
  all_turns: int

  def start(self, question: Question) -> tuple[Any, str]:
    """Returns (state, prompt)."""

  def act(
    self, state: Any, text: str
  ) -> tuple[Any, Action, tuple[Request, ...]]:
    """Parses one turn's text, already cut after its stop string."""

  def reply(
    self, state: Any, results: Sequence[Result]
  ) -> tuple[Any, Append | Rebuild | Stop]:
    """Answers the last action, given the results of its requests in order."""

  def render(self, action: Action) -> str:
    """The text of an action: the inverse of `act`."""


# A scripted policy: what to do, given the question and the turns so far.
ScriptedPolicy = Callable[[Question, Sequence['Turn']], Action]


# --- trajectories ------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Evidence:
  """What a turn brought: from "external", from "internal", or from a url."""

  source: str
  text: str
  documents: tuple[Document, ...] = ()


@dataclasses.dataclass(frozen=True)
class Span:
  """The sampled tokens `[start, stop)` of a turn within a token row."""

  row: int
  start: int
  stop: int


@dataclasses.dataclass(frozen=True)
class Turn:
  """One turn: what was said, what it meant, what the world replied.

  `text` is the view used for parsing, cut after the stop string; the sampled
  ids in `span` may carry characters beyond it. `clipped` says that the
  length limit ended the turn; `failures` holds why requests failed.
  """

  action: Action
  text: str
  reply: str
  evidence: tuple[Evidence, ...]
  span: Span
  seconds: float
  clipped: bool = False
  failures: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class TokenRow:
  """One conversation as tokens, exactly as the policy saw it.

  All arrays have the same length. `logps` is the sampler's log-probability
  of each sampled token, 0 where a token was given.
  """

  tokens: np.ndarray  # [n] int32
  sampled: np.ndarray  # [n] bool
  turn_id: np.ndarray  # [n] int32, -1 where given
  logps: np.ndarray  # [n] float32


@dataclasses.dataclass(frozen=True)
class Trajectory:
  """A finished episode: one token row, or one per turn where rebuilt."""

  question: Question
  rollout: int
  prompt: str
  turns: tuple[Turn, ...]
  rows: tuple[TokenRow, ...]
  status: Status

  @property
  def answer(self) -> str | None:
    """The final answer, None where the trajectory gave none."""
    if not self.turns or self.turns[-1].action.kind != Kind.ANSWER:
      return None
    return self.turns[-1].action.arguments['answer']

  @property
  def response(self) -> str:
    """Everything after the prompt: turns and replies as they alternate."""
    return ''.join(turn.text + turn.reply for turn in self.turns)

  @property
  def clipped(self) -> bool:
    """True where a length limit cut a turn or ended the trajectory."""
    limits = (Status.TOKEN_LIMIT, Status.CONTEXT_LIMIT)
    return self.status in limits or any(turn.clipped for turn in self.turns)


# B groups of G trajectories each, rollouts in order.
Groups = Sequence[Sequence[Trajectory]]


# --- arrays ------------------------------------------------------------------


def _pytree(cls):
  """Registers a dataclass of arrays as a JAX pytree."""
  fields = [field.name for field in dataclasses.fields(cls)]
  return jax.tree_util.register_dataclass(cls, fields, meta_fields=[])


@_pytree
@dataclasses.dataclass(frozen=True)
class Scores:
  """Raw numbers of finished trajectories, padded to the longest.

  `valid` is false only where a trajectory has no trustworthy outcome.
  `judged` is false where a turn's signals carry no verdict. `signals` and
  `facts` are documented by the credit function that reads them. The facts of
  a question's G rollouts stand side by side on one axis, M:

    rollout  0 0 1 1 1 3 . .     turn  1 3 1 1 5 1 . .     mask  1 1 1 1 1 1 0 0
  """

  outcome: Any  # [B, G] float32
  success: Any  # [B, G] bool
  valid: Any  # [B, G] bool
  kind: Any  # [B, G, S] int32, a Kind
  judged: Any  # [B, G, S] bool
  signals: Mapping[str, Any]  # name -> [B, G, S] float32
  # name -> [B, M, ...]; empty where a method has no facts
  facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@_pytree
@dataclasses.dataclass(frozen=True)
class Batch:
  """Packed token rows. A segment (one token row) is never split.

  tokens         p p p t t r r t | p p t t t | 0 0
  positions      0 1 2 3 4 5 6 7 | 0 1 2 3 4 | 0 0
  segment_ids    1 1 1 1 1 1 1 1 | 2 2 2 2 2 | 0 0     0 = padding
  sampled        0 0 0 1 1 0 0 1 | 0 0 1 1 1 | 0 0
  turn_id        - - - 0 0 - - 1 | - - 0 0 0 | - -     -1 = given
  trajectory_id  3 3 3 3 3 3 3 3 | 4 4 4 4 4 | - -     b * G + g
  """

  tokens: Any  # [N, L] int32
  positions: Any  # [N, L] int32
  segment_ids: Any  # [N, L] int32
  sampled: Any  # [N, L] bool
  turn_id: Any  # [N, L] int32
  trajectory_id: Any  # [N, L] int32
  sampler_logps: Any  # [N, L] float32, 0 where given


@_pytree
@dataclasses.dataclass(frozen=True)
class Targets:
  """What the loss compares with. Never optional: on-policy, `old_logps` are
  the sampler's; without a reference, `ref_logps` are the old ones. `weight`
  scales a token's terms and its share of the denominator: 0 masks it.
  """

  advantage: Any  # [N, L] float32
  old_logps: Any  # [N, L] float32
  ref_logps: Any  # [N, L] float32
  weight: Any  # [N, L] float32


# --- the parts of a method ---------------------------------------------------

Score = Callable[[Groups], Scores]
Credit = Callable[[Scores], Any]  # -> advantage_BGS, pure


@dataclasses.dataclass(frozen=True)
class Explanation:
  """What a method can say of a step's credit, for logs and traces.

  `notes[b][g][t]` is a JSON-able mapping for turn t, empty where there is
  nothing to say.
  """

  metrics: Mapping[str, float | None]
  notes: Sequence[Sequence[Sequence[Mapping[str, Any]]]]


Explain = Callable[[Groups, Scores], Explanation]


def unexplained(groups: Groups, scores: Scores) -> Explanation:
  """Of a method whose scores and advantages say it all."""
  del scores
  notes = [[[{} for _ in one.turns] for one in group] for group in groups]
  return Explanation({}, notes)


@dataclasses.dataclass(frozen=True)
class Lesson:
  """A supply of demonstrations: an expert played through an environment.

  `questions(step, count)` draws the questions of a step.
  """

  name: str
  environment: Environment
  policy: ScriptedPolicy
  resolve: Resolver
  questions: Callable[[int, int], Sequence[Question]]


@dataclasses.dataclass(frozen=True)
class Recipe:
  """The parts that make a method; `experiments/<method>.py` names them."""

  environment: Environment  # grammar; knows no retrieval
  score: Score  # groups -> raw numbers
  credit: Credit  # raw numbers -> turn advantages; pure
  explain: Explain = unexplained  # what logs and traces add
