# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The WORDS rendering: a small closed vocabulary, one token a word.

Everything is lower-case words and a free-standing question mark, separated
by single spaces, so that a policy with a word list as its tokenizer can learn
to search from random weights in minutes. The last word of a relation's phrase
tells it from the other relations of its type ("born in", "employed at").
"""

import functools
import random
from collections.abc import Mapping

from searchrl_jax.data import lexicon

_CONSONANTS = 'bdfgklmnprstvz'
_VOWELS = 'aeiou'
# Endings that an English stemmer leaves alone: two names never share a stem.
_FINALS = 'kmpvxz'
# Coprime to the size of every name space below (its factors are 2, 3, 5, 7):
# stepping by it visits each name once, neighbours looking unlike each other.
_STRIDE = 10007


def _wording(label: str, phrase: str, *asks: str) -> lexicon.Wording:
  return lexicon.Wording(label, (phrase,), tuple(f'{a} {{x}}' for a in asks))


_WORDINGS = {
  w.label: w
  for w in (
    _wording(
      'employer', 'employed at', 'the employer of', 'the firm employing'
    ),
    _wording('mentor', 'taught by', 'the mentor of', 'the teacher of'),
    _wording('birthplace', 'born in', 'the birthplace of', 'the hometown of'),
    _wording('nation', 'belonging to', 'the nation of', 'the country around'),
    _wording('mayor', 'governed by', 'the mayor of', 'the governor of'),
    _wording(
      'tribute', 'celebrated in', 'the tribute to', 'the movie celebrating'
    ),
    _wording('founder', 'founded by', 'the founder of', 'the creator of'),
    _wording('headquarters', 'based in', 'the headquarters of', 'the seat of'),
    _wording(
      'supplier', 'buying from', 'the supplier of', 'the vendor serving'
    ),
    _wording('director', 'directed by', 'the director of', 'the maker of'),
    _wording('star', 'starring', 'the star of', 'the actor leading'),
    _wording('studio', 'filmed at', 'the studio of', 'the producer of'),
    _wording('capital', 'ruled from', 'the capital of', 'the metropolis of'),
    _wording('leader', 'led by', 'the leader of', 'the president of'),
    _wording('partner', 'trading with', 'the partner of', 'the ally of'),
  )
}


def _name(index: int, syllables: int) -> str:
  """The index-th name: consonant-vowel syllables and a final consonant."""
  index, final = divmod(index, len(_FINALS))
  letters = _FINALS[final]
  for _ in range(syllables):
    index, vowel = divmod(index, len(_VOWELS))
    index, consonant = divmod(index, len(_CONSONANTS))
    letters = _CONSONANTS[consonant] + _VOWELS[vowel] + letters
  return letters


@functools.lru_cache(maxsize=8)
def _pool(size: int) -> tuple[str, ...]:
  syllables = 2
  while (space := 70**syllables * len(_FINALS)) < size:
    syllables += 1
  return tuple(_name(i * _STRIDE % space, syllables) for i in range(size))


def name_pools(
  counts: Mapping[lexicon.EntityType, int],
) -> dict[lexicon.EntityType, tuple[str, ...]]:
  """The names a world may draw from: twice as many as it needs, by type."""
  pool, pools, start = _pool(2 * sum(counts.values())), {}, 0
  for kind, count in counts.items():
    pools[kind] = pool[start : start + 2 * count]
    start += 2 * count
  return pools


def _draw_names(
  counts: Mapping[lexicon.EntityType, int], rng: random.Random
) -> dict[lexicon.EntityType, tuple[str, ...]]:
  pools = name_pools(counts)
  return {k: tuple(rng.sample(pools[k], n)) for k, n in counts.items()}


WORDS = lexicon.Rendering(
  wordings=_WORDINGS,
  nouns={kind: (kind.value,) for kind in lexicon.EntityType},
  passages=(
    '{name} is a {noun} {a} and {b} and {c}',
    'the {noun} {name} was {a} while {b} then {c}',
    'known as {name} this {noun} is {a} also {b} plus {c}',
  ),
  distractors=(
    'visitors often mention {other}',
    'this is unlike {other}',
    'many people prefer {other}',
  ),
  who='who is {x} ?',
  what='what is {x} ?',
  rubric='the {label} of {subject} is {object}',
  draw_names=_draw_names,
)


def function_words() -> set[str]:
  """Every word of the rendering that is not a name."""
  texts = [WORDS.who, WORDS.what, lexicon.GIVEN, *WORDS.passages]
  texts += [*WORDS.distractors, *(n for ns in WORDS.nouns.values() for n in ns)]
  for wording in WORDS.wordings.values():
    texts += [wording.label, *wording.phrases, *wording.asks]
  # Placeholders such as {name} are no words.
  return {w for text in texts for w in text.split() if not w.startswith('{')}
