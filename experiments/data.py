# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What is asked, and where answers are sought: generated worlds, or files."""

import dataclasses
from collections.abc import Sequence

import ml_collections

from searchrl_jax.data import pipeline, qa
from searchrl_jax.data.world import SPLITS, WorldConfig, Worlds
from searchrl_jax.evaluation.evaluate import stratified
from searchrl_jax.retrieval.bm25 import BM25Options
from searchrl_jax.retrieval.corpus import read_corpus
from searchrl_jax.retrieval.resolver import SearchResolver
from searchrl_jax.types import Question, Resolver

CORPUS = 'corpus'  # the name of a corpus that comes from a file
_WORLDS_OF_A_SEED = 10_000  # then a run would begin its worlds again


@dataclasses.dataclass(frozen=True)
class Data:
  """What is asked, and where answers are sought."""

  train: pipeline.QuestionSource | Sequence[Question]
  shuffle: bool  # generated worlds are drawn at random already
  validation: Sequence[Question]
  test: Sequence[Question]
  resolve: Resolver  # knows the passages of the worlds and of the file
  worlds: Worlds  # demonstrations may come from them whatever is asked
  generated: bool  # the questions come from the worlds, not from files

  def known_questions(self) -> list[Question]:
    """Those that can be looked at beforehand: all, but of endless worlds."""
    first = [self.train[0]] if self.generated else list(self.train)
    return [*first, *self.validation, *self.test]


def make_data(config: ml_collections.ConfigDict, seed: int) -> Data:
  """Questions and their search engine: generated worlds, or files.

  Every seed trains on worlds of its own; all are evaluated on the same.
  """
  options = BM25Options(**config.retrieval)
  if bool(config.data.corpus) != bool(config.data.questions):
    raise ValueError(
      'data.corpus and data.questions belong together; give both or neither.'
    )
  if config.data.evaluation_questions and not config.data.questions:
    raise ValueError(
      'data.evaluation_questions needs data.corpus and data.questions; the '
      'generated world has splits of its own.'
    )
  worlds = Worlds(WorldConfig(**config.world))
  if config.data.corpus:
    return _file_data(config, options, worlds)

  def asked(seeds):
    return pipeline.GeneratedQuestions(
      worlds, seeds, config.data.questions_per_world, tuple(config.data.hops)
    )

  def first(name, count):
    source = asked(SPLITS[name])
    return [source[i] for i in range(count)]

  span = SPLITS['train']
  own = seed % (len(span) // _WORLDS_OF_A_SEED) * _WORLDS_OF_A_SEED
  return Data(
    train=asked(span[own : own + _WORLDS_OF_A_SEED]),
    shuffle=False,
    validation=first('validation', config.evaluation.questions),
    test=first('test', config.evaluation.final_questions),
    resolve=SearchResolver(worlds.documents, options=options),
    worlds=worlds,
    generated=True,
  )


def _file_data(config, options, worlds) -> Data:
  documents = read_corpus(config.data.corpus)

  def documents_of(corpus):
    return documents if corpus == CORPUS else worlds.documents(corpus)

  train = qa.read_questions(config.data.questions, corpus=CORPUS)
  held_out = train
  if config.data.evaluation_questions:
    held_out = qa.read_questions(
      config.data.evaluation_questions, corpus=CORPUS
    )
  return Data(
    train=train,
    shuffle=True,
    validation=stratified(held_out, config.evaluation.questions),
    test=stratified(held_out, config.evaluation.final_questions),
    resolve=SearchResolver(documents_of, options=options),
    worlds=worlds,
    generated=False,
  )
