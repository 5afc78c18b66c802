# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Drills that come before demonstrations: reading, and planning.

*Reading*: the question is a passage, the answer its relation-value pairs in
the order in which it tells them. One turn, no search. It ends the plateau on
which a small policy copies some random name from the passage.

*Planning*: ordinary questions, played by a `Planner` against a resolver that
returns no passages (`nothing_found`). The policy learns which relation
follows which, cheaply, since there are no passages in the rows; the values in
between cannot be known and are guessed.
"""

import dataclasses
import random
from collections.abc import Sequence

from searchrl_jax import types
from searchrl_jax.data.expert import Expert
from searchrl_jax.data.world import World


def reading(world: World, seed: int, count: int) -> tuple[types.Question, ...]:
  """Draws passages to read aloud, each once before any comes again."""
  rng = random.Random(f'reading/{world.name}/{seed}')
  order, drawn = [], []
  for index in range(count):
    if not order:
      order = rng.sample(range(len(world.entities)), len(world.entities))
    entity = order.pop()
    hops = tuple(world.hop(entity, slot) for slot in world.orders[entity])
    drawn.append(
      types.Question(
        id=f'{world.name}/reading-{seed}-{index}',
        text=world.documents[entity].text,
        answers=(' '.join(f'{hop.relation} {hop.object}' for hop in hops),),
        source='reading',
        corpus=world.name,
      )
    )
  return tuple(drawn)


def read_aloud(
  question: types.Question, turns: Sequence[types.Turn]
) -> types.Action:
  """The scripted policy of reading drills: it answers the target at once."""
  del turns  # a drill has one turn
  return types.Action(types.Kind.ANSWER, {'answer': question.answers[0]})


def nothing_found(requests: Sequence[types.Request]) -> list[types.Result]:
  """The resolver of planning drills: every search comes back empty."""
  return [() for _ in requests]


@dataclasses.dataclass(frozen=True)
class Planner:
  """Plays an expert as though each of its searches had brought its page."""

  expert: Expert

  def __call__(
    self, question: types.Question, turns: Sequence[types.Turn]
  ) -> types.Action:
    """The expert's next turn, had the searches so far been answered."""
    return self.expert(question, [_answered(question, turn) for turn in turns])


def _answered(question: types.Question, turn: types.Turn) -> types.Turn:
  if turn.action.kind != types.Kind.SEARCH:
    return turn
  query = turn.action.arguments['query']
  documents = tuple(
    types.Document(hop.document_id, hop.subject, hop.object)
    for hop in question.hops
    if f'{query} '.startswith(f'{hop.subject} ')
  )
  evidence = types.Evidence('imagined', '', documents)
  return dataclasses.replace(turn, evidence=(evidence,))
