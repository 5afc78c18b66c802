# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a generated world is made of: entity types, relations, renderings.

A relation is a function: every subject of its type has exactly one object.
How names and facts sound is the business of a `Rendering`, which is data:
`words.py` and `natural.py` each hold one.
"""

import dataclasses
import enum
import random
from collections.abc import Callable, Mapping

# What a thought says of a value that the question itself gives.
GIVEN = 'given'


class EntityType(enum.StrEnum):
  """Order matters: entities of a world are numbered type by type."""

  PERSON = 'person'
  CITY = 'city'
  COMPANY = 'company'
  FILM = 'film'
  COUNTRY = 'country'


@dataclasses.dataclass(frozen=True)
class Relation:
  """A function from entities of one type to entities of another."""

  name: str
  subject: EntityType
  object: EntityType


RELATIONS = (
  Relation('employer', EntityType.PERSON, EntityType.COMPANY),
  Relation('mentor', EntityType.PERSON, EntityType.PERSON),
  Relation('birthplace', EntityType.PERSON, EntityType.CITY),
  Relation('nation', EntityType.CITY, EntityType.COUNTRY),
  Relation('mayor', EntityType.CITY, EntityType.PERSON),
  Relation('tribute', EntityType.CITY, EntityType.FILM),
  Relation('founder', EntityType.COMPANY, EntityType.PERSON),
  Relation('headquarters', EntityType.COMPANY, EntityType.CITY),
  Relation('supplier', EntityType.COMPANY, EntityType.COMPANY),
  Relation('director', EntityType.FILM, EntityType.PERSON),
  Relation('star', EntityType.FILM, EntityType.PERSON),
  Relation('studio', EntityType.FILM, EntityType.COMPANY),
  Relation('capital', EntityType.COUNTRY, EntityType.CITY),
  Relation('leader', EntityType.COUNTRY, EntityType.PERSON),
  Relation('partner', EntityType.COUNTRY, EntityType.COUNTRY),
)

# The relations of a type, in the order in which a world stores its facts.
RELATIONS_OF = {
  kind: tuple(r for r in RELATIONS if r.subject == kind) for kind in EntityType
}


@dataclasses.dataclass(frozen=True)
class Wording:
  """How one relation sounds.

  `label` names it in queries and thoughts; its words stand in no passage that
  could then outrank the subject's own. Each of `phrases` stands right
  before the value in a passage ("employed at V"), so that a reader needs
  one causal step. Each of `asks` is a noun phrase around `{x}`, the
  subject, which may itself be such a phrase.
  """

  label: str
  phrases: tuple[str, ...]
  asks: tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Rendering:
  """How a world sounds.

  Templates: `passages` have `{name} {noun} {a} {b} {c}`, the last three
  being phrase and value; `distractors` have `{other}`; `who` and `what`
  have `{x}`; `rubric` has `{label} {subject} {object}`.
  """

  wordings: Mapping[str, Wording]  # by the name of the relation
  nouns: Mapping[EntityType, tuple[str, ...]]
  passages: tuple[str, ...]
  distractors: tuple[str, ...]
  who: str
  what: str
  rubric: str
  # (number of entities by type, random numbers) -> names by type, distinct
  draw_names: Callable[
    [Mapping[EntityType, int], random.Random],
    Mapping[EntityType, tuple[str, ...]],
  ]
