# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The NATURAL rendering: varied English for language models.

Names are invented, mostly of several words ("Tarvin Oskel"). Every name holds
a word that no other name of its world holds, so that no name is contained in
another and a match in a passage means what it says.
"""

import random
from collections.abc import Mapping

from searchrl_jax.data import lexicon

_ONSETS = (
  *('B', 'Br', 'D', 'F', 'G', 'H', 'K', 'L', 'M', 'N', 'P', 'Q', 'R', 'S'),
  *('T', 'Tr', 'V', 'W', 'Y', 'Z'),
)
_MIDDLES = (
  *('b', 'd', 'f', 'g', 'k', 'l', 'm', 'n', 'p', 'r', 's', 't', 'v', 'z'),
  *('lv', 'nd', 'rd', 'rk', 'rm', 'rv', 'sk', 'st', 'zk', 'nt'),
)
_VOWELS = 'aeiou'
# Endings that an English stemmer leaves alone.
_CODAS = ('k', 'm', 'n', 'rn', 'rt', 'x', 'sk', 'lm')
_TWO_SYLLABLES = len(_ONSETS) * len(_MIDDLES) * len(_CODAS) * len(_VOWELS) ** 2

# {x} is a word of the entity's own; persons have two.
_FORMS = {
  lexicon.EntityType.PERSON: ('{x} {y}',),
  lexicon.EntityType.CITY: ('{x}', 'Port {x}', '{x} Falls', 'Fort {x}'),
  lexicon.EntityType.COMPANY: (
    *('{x} Industries', '{x} Brothers', '{x} Trading', '{x} Works'),
  ),
  lexicon.EntityType.FILM: (
    *('Silent {x}', 'Crimson {x}', 'Letters from {x}', '{x} at Midnight'),
  ),
  lexicon.EntityType.COUNTRY: ('{x}', 'Upper {x}', '{x} Islands'),
}


_WORDINGS = {
  'employer': lexicon.Wording(
    'employer',
    ('works for', 'is employed at'),
    ('the employer of {x}', 'the company that {x} works for'),
  ),
  'mentor': lexicon.Wording(
    'mentor',
    ('studied under', 'was taught by'),
    ('the mentor of {x}', 'the person who taught {x}'),
  ),
  'birthplace': lexicon.Wording(
    'place of birth',
    ('was born in', 'came into the world in'),
    ('the birthplace of {x}', 'the city where {x} was born'),
  ),
  'nation': lexicon.Wording(
    'nation',
    ('belongs to', 'lies in'),
    ('the nation of {x}', 'the country that {x} belongs to'),
  ),
  'mayor': lexicon.Wording(
    'mayor',
    ('is governed by', 'has chosen as its mayor'),
    ('the mayor of {x}', 'the person who governs {x}'),
  ),
  'tribute': lexicon.Wording(
    'film tribute',
    ('is celebrated in the film', 'inspired the film'),
    ('the film tribute to {x}', 'the film that celebrates {x}'),
  ),
  'founder': lexicon.Wording(
    'founder',
    ('was founded by', 'owes its existence to'),
    ('the founder of {x}', 'the person who founded {x}'),
  ),
  'headquarters': lexicon.Wording(
    'headquarters',
    ('is based in', 'has its head office in'),
    ('the headquarters of {x}', 'the city where {x} is based'),
  ),
  'supplier': lexicon.Wording(
    'main supplier',
    ('buys its materials from', 'relies on deliveries from'),
    ('the main supplier of {x}', 'the company that supplies {x}'),
  ),
  'director': lexicon.Wording(
    'director',
    ('was directed by', 'was made by the director'),
    ('the director of {x}', 'the person who directed {x}'),
  ),
  'star': lexicon.Wording(
    'leading actor',
    ('stars', 'gives its leading part to'),
    ('the leading actor of {x}', 'the star of {x}'),
  ),
  'studio': lexicon.Wording(
    'studio',
    ('was produced by', 'was filmed at the studios of'),
    ('the studio behind {x}', 'the company that produced {x}'),
  ),
  'capital': lexicon.Wording(
    'capital',
    ('is ruled from', 'has its government in'),
    ('the capital of {x}', 'the city from which {x} is ruled'),
  ),
  'leader': lexicon.Wording(
    'leader',
    ('is led by', 'has elected as its head'),
    ('the leader of {x}', 'the person who leads {x}'),
  ),
  'partner': lexicon.Wording(
    'main trading partner',
    ('trades mainly with', 'sells most of its goods to'),
    (
      'the main trading partner of {x}',
      'the country that {x} trades with most',
    ),
  ),
}


def _own_word(taken: set[str], syllables: int, rng: random.Random) -> str:
  """An invented word that no earlier name of this world holds."""
  while True:
    word = rng.choice(_ONSETS)
    for _ in range(syllables - 1):
      word += rng.choice(_VOWELS) + rng.choice(_MIDDLES)
    word += rng.choice(_VOWELS) + rng.choice(_CODAS)
    if word not in taken:
      taken.add(word)
      return word


def _draw_names(
  counts: Mapping[lexicon.EntityType, int], rng: random.Random
) -> dict[lexicon.EntityType, tuple[str, ...]]:
  taken = set()
  # Leave most of the space unused, so that redrawing stays rare.
  syllables = 2
  while 8 * sum(counts.values()) > _TWO_SYLLABLES * 120 ** (syllables - 2):
    syllables += 1
  names = {}
  for kind, count in counts.items():
    names[kind] = tuple(
      rng.choice(_FORMS[kind]).format(
        x=_own_word(taken, syllables, rng), y=_own_word(taken, syllables, rng)
      )
      for _ in range(count)
    )
  return names


NATURAL = lexicon.Rendering(
  wordings=_WORDINGS,
  # All begin with a consonant, for the article before them.
  nouns={
    lexicon.EntityType.PERSON: ('painter', 'chemist', 'lawyer', 'singer'),
    lexicon.EntityType.CITY: ('city', 'town', 'market town'),
    lexicon.EntityType.COMPANY: ('company', 'firm', 'manufacturer'),
    lexicon.EntityType.FILM: ('film', 'drama', 'comedy'),
    lexicon.EntityType.COUNTRY: ('country', 'republic', 'kingdom'),
  },
  passages=(
    '{name} is a {noun}. The {noun} {a} and {b}. Besides, {name} {c}.',
    'The {noun} {name} {a}. It is known that {name} {b} and {c}.',
    '{name}, a {noun} of some renown, {a}. The same {noun} {b}; '
    'moreover, {name} {c}.',
  ),
  distractors=(
    'Visitors often mention {other} in the same breath.',
    'A newspaper once printed a comparison with {other}.',
    'Some readers would rather hear about {other}.',
  ),
  who='Who is {x}?',
  what='What is {x}?',
  rubric='The {label} of {subject} is {object}.',
  draw_names=_draw_names,
)
