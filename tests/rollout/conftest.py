# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A small world to roll out in: a random decoder that says whole actions.

Its vocabulary is a word list whose words include complete searches and
answers, so that even random weights search, answer, stammer and are cut off,
all within a few tokens.
"""

import collections
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import sharding, types
from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.environments import search_r1, wording
from searchrl_jax.models import cache as caches
from searchrl_jax.models import config as configs
from searchrl_jax.models import decoder
from searchrl_jax.rollout import engine, model_policy, policy
from searchrl_jax.testing import DictionarySearch, ToyTokenizer

SAID = (
  'ada',
  'bob',
  'who',
  '<search>ada</search>',
  '<search>bob</search>',
  '<search>zed</search>',
  '<answer>bob</answer>',
)
TOKENIZER = tokenizers.WordTokenizer((*wording.words_of(wording.WORDS), *SAID))
CONTEXT, TURN_TOKENS = 96, 6


@dataclasses.dataclass(frozen=True)
class World:
  """Everything a rollout needs, but the questions."""

  model: decoder.Model
  params: Any
  environment: search_r1.SearchR1
  tokenizer: tokenizers.Tokenizer
  resolve: types.Resolver
  limits: engine.Limits

  def policy(
    self, rows: int, devices: int = 1, **other
  ) -> model_policy.ModelPolicy:
    """A policy with programs of its own: compiles anew."""
    settings = {'width': rows, 'append_rows': 4, 'append_tokens': 64, **other}
    made = model_policy.ModelPolicy(
      self.model,
      self.tokenizer,
      settings.pop('stops', self.environment.stops),
      rows=rows,
      capacity=CONTEXT,
      max_new_tokens=TURN_TOKENS,
      mesh=sharding.make_mesh(devices=jax.devices()[:devices]),
      **settings,
    )
    made.load(self.params)
    made.use(types.Sampling(), jax.random.key(3))
    return made

  def play(self, sampler, questions, group=1, **other) -> types.Groups:
    """Plays questions; `other` replaces a part of this world."""
    settings = {
      name: other.pop(name) for name in ('tools', 'watch') if name in other
    }
    world = dataclasses.replace(self, **other)
    return engine.rollout(
      sampler,
      world.environment,
      questions,
      world.resolve,
      world.tokenizer,
      group=group,
      limits=world.limits,
      **settings,
    )


@pytest.fixture(scope='session')
def world():
  environment = search_r1.SearchR1(
    wording.WORDS,
    max_turns=3,
    topk=1,
    max_observation=8,
    shorten=functools.partial(tokenizers.shorten, TOKENIZER),
  )
  config = configs.DecoderConfig(
    vocabulary=len(TOKENIZER.token_bytes),
    width=16,
    layers=2,
    heads=2,
    kv_heads=1,
    head_width=8,
    mlp_width=24,
    rope_base=100.0,
    embedding_std=0.5,  # large enough that no distribution is near uniform
    remat=configs.Remat.NOTHING,  # compiles faster
  )
  model = decoder.make_model(config)
  passages = {
    'ada': 'bob bob who',
    'bob': 'ada who bob ada who bob ada bob ada',
  }
  return World(
    model,
    jax.jit(model.init)(jax.random.key(0)),
    environment,
    TOKENIZER,
    DictionarySearch(passages, failing=('zed',)),
    engine.Limits(max_new_tokens=TURN_TOKENS, max_tokens=40, context=CONTEXT),
  )


@pytest.fixture(scope='session')
def questions():
  """Eight questions whose prompts have 2 to 9 tokens."""
  words = ('who', 'ada', 'bob') * 3
  return [
    types.Question(f'q{i}', ' '.join(words[: i + 1]), ('bob',))
    for i in range(8)
  ]


@pytest.fixture(scope='session')
def sampler(world):
  """A model policy of 8 rows on one device, its programs shared by tests."""
  return world.policy(rows=8)


@dataclasses.dataclass(frozen=True)
class Parrot:
  """A model that says a script: what follows column c of a row is script[c].

  It has the functions of a decoder that a rollout asks for, and no weights.
  """

  vocabulary: int
  in_place: bool = True

  @property
  def config(self):
    size = self.vocabulary
    return configs.DecoderConfig(size, size, 1, 1, 1, 2, 1, rope_base=1.0)

  def unstack(self, params):
    return params

  def unembedding(self, params):
    return jnp.eye(self.vocabulary)

  def empty_cache(self, rows, capacity):
    empty = (jnp.zeros((rows, 1, 1, capacity, 1)),)
    return caches.Cache(empty, empty, jnp.zeros(rows, jnp.int32))

  def apply_cached(self, params, tokens_AT, count_A, cache, rows_A=None):
    if rows_A is None:
      rows_A = jnp.arange(len(cache.length_R))
    length_A = cache.length_R.at[rows_A].get(mode='clip')
    columns_AT = length_A[:, None] + jnp.arange(tokens_AT.shape[1])[None]
    said_AT = params['script'].at[columns_AT].get(mode='fill', fill_value=0)
    hidden_ATV = 3.0 * jax.nn.one_hot(said_AT, self.vocabulary)
    length_R = cache.length_R.at[rows_A].add(count_A, mode='drop')
    return hidden_ATV, dataclasses.replace(cache, length_R=length_R)


@pytest.fixture(scope='session')
def parrot():
  return Parrot


class Spoken:
  """A policy that says chosen ids, and keeps what it is asked.

  `turns[row][t]` are the ids of turn t of row b * G + g, the last one
  repeated; what exceeds the budget is cut off. Log-probs are -1, -2, ... over
  a turn. `contexts[row]` are the contexts of its turns, one after another.
  """

  def __init__(self, *turns):
    self._turns = turns
    self._asked = []
    self.contexts = collections.defaultdict(list)
    self.budgets, self.ticks, self.released = [], [], []

  @property
  def busy(self):
    return bool(self._asked)

  def ask(self, asked):
    self._asked.append(asked)
    self.contexts[asked.id].append(list(asked.context))

  def advance(self):
    asked, self._asked = self._asked, []
    self.ticks.append([row.id for row in asked])
    return [(row, self._say(row)) for row in asked]

  def _say(self, row):
    turns = self._turns[row.id]
    ids = turns[min(len(row.turns), len(turns) - 1)]
    self.budgets.append(row.budget)
    cut = np.array(ids[: row.budget], np.int32)
    logps = -np.arange(1, len(cut) + 1, dtype=np.float32)
    return policy.Said(cut, logps, stopped=len(ids) <= row.budget)

  def release(self, id):
    self.released.append(id)


@dataclasses.dataclass(frozen=True)
class Stage:
  """The tool loop with policies that say chosen ids, and its surroundings."""

  toy: ToyTokenizer
  environment: search_r1.SearchR1
  resolve: types.Resolver
  limits: engine.Limits
  question: types.Question

  def play(self, spoken, questions=None, group=1, **other) -> types.Groups:
    """Plays a policy; `other` replaces what the stage would use."""
    settings = {'limits': self.limits, 'tokenizer': self.toy, **other}
    return engine.rollout(
      spoken,
      settings.pop('environment', self.environment),
      questions or [self.question],
      settings.pop('resolve', self.resolve),
      settings.pop('tokenizer'),
      group=group,
      **settings,
    )

  def one(self, *said, **other) -> types.Trajectory:
    """The trajectory of a policy whose turns are these texts or ids."""
    ids = [self.toy.encode(x) if isinstance(x, str) else x for x in said]
    ((trajectory,),) = self.play(Spoken(ids), **other)
    return trajectory


@pytest.fixture(scope='session')
def stage():
  toy = ToyTokenizer(
    ('<search>', '</search>', '</', 'search', '>\n', 'he', 'llo', 'hello')
  )
  return Stage(
    toy,
    search_r1.SearchR1(
      wording.WORDS,
      max_turns=3,
      topk=1,
      max_observation=40,
      shorten=functools.partial(tokenizers.shorten, toy),
    ),
    DictionarySearch({'hello': 'a word'}, failing=('broken',)),
    engine.Limits(max_new_tokens=64, max_tokens=512, context=512),
    types.Question('q', 'what', ('a word',)),
  )


@pytest.fixture(scope='session')
def spoken():
  return Spoken
