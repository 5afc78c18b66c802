# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The generated world: invented entities, their facts, a passage for each.

A world is a pure function of its config and one integer seed. Its facts do
not depend on the rendering, so the same world can be read in small closed
words or in natural English. Fresh worlds cost milliseconds: a policy that
has to answer about a world it never saw must read.
"""

import dataclasses
import functools
import random

from searchrl_jax import types
from searchrl_jax.data import lexicon, natural, words

RENDERINGS = {'words': words.WORDS, 'natural': natural.NATURAL}

# Seeds of worlds. Disjoint, so that no world of one split is met in another.
SPLITS = {
  'warm_start': range(0, 10_000_000),
  'train': range(10_000_000, 20_000_000),
  'validation': range(20_000_000, 30_000_000),
  'test': range(30_000_000, 40_000_000),
}

_PREFIX = 'world-'


@dataclasses.dataclass(frozen=True)
class WorldConfig:
  """The size and the sound of a world.

  `distractors` is the share of passages that also name an unrelated entity;
  `rendering` is a key of `RENDERINGS`.
  """

  persons: int = 80
  cities: int = 40
  companies: int = 40
  films: int = 40
  countries: int = 20
  distractors: float = 0.5
  rendering: str = 'words'

  def __post_init__(self):
    if self.rendering not in RENDERINGS:
      raise ValueError(
        f'unknown rendering {self.rendering!r}: use one of '
        f'{", ".join(RENDERINGS)}'
      )
    for kind, count in self.counts.items():
      if count < 2:
        raise ValueError(
          f'a world needs at least two entities of type {kind}, got {count}'
        )
    if not 0 <= self.distractors <= 1:
      raise ValueError(
        f'distractors is a share between 0 and 1, got {self.distractors}'
      )

  @property
  def counts(self) -> dict[lexicon.EntityType, int]:
    """The number of entities of each type, in the order of the types."""
    numbers = (
      *(self.persons, self.cities, self.companies),
      *(self.films, self.countries),
    )
    return dict(zip(lexicon.EntityType, numbers, strict=True))


@dataclasses.dataclass(frozen=True)
class Entity:
  """A name and what it is the name of."""

  name: str
  type: lexicon.EntityType


@dataclasses.dataclass(frozen=True)
class World:
  """Entities, facts and passages, all indexed by entity.

  `facts[e][r]` is the entity to which the r-th relation of e's type leads;
  `orders[e]` are those r in the order in which e's passage tells them.
  """

  name: str
  config: WorldConfig
  entities: tuple[Entity, ...]
  facts: tuple[tuple[int, ...], ...]
  orders: tuple[tuple[int, ...], ...]
  documents: tuple[types.Document, ...]

  @property
  def rendering(self) -> lexicon.Rendering:
    """How this world sounds."""
    return RENDERINGS[self.config.rendering]

  def relations(self, entity: int) -> tuple[lexicon.Relation, ...]:
    """The relations that start at an entity."""
    return lexicon.RELATIONS_OF[self.entities[entity].type]

  def hop(self, subject: int, slot: int) -> types.Hop:
    """The fact (subject, slot-th relation of its type), as a gold link."""
    relation = self.relations(subject)[slot]
    return types.Hop(
      subject=self.entities[subject].name,
      relation=self.rendering.wordings[relation.name].label,
      object=self.entities[self.facts[subject][slot]].name,
      document_id=self.documents[subject].id,
    )


def make_world(config: WorldConfig, seed: int) -> World:
  """Draws the world of a seed; same arguments, same world, on any machine."""
  rendering = RENDERINGS[config.rendering]
  # One stream for each purpose: the facts are the same in every rendering.
  names = rendering.draw_names(config.counts, random.Random(f'names/{seed}'))
  entities = tuple(
    Entity(n, kind) for kind in config.counts for n in names[kind]
  )
  facts = _draw_facts(config, random.Random(f'facts/{seed}'))
  name, rng = f'{_PREFIX}{seed}', random.Random(f'passages/{seed}')
  orders, documents = [], []
  for index, entity in enumerate(entities):
    order = rng.sample(range(len(facts[index])), len(facts[index]))
    objects = [entities[facts[index][slot]].name for slot in order]
    relations = lexicon.RELATIONS_OF[entity.type]
    wordings = [rendering.wordings[relations[slot].name] for slot in order]
    text = _passage(rendering, entity, wordings, objects, rng)
    if rng.random() < config.distractors:
      text = _distract(rendering, text, {entity.name, *objects}, entities, rng)
    orders.append(tuple(order))
    documents.append(types.Document(f'{name}/{index}', entity.name, text))
  return World(name, config, entities, facts, tuple(orders), tuple(documents))


def _draw_facts(
  config: WorldConfig, rng: random.Random
) -> tuple[tuple[int, ...], ...]:
  """Every relation of every entity gets an object, never the entity itself."""
  members, start = {}, 0
  for kind, count in config.counts.items():
    members[kind] = range(start, start + count)
    start += count
  facts = []
  for kind, indices in members.items():
    for index in indices:
      objects = []
      for relation in lexicon.RELATIONS_OF[kind]:
        while (drawn := rng.choice(members[relation.object])) == index:
          pass
        objects.append(drawn)
      facts.append(objects)
  # A capital lies in its own country.
  slot_of = {
    relation.name: slot
    for relations in lexicon.RELATIONS_OF.values()
    for slot, relation in enumerate(relations)
  }
  cities = members[lexicon.EntityType.CITY]
  capitals = rng.sample(cities, len(cities))
  countries = members[lexicon.EntityType.COUNTRY]
  for country, city in zip(countries, capitals, strict=False):
    facts[country][slot_of['capital']] = city
    facts[city][slot_of['nation']] = country
  return tuple(tuple(objects) for objects in facts)


def _passage(rendering, entity, wordings, objects, rng) -> str:
  told = [
    f'{rng.choice(wording.phrases)} {value}'
    for wording, value in zip(wordings, objects, strict=True)
  ]
  return rng.choice(rendering.passages).format(
    name=entity.name,
    noun=rng.choice(rendering.nouns[entity.type]),
    **dict(zip('abc', told, strict=True)),
  )


def _distract(rendering, text, named, entities, rng) -> str:
  """Puts a sentence about somebody else before or after the passage."""
  while (other := rng.choice(entities).name) in named:
    pass
  sentence = rng.choice(rendering.distractors).format(other=other)
  sentences = (sentence, text) if rng.random() < 0.5 else (text, sentence)
  return ' '.join(sentences)


def vocabulary(config: WorldConfig) -> tuple[str, ...]:
  """Every word of the WORDS rendering, sorted: names, passages, questions,
  relations, and what the experts say. Tags and special tokens are not data.

  Raises:
    ValueError: for a rendering whose words are not closed.
  """
  if config.rendering != 'words':
    raise ValueError(
      f'the {config.rendering!r} rendering has no closed vocabulary: use '
      "rendering 'words' or a subword tokenizer"
    )
  pools = words.name_pools(config.counts)
  names = {name for pool in pools.values() for name in pool}
  return tuple(sorted(names | words.function_words()))


def seed_of(corpus: str) -> int:
  """The seed of the world that a corpus id such as "world-17" names.

  Raises:
    LookupError: where the id names no world.
  """
  digits = corpus.removeprefix(_PREFIX)
  if digits == corpus or not digits.isdecimal():
    raise LookupError(
      f'corpus {corpus!r} is no generated world: expected {_PREFIX}<seed>'
    )
  return int(digits)


class Worlds:
  """The worlds of one config, made on demand; the last ones are kept."""

  def __init__(self, config: WorldConfig, *, keep: int = 64):
    self.config = config
    make = functools.partial(make_world, config)
    self._world = functools.lru_cache(maxsize=keep)(make)

  def world(self, seed: int) -> World:
    """The world of a seed."""
    return self._world(seed)

  def documents(self, corpus: str) -> tuple[types.Document, ...]:
    """The passages of the world that a corpus id names."""
    return self.world(seed_of(corpus)).documents
