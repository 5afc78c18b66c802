# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What an experiment must know of its conversation before anything is built."""

import dataclasses
from collections.abc import Callable

import ml_collections

from experiments.data import Data
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
