# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Scripted experts: policies that follow what is known of a question.

They are played through the real environment to make demonstrations. Their
noise lies in decisions, never in what they copy: a policy that imitates them
learns to search too much and to stop too early, which reinforcement learning
can then cure, but not to misread.
"""

import dataclasses
import random
from collections.abc import Sequence

from searchrl_jax import types
from searchrl_jax.data import lexicon
from searchrl_jax.data.qa import texts_of


@dataclasses.dataclass(frozen=True)
class Expert:
  """Follows the gold chain of a generated question, one search a hop.

      think "given fetok"      search "fetok employer"
      think "employer vepev"   search "vepev founder"
      think "founder zurep"    answer "zurep"

  A thought restates the relation and the value read last, `given` and the
  entity that the question names before anything was read.

  Noise: with probability `superfluous` a turn does not take in what it has
  just read and repeats the last useful turn, thought and query, as long as
  enough searches remain for the chain. What follows a thought depends on the
  thought alone. With probability `early` after each hop but the last, it
  answers with the value just read.

  A hop counts as read once its document came back and holds its object. Where
  a search missed, the next asks for the name alone, then in full again, and
  so on. When `max_searches` are spent it answers with the last value it has
  read (with the entity of the question, if none): wrong, but never made up.

  All random numbers are functions of (seed, question id, number of turns or
  of hops read), so the same history always meets the same decision.
  """

  seed: int
  superfluous: float = 0.4
  early: float = 0.08
  max_searches: int = 4

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
    read = _hops_read(hops, turns)
    thought, value = _stand(hops, read)
    needed = len(hops) - read
    queries = [
      turn.action.arguments['query']
      for turn in turns
      if turn.action.kind == types.Kind.SEARCH
    ]
    left = self.max_searches - len(queries)
    if needed and (left <= 0 or self._stops_early(question, read)):
      return _answer(thought, value)
    if read and left > needed and self._strays(question, turns):
      before, _ = _stand(hops, read - 1)
      return _search(before, _full_query(hops[read - 1]))
    if needed:
      return _search(thought, _next_query(hops[read], queries))
    return _answer(thought, value)

  def _stops_early(self, question: types.Question, read: int) -> bool:
    rng = random.Random(f'early/{self.seed}/{question.id}/{read}')
    return read > 0 and rng.random() < self.early

  def _strays(self, question, turns) -> bool:
    rng = random.Random(f'stray/{self.seed}/{question.id}/{len(turns)}')
    return rng.random() < self.superfluous


def _hops_read(hops: Sequence[types.Hop], turns: Sequence[types.Turn]) -> int:
  """How many hops, from the first on, the evidence so far has settled."""
  texts = {
    document.id: document.text
    for turn in turns
    for evidence in turn.evidence
    for document in evidence.documents
  }
  for count, hop in enumerate(hops):
    if hop.object not in texts.get(hop.document_id, ''):
      return count
  return len(hops)


def _stand(hops: Sequence[types.Hop], read: int) -> tuple[str, str]:
  """Thought and value where the first `read` hops have been read."""
  if not read:
    return f'{lexicon.GIVEN} {hops[0].subject}', hops[0].subject
  hop = hops[read - 1]
  return f'{hop.relation} {hop.object}', hop.object


def _full_query(hop: types.Hop) -> str:
  return f'{hop.subject} {hop.relation}'


def _next_query(hop: types.Hop, queries: Sequence[str]) -> str:
  """In full first; after a miss the name alone and in full in turn."""
  full = _full_query(hop)
  misses = sum(query in (full, hop.subject) for query in queries)
  return hop.subject if misses % 2 else full


@dataclasses.dataclass(frozen=True)
class TitleExpert:
  """Searches what a real question mentions, then gives the gold answer.

  For sets whose chain is unknown but which name their titles
  (`metadata['mentioned_titles']`): one title a turn, in order, at most
  `max_searches`; the question itself where none is named. It teaches the form
  of a search and nothing about which search is needed.
  """

  max_searches: int = 4

  def __call__(
    self, question: types.Question, turns: Sequence[types.Turn]
  ) -> types.Action:
    """The next title, or the first gold answer."""
    titles = texts_of(question.metadata.get('mentioned_titles'))
    queries = (titles or (question.text,))[: self.max_searches]
    if len(turns) < len(queries):
      return _search(queries[len(turns)], queries[len(turns)])
    return _answer(question.answers[0], question.answers[0])


def _search(thought: str, query: str) -> types.Action:
  return types.Action(types.Kind.SEARCH, {'thought': thought, 'query': query})


def _answer(thought: str, answer: str) -> types.Action:
  return types.Action(types.Kind.ANSWER, {'thought': thought, 'answer': answer})
