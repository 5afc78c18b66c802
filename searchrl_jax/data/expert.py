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

  Noise: with probability `superfluous` a turn forgets what was read and starts
  anew, where enough searches remain for the whole chain; it passes over the
  same ground again, so that what follows a thought depends on the thought
  alone. With probability `early` after each hop but the last, it answers with
  the value just read.

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
    searches = [t for t in turns if t.action.kind == types.Kind.SEARCH]
    queries = [turn.action.arguments['query'] for turn in searches]
    read = _hops_read(hops, searches[-1]) if searches else 0
    left, needed = self.max_searches - len(searches), len(hops) - read
    value = hops[read - 1].object if read else hops[0].subject
    thought = f'{hops[read - 1].relation if read else lexicon.GIVEN} {value}'
    if needed and (left <= 0 or self._stops_early(question, read)):
      return _answer(thought, value)
    if read and left >= len(hops) and self._starts_anew(question, turns):
      start = hops[0].subject
      return _search(f'{lexicon.GIVEN} {start}', _full_query(hops[0]))
    if needed:
      return _search(thought, _next_query(hops[read], queries))
    return _answer(thought, value)

  def _stops_early(self, question: types.Question, read: int) -> bool:
    rng = random.Random(f'early/{self.seed}/{question.id}/{read}')
    return read > 0 and rng.random() < self.early

  def _starts_anew(self, question, turns) -> bool:
    rng = random.Random(f'anew/{self.seed}/{question.id}/{len(turns)}')
    return rng.random() < self.superfluous


def _hops_read(hops: Sequence[types.Hop], turn: types.Turn) -> int:
  """Where the chain stands after a search: past its hop, if it was found."""
  query = f' {turn.action.arguments["query"]} '
  asked = [i for i, hop in enumerate(hops) if f' {hop.subject} ' in query]
  if not asked:
    return 0
  hop = hops[asked[-1]]
  pages = [page for item in turn.evidence for page in item.documents]
  found = any(
    page.id == hop.document_id and hop.object in page.text for page in pages
  )
  return asked[-1] + found


def _full_query(hop: types.Hop) -> str:
  return f'{hop.subject} {hop.relation}'


def _next_query(hop: types.Hop, queries: Sequence[str]) -> str:
  """In full first; after a miss the name alone and in full in turn."""
  full = _full_query(hop)
  misses = 0
  for query in reversed(queries):
    if query not in (full, hop.subject):
      break
    misses += 1
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
