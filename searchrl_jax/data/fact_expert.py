# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The scripted expert of FactAgent: search a hop, store it, go on.

It sees what the agent sees before a turn (question, stored facts, last search
result) and decides by that; as with the other experts, its noise lies in
decisions, never in what it copies.
"""

import dataclasses
import random
from collections.abc import Sequence

from searchrl_jax import types
from searchrl_jax.data import drills


@dataclasses.dataclass(frozen=True)
class FactExpert:
  """Follows the gold chain of a generated question, two turns a hop.

      search "fetok employer"   assert fetok employer vepev
      search "vepev founder"    assert vepev founder zurep   answer "zurep"

  A hop is asserted as soon as the last search result holds its document, and
  that its object; until then it is searched. Where a search missed, the next
  asks for the name alone, then in full again, and so on: the one choice, but
  for noise, that the prompt does not show.

  Noise: with probability `superfluous`, where a search is due, the hop of a
  stored fact is searched once more, if enough turns remain for the rest of
  the chain. With probability `early` after each asserted hop but the last,
  the object just asserted is answered.

  The last turn is always an answer: the object asserted last (the entity of
  the question, if none), wrong perhaps, but never made up.

  All random numbers are functions of (seed, question id, number of turns), so
  the same history always meets the same decision.
  """

  seed: int
  superfluous: float = 0.2
  early: float = 0.08
  max_turns: int = 8

  def __call__(
    self, question: types.Question, turns: Sequence[types.Turn]
  ) -> types.Action:
    """The expert's next turn.

    Raises:
      ValueError: for a question without a gold chain.
    """
    hops = question.hops
    if not hops:
      raise ValueError(
        f'question {question.id!r} has no gold chain (hops) to follow'
      )
    stored = _stored(turns)
    done = [hop for hop in hops if _triple(hop) in stored]
    missing = [hop for hop in hops if _triple(hop) not in stored]
    value = done[-1].object if done else hops[0].subject
    left = self.max_turns - len(turns)
    early = bool(done) and self._stops_early(question, turns)
    if not missing or left <= 1 or early:
      return types.Action(types.Kind.ANSWER, {'answer': value})
    hop = missing[0]
    searches = [turn for turn in turns if turn.action.kind == types.Kind.SEARCH]
    if searches and _tells(searches[-1], hop):
      triples = [list(_triple(hop))]
      return types.Action(types.Kind.ASSERT, {'triples': triples})
    # Besides this search, each missing hop needs two turns, the answer one.
    if done and left - 1 >= 2 * len(missing) + 1:
      rng = self._rng('again', question, turns)
      if rng.random() < self.superfluous:
        return _search(_full_query(rng.choice(done)))
    return _search(_next_query(hop, searches))

  def _stops_early(self, question, turns) -> bool:
    if not turns or turns[-1].action.kind != types.Kind.ASSERT:
      return False
    return self._rng('early', question, turns).random() < self.early

  def _rng(self, choice, question, turns) -> random.Random:
    return random.Random(f'{choice}/{self.seed}/{question.id}/{len(turns)}')


@dataclasses.dataclass(frozen=True)
class FactPlanner(drills.Planner):
  """Plays a fact expert as though each search had brought its page."""

  expert: FactExpert


def _stored(turns: Sequence[types.Turn]) -> set[tuple[str, ...]]:
  """The triples asserted so far."""
  return {
    tuple(triple)
    for turn in turns
    if turn.action.kind == types.Kind.ASSERT
    for triple in turn.action.arguments['triples']
  }


def _triple(hop: types.Hop) -> tuple[str, str, str]:
  return hop.subject, hop.relation, hop.object


def _tells(turn: types.Turn, hop: types.Hop) -> bool:
  """Whether a search brought a hop's document, its object within."""
  return any(
    page.id == hop.document_id and hop.object in page.text
    for item in turn.evidence
    for page in item.documents
  )


def _full_query(hop: types.Hop) -> str:
  return f'{hop.subject} {hop.relation}'


def _next_query(hop: types.Hop, searches: Sequence[types.Turn]) -> str:
  """In full first; after a miss the name alone and in full in turn."""
  full, misses = _full_query(hop), 0
  for turn in reversed(searches):
    if turn.action.arguments['query'] not in (full, hop.subject):
      break
    misses += 1
  return hop.subject if misses % 2 else full


def _search(query: str) -> types.Action:
  return types.Action(types.Kind.SEARCH, {'query': query})
