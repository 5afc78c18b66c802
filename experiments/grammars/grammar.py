# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What an experiment must know of its conversation before anything is built."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import ml_collections

from experiments import warm_start
from experiments.data import Data
from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.tokenizer import Tokenizer
from searchrl_jax.types import Environment, Lesson, Trajectory

# (config, environment, data, seed) -> lessons of a warm start.
MakeLessons = Callable[
  [ml_collections.ConfigDict, Environment, Data, int], list[Lesson]
]


@dataclasses.dataclass(frozen=True)
class Grammar:
  """A conversation, and what teaches it to a policy that knows nothing.

  Attributes:
    name: for people and logs.
    words: config -> the words of the conversation, for a word list as
      tokenizer; those of questions and passages come from the world.
    environment: (config, tokenizer) -> what the agent may say.
    drills: lessons that come first.
    demonstrations: lessons that show whole trajectories.
    formed: whether a trajectory keeps to the form.
  """

  name: str
  words: Callable[[ml_collections.ConfigDict], tuple[str, ...]]
  environment: Callable[[ml_collections.ConfigDict, Tokenizer], Environment]
  drills: MakeLessons
  demonstrations: MakeLessons
  formed: Callable[[Trajectory], bool]


def worded(
  config: ml_collections.ConfigDict,
  known: Mapping[str, Any],
  template_from: Callable[[str], str],
) -> Any:
  """The wording of a config, with the user's template where one is given.

  Raises:
    ValueError: there is no such wording or template.
  """
  wording = known[warm_start.wording_name(config)]
  if not config.environment.template:
    return wording
  template = template_from(config.environment.template)
  return dataclasses.replace(wording, template=template)


def conversation(
  config: ml_collections.ConfigDict, tokenizer: Tokenizer
) -> dict[str, Any]:
  """Keyword arguments that the environments of all grammars take."""
  section = config.environment
  return {
    'max_turns': section.max_turns,
    'topk': section.topk,
    'max_observation': section.max_observation,
    'shorten': functools.partial(tokenizers.shorten, tokenizer),
    'stop_at_malformed': section.stop_at_malformed,
    'stop_at_failed_tool': section.stop_at_failed_tool,
  }
