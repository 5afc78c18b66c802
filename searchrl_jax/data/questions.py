# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Questions over a generated world: chains of one, two, three facts.

  start --employer--> E1 --founder--> E0        "who is the founder of the
                                                 employer of start ?"

Relations are functions, so a chain has one answer; it never comes back to an
entity it has already met, so the answer is not named in the question.
"""

import random
from collections.abc import Sequence

from searchrl_jax import types
from searchrl_jax.data import lexicon
from searchrl_jax.data.world import World

# Redraws before a world counts as exhausted; a draw of the default world
# meets an entity twice, or an earlier question, in a few cases of a hundred.
_PATIENCE = 1000

# A start and the slots of the relations to follow from there.
_Chain = tuple[int, tuple[int, ...]]


def questions(
  world: World, seed: int, count: int, hops: Sequence[int] = (1, 2, 3)
) -> tuple[types.Question, ...]:
  """Draws distinct questions, the i-th with hops[i % len(hops)] hops.

  The first questions do not depend on `count`.

  Raises:
    ValueError: where the world has too few chains of that length.
  """
  rng = random.Random(f'questions/{world.name}/{seed}')
  taken, drawn = set(), []
  for index in range(count):
    chain = _new_chain(world, hops[index % len(hops)], taken, rng)
    taken.add(chain)
    drawn.append(_question(world, f'{world.name}/{seed}-{index}', chain, rng))
  return tuple(drawn)


def _new_chain(
  world: World, length: int, taken: set[_Chain], rng: random.Random
) -> _Chain:
  for _ in range(_PATIENCE):
    start = rng.randrange(len(world.entities))
    slots, at = [], start
    met = {start}
    for _ in range(length):
      slots.append(rng.randrange(len(world.facts[at])))
      at = world.facts[at][slots[-1]]
      met.add(at)
    chain = (start, tuple(slots))
    if len(met) == length + 1 and chain not in taken:
      return chain
  raise ValueError(
    f'{world.name} has no further question of {length} hops after '
    f'{len(taken)}: ask for fewer or use a larger world'
  )


def _question(
  world: World, name: str, chain: _Chain, rng: random.Random
) -> types.Question:
  start, slots = chain
  links, path = [], [start]
  phrase = world.entities[start].name
  for slot in slots:
    relation = world.relations(path[-1])[slot]
    links.append(world.hop(path[-1], slot))
    path.append(world.facts[path[-1]][slot])
    ask = rng.choice(world.rendering.wordings[relation.name].asks)
    phrase = ask.format(x=phrase)
  answer = world.entities[path[-1]]
  person = answer.type == lexicon.EntityType.PERSON
  wrapper = world.rendering.who if person else world.rendering.what
  return types.Question(
    id=name,
    text=wrapper.format(x=phrase),
    answers=(answer.name,),
    source='world',
    corpus=world.name,
    hops=tuple(links),
    rubrics=_rubrics(world, links),
    metadata={'hops': len(links)},
  )


def _rubrics(world: World, links: Sequence[types.Hop]) -> tuple[str, ...]:
  """One statement a hop; <E0> is the answer, <E1>.. what stands between."""
  last = len(links) - 1
  subjects = [links[0].subject, *(f'<E{i + 1}>' for i in range(last))]
  objects = [*subjects[1:], '<E0>']
  return tuple(
    world.rendering.rubric.format(
      label=link.relation, subject=subject, object=value
    )
    for link, subject, value in zip(links, subjects, objects, strict=True)
  )
