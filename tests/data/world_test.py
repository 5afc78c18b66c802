# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The generated world: determined by its seed, told in full, unambiguous."""

import collections
import dataclasses
import itertools
import random
import time

import pytest
import Stemmer

from searchrl_jax.data import lexicon, natural, words, world
from searchrl_jax.data.questions import questions
from searchrl_jax.retrieval import bm25

BOTH = pytest.mark.parametrize('rendering', ['words', 'natural'])


def make(rendering='words', seed=7, **sizes):
  return world.make_world(world.WorldConfig(rendering=rendering, **sizes), seed)


@BOTH
def test_same_seed_same_world_another_seed_another(rendering):
  assert make(rendering, 7) == make(rendering, 7)
  assert make(rendering, 7).documents != make(rendering, 8).documents
  assert make(rendering, 7).facts != make(rendering, 8).facts


def test_a_world_stays_the_same_over_versions():
  # If this moves, recorded results and checkpoints mean other worlds: say so
  # where results are kept, then write the new text here.
  assert make(seed=0).documents[0].text == (
    'rirax is a person taught by zevem and employed at lovix and born in fekiv'
  )


def test_two_renderings_tell_the_same_facts():
  small, large = make('words'), make('natural')
  assert small.facts == large.facts
  assert [e.type for e in small.entities] == [e.type for e in large.entities]
  assert not {e.name for e in small.entities} & {e.name for e in large.entities}


def test_default_counts():
  drawn = collections.Counter(e.type.value for e in make().entities)
  assert list(drawn) == list(lexicon.EntityType)
  assert list(drawn.values()) == [80, 40, 40, 40, 20]
  assert len(lexicon.RELATIONS) == 15
  assert {len(r) for r in lexicon.RELATIONS_OF.values()} == {3}


def test_splits_are_disjoint():
  for one, other in itertools.combinations(world.SPLITS.values(), 2):
    assert one.stop <= other.start or other.stop <= one.start
  assert list(world.SPLITS) == ['warm_start', 'train', 'validation', 'test']
  first = [make(seed=seeds.start).facts for seeds in world.SPLITS.values()]
  assert len(set(first)) == 4


@BOTH
def test_every_fact_stands_after_its_phrase_in_the_page_of_its_subject(
  rendering,
):
  made = make(rendering)
  for index, (entity, document) in enumerate(
    zip(made.entities, made.documents, strict=True)
  ):
    assert document.title == entity.name
    assert entity.name in document.text
    for slot, relation in enumerate(made.relations(index)):
      hop = made.hop(index, slot)
      assert hop.document_id == document.id
      phrases = made.rendering.wordings[relation.name].phrases
      told = [f'{phrase} {hop.object}' in document.text for phrase in phrases]
      assert sum(told) == 1
      # No second object competes for the phrase: the relation is a function.
      assert sum(document.text.count(f'{p} ') for p in phrases) == 1


@BOTH
def test_orders_say_how_the_passage_tells_its_facts(rendering):
  made = make(rendering)
  for index, document in enumerate(made.documents):
    places = []
    for slot in made.orders[index]:
      relation = made.relations(index)[slot]
      value = made.entities[made.facts[index][slot]].name
      phrases = made.rendering.wordings[relation.name].phrases
      places += [
        document.text.index(f'{phrase} {value}')
        for phrase in phrases
        if f'{phrase} {value}' in document.text
      ]
    assert len(places) == 3
    assert places == sorted(places)


def test_facts_lead_to_the_right_type_and_never_home():
  made = make()
  for index, objects in enumerate(made.facts):
    for relation, target in zip(made.relations(index), objects, strict=True):
      assert made.entities[target].type == relation.object
      assert target != index


def test_a_capital_lies_in_its_own_country():
  made = make()
  slots = {
    kind: {r.name: i for i, r in enumerate(relations)}
    for kind, relations in lexicon.RELATIONS_OF.items()
  }
  capital = slots[lexicon.EntityType.COUNTRY]['capital']
  nation = slots[lexicon.EntityType.CITY]['nation']
  for index, entity in enumerate(made.entities):
    if entity.type == lexicon.EntityType.COUNTRY:
      assert made.facts[made.facts[index][capital]][nation] == index


@BOTH
def test_no_name_stands_in_another(rendering):
  names = [entity.name for entity in make(rendering).entities]
  assert len(set(names)) == len(names)
  padded = ' | '.join(f' {name} ' for name in names)
  for name in names:
    assert padded.count(f' {name} ') == 1


def test_half_of_the_passages_hold_a_distractor():
  made = make()
  marks = [text.split(' {')[0] for text in made.rendering.distractors]
  distracted = sum(
    any(mark in document.text for mark in marks) for document in made.documents
  )
  # 220 fair coins: mean 110, standard deviation 7.4.
  assert 80 < distracted < 140
  plain = make(distractors=0.0)
  assert not any(m in d.text for m in marks for d in plain.documents)


def test_names_are_one_word_each_from_pools_twice_the_size():
  config = world.WorldConfig()
  pools = words.name_pools(config.counts)
  assert {k: len(p) for k, p in pools.items()} == {
    k: 2 * n for k, n in config.counts.items()
  }
  every = [name for pool in pools.values() for name in pool]
  assert len(set(every)) == 440
  made = make()
  for entity in made.entities:
    assert entity.name in pools[entity.type]


def test_names_keep_apart_under_a_stemmer():
  pools = words.name_pools(world.WorldConfig().counts)
  every = [name for pool in pools.values() for name in pool]
  assert Stemmer.Stemmer('english').stemWords(every) == every


def test_the_vocabulary_holds_every_word_that_is_ever_said():
  config = world.WorldConfig()
  known = set(world.vocabulary(config))
  assert list(world.vocabulary(config)) == sorted(known)
  # 440 names and about a hundred words around them.
  assert 500 <= len(known) <= 560
  said = set()
  for seed in range(3):
    made = world.make_world(config, seed)
    texts = [f'{d.title} {d.text}' for d in made.documents]
    for question in questions(made, seed, 90):
      texts += [question.text, *question.answers]
      texts += [f'{h.relation} {h.object}' for h in question.hops]
    said |= {word for text in texts for word in text.split(' ')}
  assert said <= known
  # Three worlds say nearly every word that is not a name.
  assert len(words.function_words() - said) <= 3
  assert all(word == word.lower() for word in known)


def test_natural_english_has_no_closed_vocabulary():
  with pytest.raises(ValueError, match='no closed vocabulary'):
    world.vocabulary(world.WorldConfig(rendering='natural'))


def test_passages_are_short_enough_for_the_drills():
  longest = max(len(d.text.split(' ')) for d in make().documents)
  # plus six words of relations and values and the tags: below 48
  assert longest <= 24


@BOTH
def test_every_relation_and_type_is_worded(rendering):
  wordings = world.RENDERINGS[rendering].wordings
  assert set(wordings) == {relation.name for relation in lexicon.RELATIONS}
  for wording in wordings.values():
    assert len(wording.asks) == 2
    assert all(ask.count('{x}') == 1 for ask in wording.asks)
  assert set(world.RENDERINGS[rendering].nouns) == set(lexicon.EntityType)


def test_a_phrase_is_told_by_its_last_word_among_its_type():
  for relations in lexicon.RELATIONS_OF.values():
    last = [
      words.WORDS.wordings[r.name].phrases[0].split()[-1] for r in relations
    ]
    assert len(set(last)) == len(last)


@BOTH
def test_a_name_and_a_relation_find_the_page(rendering):
  made = make(rendering)
  index = bm25.BM25(made.documents)
  queries, wanted = [], []
  for entity in range(len(made.entities)):
    for slot in range(3):
      hop = made.hop(entity, slot)
      queries.append(f'{hop.subject} {hop.relation}')
      wanted.append(hop.document_id)
  found = [documents[0].id for documents in index.search(queries, 1)]
  misses = sum(a != b for a, b in zip(found, wanted, strict=True))
  assert misses <= 2  # of 660


@BOTH
def test_any_size(rendering):
  large = make(rendering, persons=9000, cities=3000, companies=3000)
  names = {entity.name for entity in large.entities}
  assert len(names) == len(large.entities) == 15_060
  tiny = make(rendering, persons=2, cities=2, companies=2, films=2, countries=5)
  assert len(tiny.documents) == 13


def test_a_pool_larger_than_the_space_of_two_syllables():
  pools = words.name_pools({lexicon.EntityType.PERSON: 16_000})
  pool = pools[lexicon.EntityType.PERSON]
  assert len(set(pool)) == 32_000


def test_words_of_a_natural_name_stay_unique_in_a_large_draw():
  counts = {lexicon.EntityType.PERSON: 3000}
  made = natural.NATURAL.draw_names(counts, random.Random(3))
  parts = [p for n in made[lexicon.EntityType.PERSON] for p in n.split()]
  assert len(set(parts)) == len(parts) == 6000


def test_a_world_takes_milliseconds():
  make()  # the pool of names is made once
  start = time.perf_counter()
  for seed in range(5):
    make(seed=100 + seed)
  # About 2 ms each; ten times that on a busy machine is still fine.
  assert (time.perf_counter() - start) / 5 < 0.05


def test_worlds_are_found_by_their_corpus_name_and_kept():
  worlds = world.Worlds(world.WorldConfig(), keep=2)
  assert worlds.documents('world-17') == make(seed=17).documents
  assert worlds.world(17) is worlds.world(17)
  kept = worlds.world(17)
  worlds.world(18)
  worlds.world(19)
  assert worlds.world(17) is not kept
  assert worlds.world(17) == kept


@pytest.mark.parametrize('corpus', ['', 'wiki', 'world-', 'world-x', '17'])
def test_a_corpus_that_is_no_world(corpus):
  with pytest.raises(LookupError, match='no generated world'):
    world.seed_of(corpus)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'rendering': 'prose'}, "unknown rendering 'prose'"),
    ({'films': 1}, 'at least two entities of type film'),
    ({'distractors': 1.5}, 'share between 0 and 1'),
  ],
)
def test_impossible_configs(change, message):
  with pytest.raises(ValueError, match=message):
    dataclasses.replace(world.WorldConfig(), **change)
