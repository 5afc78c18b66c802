# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Configuration sections become the parts of a run.

The edge between data and types: every section ends as keyword arguments of
one dataclass or function, so a misspelt key or a wrong type dies here.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import ml_collections

from experiments.player import Player
from searchrl_jax import sharding
from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.chat import ChatTemplate
from searchrl_jax.data import pipeline, qa
from searchrl_jax.data.world import SPLITS, WorldConfig, Worlds, vocabulary
from searchrl_jax.environments import wording as wordings
from searchrl_jax.environments.search_r1 import SearchR1
from searchrl_jax.evaluation.evaluate import stratified
from searchrl_jax.models.config import DecoderConfig, Remat
from searchrl_jax.models.decoder import Model, make_model
from searchrl_jax.retrieval.bm25 import BM25Options
from searchrl_jax.retrieval.corpus import read_corpus
from searchrl_jax.retrieval.resolver import SearchResolver
from searchrl_jax.rollout.engine import Limits
from searchrl_jax.types import Question, Resolver, Sampling

CORPUS = 'corpus'  # the name of a corpus that comes from a file
_WORLDS_OF_A_SEED = 10_000  # then a run would begin its worlds again


@dataclasses.dataclass(frozen=True)
class Data:
  """What is asked, and where answers are sought."""

  train: pipeline.QuestionSource | Sequence[Question]
  shuffle: bool  # generated worlds are drawn at random already
  validation: Sequence[Question]
  test: Sequence[Question]
  resolve: Resolver
  worlds: Worlds | None  # None where questions come from files

  def known_questions(self) -> list[Question]:
    """Those that can be looked at beforehand: all, but of endless worlds."""
    first = [self.train[0]] if self.worlds else list(self.train)
    return [*first, *self.validation, *self.test]


def make_tokenizer(config: ml_collections.ConfigDict) -> tokenizers.Tokenizer:
  """The tokenizer a config names."""
  if config.tokenizer == 'bytes':
    return tokenizers.ByteTokenizer()
  if config.tokenizer == 'words':
    said = wordings.words_of(make_wording(config))
    words = (*said, *vocabulary(WorldConfig(**config.world)))
    return tokenizers.WordTokenizer(tuple(dict.fromkeys(words)))
  raise ValueError(
    f'tokenizer is {config.tokenizer!r}: choose "words" or "bytes".'
  )


def make_wording(config: ml_collections.ConfigDict) -> wordings.Wording:
  """How the environment speaks, with the user's template where one is given."""
  known = {'words': wordings.WORDS, 'natural': wordings.NATURAL}
  name = config.environment.wording
  if name not in known:
    raise ValueError(
      f'environment.wording is {name!r}: choose "words" or "natural".'
    )
  if not config.environment.template:
    return known[name]
  template = wordings.template_from(config.environment.template)
  return dataclasses.replace(known[name], template=template)


def make_environment(
  config: ml_collections.ConfigDict, tokenizer: tokenizers.Tokenizer
) -> SearchR1:
  """The Search-R1 conversation of a config."""
  section = config.environment
  return SearchR1(
    make_wording(config),
    max_turns=section.max_turns,
    topk=section.topk,
    max_observation=section.max_observation,
    shorten=functools.partial(tokenizers.shorten, tokenizer),
    stop_at_malformed=section.stop_at_malformed,
    stop_at_failed_tool=section.stop_at_failed_tool,
  )


def make_model_of(
  config: ml_collections.ConfigDict, tokenizer: tokenizers.Tokenizer
) -> Model:
  """A decoder with the vocabulary of the tokenizer."""
  section = config.model
  try:
    dtype = jnp.dtype(section.compute_dtype)
  except TypeError:
    raise ValueError(
      f'model.compute_dtype is {section.compute_dtype!r}: choose "float32" or '
      '"bfloat16".'
    ) from None
  return make_model(
    DecoderConfig(
      vocabulary=len(tokenizer.token_bytes),
      compute_dtype=dtype,
      remat=Remat(section.remat),
      **section.sizes,
    )
  )


def make_devices(config: ml_collections.ConfigDict) -> None:
  """Splits the CPU into as many devices as asked for.

  Must come before anything else asks JAX for a device; on accelerators it
  changes nothing.
  """
  if config.devices > 1:
    # Refused where devices are in use already; `make_mesh` counts them.
    with contextlib.suppress(RuntimeError):
      jax.config.update('jax_num_cpu_devices', config.devices)


def make_mesh(config: ml_collections.ConfigDict) -> jax.sharding.Mesh:
  """The mesh of a config.

  Raises:
    ValueError: devices are missing, or something does not divide over them.
  """
  count = config.devices or jax.device_count()
  if count > jax.device_count():
    raise ValueError(
      f'devices is {count}, but JAX sees {jax.device_count()}; ask for fewer.'
    )
  split = config.mesh.fsdp * config.mesh.tensor
  if count % split:
    raise ValueError(
      f'mesh.fsdp x mesh.tensor is {split} and does not divide devices, '
      f'{count}; choose factors of {count}.'
    )
  rows = count // config.mesh.tensor  # groups of devices with their own rows
  for name, size in (
    ('rollout.questions', config.rollout.questions),
    ('training.microbatch', config.training.microbatch),
  ):
    if size % rows:
      raise ValueError(
        f'{name} is {size} and cannot be split over {rows} devices; choose a '
        f'multiple of {rows}.'
      )
  return sharding.make_mesh(**config.mesh, devices=jax.devices()[:count])


def make_limits(config: ml_collections.ConfigDict) -> Limits:
  """The token budgets of a trajectory."""
  section = config.rollout
  if section.context > config.training.packed_length:
    raise ValueError(
      f'rollout.context is {section.context} and training.packed_length '
      f'{config.training.packed_length}; a trajectory must fit into a row.'
    )
  return Limits(section.max_new_tokens, section.max_tokens, section.context)


def make_sampling(config: ml_collections.ConfigDict) -> Sampling:
  """How training rollouts are drawn."""
  section = config.rollout
  return Sampling(section.temperature, section.top_k, section.top_p)


def make_player(
  config, model, environment, tokenizer, resolve, mesh, *, seed: int, rows: int
) -> Player:
  """Plays with the budgets of a config, `rows` trajectories at a time."""
  template = None
  if config.chat_template:
    template = ChatTemplate.from_file(config.chat_template)
    if not template.prefix_preserving:
      print(
        f'{config.chat_template} changes earlier turns when a conversation '
        'grows; here it renders the first prompt only, never history.'
      )
  return Player(
    model,
    environment,
    tokenizer,
    resolve,
    seed=seed,
    rows=rows,
    limits=make_limits(config),
    template=template,
    mesh=mesh,
  )


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
  if config.data.corpus:
    return _file_data(config, options)
  worlds = Worlds(WorldConfig(**config.world))

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
  )


def _file_data(config, options) -> Data:
  documents = read_corpus(config.data.corpus)

  def documents_of(corpus):
    if corpus != CORPUS:
      raise LookupError(corpus)
    return documents

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
    worlds=None,
  )
