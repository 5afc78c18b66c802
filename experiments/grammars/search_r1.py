# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The Search-R1 conversation: think, search, read, answer."""

import dataclasses

import ml_collections

from experiments import warm_start
from experiments.data import Data
from experiments.grammars.grammar import Grammar, conversation, worded
from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.data import drills
from searchrl_jax.data.expert import Expert, TitleExpert
from searchrl_jax.environments import wording as wordings
from searchrl_jax.environments.search_r1 import SearchR1
from searchrl_jax.rewards import format
from searchrl_jax.types import Lesson


def make_wording(config: ml_collections.ConfigDict) -> wordings.Wording:
  """How the environment speaks, with the user's template where one is given.

  Raises:
    ValueError: there is no such wording or template.
  """
  known = {'words': wordings.WORDS, 'natural': wordings.NATURAL}
  return worded(config, known, wordings.template_from)


def make_environment(
  config: ml_collections.ConfigDict, tokenizer: tokenizers.Tokenizer
) -> SearchR1:
  """The Search-R1 conversation of a config."""
  return SearchR1(
    make_wording(config),
    **conversation(config, tokenizer),
  )


def _words(config) -> tuple[str, ...]:
  return wordings.words_of(make_wording(config))


def _drills(config, environment: SearchR1, data: Data, seed) -> list[Lesson]:
  """Reading and planning over fresh worlds, in equal shares."""
  # The prompt is that of the conversation, a user's own included.
  template = environment.wording.template
  wording = dataclasses.replace(wordings.PLANNING, template=template)
  planning = Lesson(
    'planning',
    dataclasses.replace(environment, wording=wording),
    drills.Planner(_expert(config, seed)),
    drills.nothing_found,
    warm_start.asked(config, data, seed),
  )
  return [warm_start.reading_lesson(data, seed), planning]


def _demonstrations(config, environment, data: Data, seed) -> list[Lesson]:
  """The expert of the generated world, or of titles that questions name."""
  if warm_start.lessons_name(config) == 'titles':
    expert = TitleExpert(environment.max_turns)
    drawn = warm_start.drawn(data, seed)
    return [Lesson('titles', environment, expert, data.resolve, drawn)]
  expert, asked = _expert(config, seed), warm_start.asked(config, data, seed)
  return [Lesson('expert', environment, expert, data.resolve, asked)]


def _expert(config, seed) -> Expert:
  section = config.warm_start
  return Expert(
    seed, section.superfluous, section.early, config.environment.max_turns
  )


SEARCH_R1 = Grammar(
  'search_r1',
  words=_words,
  environment=make_environment,
  drills=_drills,
  demonstrations=_demonstrations,
  formed=format.well_formed,
)
