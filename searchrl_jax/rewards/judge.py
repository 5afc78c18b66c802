# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Judges of single turns: was the retrieval useful, the reasoning correct?

CW-GRPO (arXiv:2604.14267) asks a judge about every search turn and moves a
successful trajectory's advantage to the turns that have both. Where the gold
chain of a question is known, no model is needed to tell.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Protocol

from searchrl_jax import types
from searchrl_jax.rewards import answers


@dataclasses.dataclass(frozen=True)
class Verdict:
  """What a judge says of one turn.

  Attributes:
    useful: u in [0, 1], the turn fetched new evidence for the question.
    correct: v in [0, 1], the turn took its context for what it is.
    valid: false where there is no verdict: the turn is no search, or the
      judge could not be asked. Then u and v mean nothing.
  """

  useful: float
  correct: float
  valid: bool = True


NO_VERDICT = Verdict(0.0, 0.0, valid=False)


class Judge(Protocol):
  """Judges a finished trajectory, turn by turn."""

  def __call__(self, trajectory: types.Trajectory) -> tuple[Verdict, ...]:
    """One verdict a turn, in order."""


def chain_entities(question: types.Question) -> tuple[str, ...]:
  """The entities of a question's gold chain."""
  return tuple(
    name for hop in question.hops for name in (hop.subject, hop.object)
  )


@dataclasses.dataclass(frozen=True)
class GroundTruth:
  """The judge that knows the gold chain of a question.

  Useful: the turn fetched a document of the chain that no earlier turn had
  fetched: the hop's own, or a passage about the hop's subject that holds its
  object. Correct: the query names the subject of a hop whose object is not
  yet in the evidence, and of all entities only such as were seen in the
  question or in the evidence of earlier turns. Names are found on word
  boundaries.

    question: where does the spouse of Ada work?   Ada -> Bob -> Acme
    search Ada spouse     brings Ada's page    u = 1  v = 1
    search Ada employer   brings Ada's page    u = 0  v = 0   Bob is known
    search Bob employer   brings Bob's page    u = 1  v = 1

  Attributes:
    entities_of: the names that a query may be caught naming too early.
  """

  entities_of: Callable[[types.Question], Iterable[str]] = chain_entities

  def __call__(self, trajectory: types.Trajectory) -> tuple[Verdict, ...]:
    """One verdict a turn; turns that are no search have none.

    Raises:
      ValueError: where the question has no hops.
    """
    question = trajectory.question
    if not question.hops:
      raise ValueError(
        f'question "{question.id}" has no hops: it needs a judge that reads, '
        'for no gold chain tells which search helped'
      )
    entities = tuple(self.entities_of(question))
    seen, evidence, fetched = question.text, '', set()
    verdicts = []
    for turn in trajectory.turns:
      new = _fetched(turn, question.hops) - fetched
      verdict = NO_VERDICT
      if turn.action.kind == types.Kind.SEARCH:
        query = turn.action.arguments['query']
        correct = _asks_what_is_missing(query, question.hops, evidence) and all(
          _names(seen, name) for name in entities if _names(query, name)
        )
        verdict = Verdict(float(bool(new)), float(correct))
      verdicts.append(verdict)
      fetched |= new
      evidence += ''.join(f'{item.text}\n' for item in turn.evidence)
      seen = f'{question.text}\n{evidence}'
    return tuple(verdicts)


def _names(text: str, name: str) -> bool:
  return answers.contains(prediction=text, gold=name)


def _asks_what_is_missing(query, hops, evidence) -> bool:
  return any(
    _names(query, hop.subject) and not _names(evidence, hop.object)
    for hop in hops
  )


def _fetched(turn: types.Turn, hops) -> set[types.Hop]:
  """The hops whose documents a turn brought."""
  documents = [page for item in turn.evidence for page in item.documents]
  return {hop for hop in hops if any(_serves(page, hop) for page in documents)}


def _serves(page: types.Document, hop: types.Hop) -> bool:
  if page.id == hop.document_id:
    return True
  about = answers.exact_match(prediction=page.title, gold=hop.subject)
  return about and _names(page.text, hop.object)
