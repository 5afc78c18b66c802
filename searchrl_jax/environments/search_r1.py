# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The Search-R1 conversation: think, search, read, answer.

  agent  <think> where did Ada work </think> <search> Ada employer </search>
  world  <information>Doc 1(Title: "Ada") Ada is employed at ...</information>
  agent  <think> it is Acme </think> <answer> Acme </answer>

A turn is worth its first complete search or answer element, wherever others
follow; an unclosed element is none. The reasoning is what the first <think>
before that element holds.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence

from searchrl_jax import types
from searchrl_jax.environments import wording as wordings

STOPS = ('</search>', '</answer>')

_ELEMENT = re.compile(r'<(search|answer)>(.*?)</\1>', re.DOTALL)
_THOUGHT = re.compile(r'<think>(.*?)</think>', re.DOTALL)

NO_ACTION = 'no complete <search> or <answer> element'
NESTED = 'a tag stands inside the element'
EMPTY_QUERY = 'the search query is empty'

# The shortest text that is malformed in each way.
_MALFORMED = {
  NO_ACTION: '<search>',
  NESTED: '<search> <search> </search>',
  EMPTY_QUERY: '<search> </search>',
}


@dataclasses.dataclass(frozen=True)
class State:
  """Where a conversation stands.

  Attributes:
    question: what is asked.
    turns: turns the agent has taken.
    action: the last of them, None before the first.
  """

  question: types.Question
  turns: int = 0
  action: types.Action | None = None


@dataclasses.dataclass(frozen=True)
class SearchR1:
  """The environment of Search-R1, by the contract of `types.Environment`.

  Attributes:
    wording: what the world says.
    max_turns: turns in which searches are carried out; a malformed turn is
      one of them. After them the agent has one last turn, in which a search
      stays a search but is not carried out, and the conversation ends by
      TURN_LIMIT unless it answers.
    topk: passages a search brings.
    max_observation: the most tokens the passages of one reply may have. The
      block is closed after the cut, so its markers come on top.
    shorten: cuts a text to a number of tokens; an environment has no
      tokenizer of its own.
    stop_at_malformed: a malformed turn ends the conversation.
    stop_at_failed_tool: a failed search ends the conversation.
  """

  wording: wordings.Wording
  max_turns: int
  topk: int
  max_observation: int
  shorten: Callable[[str, int], str]
  stop_at_malformed: bool = False
  stop_at_failed_tool: bool = False
  stops: tuple[str, ...] = STOPS

  def __post_init__(self):
    if self.max_turns < 0:
      raise ValueError(f'max_turns must not be negative: {self.max_turns}')
    if self.topk < 1 or self.max_observation < 1:
      raise ValueError(
        'topk and max_observation must be at least 1: '
        f'{self.topk}, {self.max_observation}'
      )

  @property
  def all_turns(self) -> int:
    """The most turns a trajectory has: S of the arrays of its scores."""
    return self.max_turns + 1

  def start(self, question: types.Question) -> tuple[State, str]:
    """The first state and the prompt."""
    return State(question), self.wording.prompt(question.text)

  def act(
    self, state: State, text: str
  ) -> tuple[State, types.Action, tuple[types.Request, ...]]:
    """Parses a turn; a legal search asks for its passages."""
    action = parse(text)
    requests = ()
    if action.kind == types.Kind.SEARCH and state.turns < self.max_turns:
      query = action.arguments['query']
      requests = (types.Search(query, self.topk, state.question.corpus),)
    state = dataclasses.replace(state, turns=state.turns + 1, action=action)
    return state, action, requests

  def reply(
    self, state: State, results: Sequence[types.Result]
  ) -> tuple[State, types.Append | types.Rebuild | types.Stop]:
    """What the world says to the last action."""
    kind = state.action.kind
    if kind == types.Kind.ANSWER:
      return state, types.Stop(types.Status.ANSWERED)
    if kind == types.Kind.INVALID and self.stop_at_malformed:
      return state, types.Stop(types.Status.STOPPED_MALFORMED)
    if state.turns > self.max_turns:
      return state, types.Stop(types.Status.TURN_LIMIT)
    if kind == types.Kind.INVALID:
      return state, types.Append(self.wording.invalid)
    (result,) = results
    if isinstance(result, types.Failed) and self.stop_at_failed_tool:
      return state, types.Stop(types.Status.STOPPED_TOOL)
    return state, types.Append(self._observation(result))

  def render(self, action: types.Action) -> str:
    """The text of an action: `parse(render(action)) == action`.

    Raises:
      ValueError: where no text would be read as this action.
    """
    return render(action)

  def _observation(self, result: types.Result) -> str:
    if isinstance(result, types.Failed):
      return self.wording.observation(self.wording.failed)
    if not result:
      return self.wording.observation(self.wording.empty)
    # The passages are cut before the block is closed around them.
    passages = self.wording.passages(result)
    passages = self.shorten(passages.strip(), self.max_observation)
    return self.wording.observation(passages)


def parse(text: str) -> types.Action:
  """Reads one turn's text, cut after its first stop string."""
  element = _ELEMENT.search(text)
  before = text[: element.start()] if element else text
  thought = _THOUGHT.search(before)
  arguments = {'thought': thought[1].strip()} if thought else {}

  def invalid(why):
    return types.Action(types.Kind.INVALID, arguments | {'why': why})

  if element is None:
    return invalid(NO_ACTION)
  name, body = element[1], element[2].strip()
  if any(tag in body for tag in wordings.TAGS):
    return invalid(NESTED)
  if name == 'answer':  # an empty answer is an answer, and a wrong one
    return types.Action(types.Kind.ANSWER, arguments | {'answer': body})
  if not body:
    return invalid(EMPTY_QUERY)
  return types.Action(types.Kind.SEARCH, arguments | {'query': body})


def render(action: types.Action) -> str:
  """Writes one turn's text, the inverse of `parse`.

  Raises:
    ValueError: where no text would be read as this action, such as a search
      without a query, or a query that holds a tag.
  """
  arguments = action.arguments
  match action:
    case types.Action(types.Kind.SEARCH, {'query': query}):
      text = f'<search> {query} </search>'
    case types.Action(types.Kind.ANSWER, {'answer': answer}):
      text = f'<answer> {answer} </answer>'
    case types.Action(types.Kind.INVALID, {'why': why}) if why in _MALFORMED:
      text = _MALFORMED[why]
    case _:
      raise ValueError(f'Search-R1 has no such action: {action}')
  if 'thought' in arguments:
    text = f'<think> {arguments["thought"]} </think> {text}'
  # A stop string before the end would cut the turn short.
  if parse(text) != action or any(stop in text[:-1] for stop in STOPS):
    raise ValueError(f'no turn of Search-R1 is read as this action: {action}')
  return text
