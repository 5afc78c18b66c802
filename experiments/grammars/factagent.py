# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent's conversation: search, assert, answer, from a store of facts."""

import dataclasses

import ml_collections

from experiments import warm_start
from experiments.data import Data
from experiments.grammars.grammar import Grammar, conversation, worded
from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.data import drills
from searchrl_jax.data.fact_expert import FactExpert, FactPlanner
from searchrl_jax.environments import fact_wording as wordings
from searchrl_jax.environments import recite
from searchrl_jax.environments.factagent import FactAgent
from searchrl_jax.rewards import format
from searchrl_jax.types import Lesson


def make_wording(config: ml_collections.ConfigDict) -> wordings.FactWording:
  """How the environment speaks, with the user's template where one is given.

  Raises:
    ValueError: there is no such wording or template.
  """
  known = {'words': wordings.WORDS, 'natural': wordings.NATURAL}
  return worded(config, known, wordings.template_from)


def make_environment(
  config: ml_collections.ConfigDict, tokenizer: tokenizers.Tokenizer
) -> FactAgent:
  """FactAgent's conversation of a config."""
  return FactAgent(
    make_wording(config),
    max_facts=config.environment.max_facts,
    **conversation(config, tokenizer),
  )


def _words(config) -> tuple[str, ...]:
  said = wordings.words_of(make_wording(config), config.environment.max_facts)
  return (*said, *recite.TAGS)  # passages are read aloud between these


def _drills(config, environment: FactAgent, data: Data, seed) -> list[Lesson]:
  """Reading and planning over fresh worlds, in equal shares."""
  _require_room(config)
  # The prompt is that of the conversation, a user's own included.
  template = environment.wording.template
  wording = dataclasses.replace(wordings.PLANNING, template=template)
  planning = Lesson(
    'planning',
    dataclasses.replace(environment, wording=wording),
    FactPlanner(_expert(config, seed)),
    drills.nothing_found,
    warm_start.asked(config, data, seed),
  )
  return [warm_start.reading_lesson(data, seed), planning]


def _demonstrations(config, environment, data: Data, seed) -> list[Lesson]:
  """The expert of the generated world.

  Raises:
    ValueError: other lessons are asked for.
  """
  if warm_start.lessons_name(config) != 'world':
    raise ValueError(
      'warm_start.lessons is "titles", whose script asserts no facts; choose '
      '"world", or warm_start.sft_steps=0.'
    )
  _require_room(config)
  expert, asked = _expert(config, seed), warm_start.asked(config, data, seed)
  return [Lesson('expert', environment, expert, data.resolve, asked)]


def _require_room(config) -> None:
  """Refuses lessons in which the expert could not do what it knows."""
  hops = max(config.data.hops)
  section = config.environment
  # A search and an Assert for each hop, and the answer.
  if section.max_facts < hops or section.max_turns < 2 * hops + 1:
    raise ValueError(
      f'lessons of {hops} hops need environment.max_facts={hops} and '
      f'environment.max_turns={2 * hops + 1} at least; raise them or ask for '
      'fewer data.hops.'
    )


def _expert(config, seed) -> FactExpert:
  section = config.warm_start
  return FactExpert(
    seed, section.superfluous, section.early, config.environment.max_turns
  )


FACTAGENT = Grammar(
  'factagent',
  words=_words,
  environment=make_environment,
  drills=_drills,
  demonstrations=_demonstrations,
  formed=format.legal,
)
