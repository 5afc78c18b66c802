# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The FactAgent conversation: search, assert facts, answer from the facts.

  world  question Who founded Ada's employer? facts (none) result (none)
  agent  {"search": "Ada employer"}
  world  question Who ...? facts (none) result of "Ada employer": Ada is ...
  agent  {"assert": [["Ada", "employer", "Acme"]]}
  world  question Who ...? facts 1. Ada employer Acme result of "Ada ...

The prompt is made anew before every turn, from the question, the store of
facts and the last search with its result; nothing else is remembered, so its
length does not grow with the conversation. A turn is one JSON object.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from searchrl_jax import types
from searchrl_jax.environments import fact_wording

ACTIONS = ('search', 'assert', 'answer')

NO_OBJECT = 'there is no complete JSON object'
NO_ACTION = 'the object has none of the keys "search", "assert", "answer"'
NOT_TEXT = 'what is searched or answered is not a text'
EMPTY_QUERY = 'the search query is empty'
NO_FACTS = 'the list of facts is empty'
NOT_TRIPLES = 'a fact is not three texts: subject, relation and object'
STORE_FULL = 'the store holds at most {max_facts} facts'

# The shortest object that is malformed in each way.
_MALFORMED = {
  NO_ACTION: {},
  NOT_TEXT: {'answer': None},
  EMPTY_QUERY: {'search': ''},
  NO_FACTS: {'assert': []},
  NOT_TRIPLES: {'assert': [[]]},
}


@dataclasses.dataclass(frozen=True)
class State:
  """Where a conversation stands.

  Attributes:
    question: what is asked.
    result: the last search result with its query, as shown.
    facts: the store, in the order of its numbers.
    notice: what follows the result after a malformed turn, else empty.
    turns: turns the agent has taken.
    action: the last of them, None before the first.
  """

  question: types.Question
  result: str
  facts: tuple[fact_wording.Triple, ...] = ()
  notice: str = ''
  turns: int = 0
  action: types.Action | None = None


@dataclasses.dataclass(frozen=True)
class FactAgent:
  """The environment of FactAgent, by the contract of `types.Environment`.

  Attributes:
    wording: what the world says, and how the agent's JSON is spaced.
    max_turns: turns in all, the answer included. In the last of them a search
      stays a search but is not carried out, and the conversation ends by
      TURN_LIMIT unless it answers.
    max_facts: the most facts the store holds; an Assert that would exceed it
      is malformed as a whole.
    topk: passages a search brings.
    max_observation: the most tokens the passages of one result may have; the
      question, the query and the facts are never cut.
    shorten: cuts a text to a number of tokens; an environment has no
      tokenizer of its own.
    stop_at_malformed: a malformed turn ends the conversation.
    stop_at_failed_tool: a failed search ends the conversation.
  """

  wording: fact_wording.FactWording
  _: dataclasses.KW_ONLY
  max_turns: int = 8
  max_facts: int
  topk: int
  max_observation: int
  shorten: Callable[[str, int], str]
  stop_at_malformed: bool = False
  stop_at_failed_tool: bool = False

  def __post_init__(self):
    for name in ('max_turns', 'max_facts', 'topk', 'max_observation'):
      if getattr(self, name) < 1:
        raise ValueError(
          f'{name} must be at least 1, not {getattr(self, name)}'
        )

  @property
  def stops(self) -> tuple[str, ...]:
    """A turn ends with the token that completes one of these strings."""
    return self.wording.stops

  @property
  def all_turns(self) -> int:
    """The most turns a trajectory has: S of the arrays of its scores."""
    return self.max_turns

  def start(self, question: types.Question) -> tuple[State, str]:
    """The first state and the prompt."""
    state = State(question, self.wording.unsearched)
    return state, self._prompt(state)

  def act(
    self, state: State, text: str
  ) -> tuple[State, types.Action, tuple[types.Request, ...]]:
    """Parses a turn, stores its facts; a legal search asks for passages."""
    action, facts, requests = parse(text), state.facts, ()
    if action.kind == types.Kind.ASSERT:
      facts = _stored(facts, action.arguments['triples'])
      if len(facts) > self.max_facts:
        facts = state.facts
        why = STORE_FULL.format(max_facts=self.max_facts)
        action = _invalid(_thought(action.arguments), why)
    # After the last turn nobody would read the passages.
    if action.kind == types.Kind.SEARCH and state.turns + 1 < self.max_turns:
      query = action.arguments['query']
      requests = (types.Search(query, self.topk, state.question.corpus),)
    state = dataclasses.replace(
      state, facts=facts, notice='', turns=state.turns + 1, action=action
    )
    return state, action, requests

  def reply(
    self, state: State, results: Sequence[types.Result]
  ) -> tuple[State, types.Rebuild | types.Stop]:
    """What the world shows after the last action."""
    kind = state.action.kind
    if kind == types.Kind.ANSWER:
      return state, types.Stop(types.Status.ANSWERED)
    if kind == types.Kind.INVALID and self.stop_at_malformed:
      return state, types.Stop(types.Status.STOPPED_MALFORMED)
    if state.turns >= self.max_turns:
      return state, types.Stop(types.Status.TURN_LIMIT)
    if kind == types.Kind.INVALID:
      notice = self.wording.complaint(state.action.arguments['why'])
      state = dataclasses.replace(state, notice=notice)
    elif kind == types.Kind.SEARCH:
      (result,) = results
      if isinstance(result, types.Failed) and self.stop_at_failed_tool:
        return state, types.Stop(types.Status.STOPPED_TOOL)
      passages = self._passages(result)
      query = state.action.arguments['query']
      shown = self.wording.result(query, passages)
      state = dataclasses.replace(state, result=shown)
    return state, types.Rebuild(self._prompt(state))

  def render(self, action: types.Action) -> str:
    """Writes one turn's text: `parse(render(action)) == action`.

    Raises:
      ValueError: where no text would be read as this action, such as a search
        without a query, or would be cut before its end.
    """
    if action == _invalid({}, NO_OBJECT):
      return '{'
    text = self.wording.write(_said(action))
    # A stop string before the end would cut the turn short.
    cut = any(stop in text[:-1] for stop in self.stops)
    if cut or parse(text) != action:
      raise ValueError(f'no turn of FactAgent is read as this action: {action}')
    return text

  def _prompt(self, state: State) -> str:
    return self.wording.prompt(
      state.question.text, state.facts, state.result, state.notice
    )

  def _passages(self, result: types.Result) -> str:
    if isinstance(result, types.Failed):
      return self.wording.failed
    if not result:
      return self.wording.empty
    passages = self.wording.passages(result).strip()
    # The cut comes first: what the template has after a result stays whole.
    return self.shorten(passages, self.max_observation)


def parse(text: str) -> types.Action:
  """Reads one turn's text, cut after its first stop string.

  The object begins at the first brace; what stands around it is ignored, and
  so are keys it does not know. Of several action keys the first counts, of a
  repeated key the first value. Numbers are read as the text they are written
  with. Whatever is wrong makes the action INVALID; nothing is raised.
  """
  try:
    said, _ = _JSON.raw_decode(text, text.index('{'))
  except (ValueError, RecursionError):  # RecursionError: nested too deep
    return _invalid({}, NO_OBJECT)
  thought = _thought(said)
  name = next((key for key in said if key in ACTIONS), None)
  if name is None:
    return _invalid(thought, NO_ACTION)
  if name == 'assert':
    return _parse_facts(thought, said['assert'])
  value = _text(said[name])
  if value is None:
    return _invalid(thought, NOT_TEXT)
  if name == 'answer':  # an empty answer is an answer, and a wrong one
    return types.Action(types.Kind.ANSWER, thought | {'answer': value})
  if not value:
    return _invalid(thought, EMPTY_QUERY)
  return types.Action(types.Kind.SEARCH, thought | {'query': value})


def _parse_facts(thought: dict[str, str], facts: Any) -> types.Action:
  if not isinstance(facts, list):
    return _invalid(thought, NOT_TRIPLES)
  if not facts:
    return _invalid(thought, NO_FACTS)
  triples = []
  for fact in facts:
    if isinstance(fact, dict):
      fact = [fact.get(part) for part in ('subject', 'relation', 'object')]
    elif isinstance(fact, str):
      fact = fact.split()  # three words
    triple = [_text(part) for part in fact] if isinstance(fact, list) else []
    if len(triple) != 3 or not all(triple):
      return _invalid(thought, NOT_TRIPLES)
    triples.append(triple)
  return types.Action(types.Kind.ASSERT, thought | {'triples': triples})


def _number(written: str) -> str:
  """A number as it is written. Raises ValueError beyond floats."""
  if not math.isfinite(float(written)):
    raise ValueError(f'{written[:20]}: the number is too large')
  return written


def _first_values(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
  said = {}
  for key, value in pairs:
    said.setdefault(key, value)
  return said


# `strict=False` lets line breaks stand within strings.
_JSON = json.JSONDecoder(
  strict=False,
  object_pairs_hook=_first_values,
  parse_int=_number,
  parse_float=_number,
  parse_constant=_number,
)


def _text(value: Any) -> str | None:
  """A stripped string; None for anything that no tokenizer could show."""
  if not isinstance(value, str):
    return None
  try:
    value.encode()
  except UnicodeEncodeError:  # half of a pair of \u escapes
    return None
  return value.strip()


def _thought(said: Mapping[str, Any]) -> dict[str, str]:
  thought = _text(said.get('thought'))
  return {} if thought is None else {'thought': thought}


def _invalid(thought: dict[str, str], why: str) -> types.Action:
  return types.Action(types.Kind.INVALID, thought | {'why': why})


def _said(action: types.Action) -> dict[str, Any]:
  """The JSON object of an action."""
  match action:
    case types.Action(types.Kind.SEARCH, {'query': query}):
      said = {'search': query}
    case types.Action(types.Kind.ASSERT, {'triples': triples}):
      said = {'assert': triples}
    case types.Action(types.Kind.ANSWER, {'answer': answer}):
      said = {'answer': answer}
    case types.Action(types.Kind.INVALID, {'why': why}) if why in _MALFORMED:
      said = _MALFORMED[why]
    case _:
      raise ValueError(f'FactAgent has no such action: {action}')
  thought = action.arguments.get('thought')
  return said if thought is None else {'thought': thought} | said


def _stored(
  facts: tuple[fact_wording.Triple, ...], triples: Sequence[Sequence[str]]
) -> tuple[fact_wording.Triple, ...]:
  """The store with new facts at its end; what it has is not stored again."""
  known = {_normal(fact): fact for fact in facts}
  for triple in triples:
    known.setdefault(_normal(triple), tuple(triple))
  return tuple(known.values())


def _normal(triple: Sequence[str]) -> tuple[str, ...]:
  return tuple(' '.join(part.lower().split()) for part in triple)
