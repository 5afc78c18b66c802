# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The lessons before reinforcement learning: drills, then demonstrations.

drills          half reading aloud, half planning without passages
demonstrations  the scripted expert, noise and all, in fresh worlds
"""

import dataclasses

import ml_collections
import numpy as np

from experiments.data import Data
from searchrl_jax.data import drills
from searchrl_jax.data.expert import Expert, TitleExpert
from searchrl_jax.data.questions import questions
from searchrl_jax.data.world import SPLITS
from searchrl_jax.environments import wording as wordings
from searchrl_jax.environments.recite import Recite
from searchrl_jax.environments.search_r1 import SearchR1
from searchrl_jax.types import Lesson


def drill_lessons(
  config: ml_collections.ConfigDict,
  environment: SearchR1,
  data: Data,
  seed: int,
) -> list[Lesson]:
  """Reading and planning over fresh worlds, in equal shares."""

  def reading(step, count):
    return drills.reading(_world(data, seed, step), step, count)

  planning = dataclasses.replace(environment, wording=wordings.PLANNING)
  planner = drills.Planner(_expert(config, seed))
  return [
    Lesson(
      'reading', Recite(), drills.read_aloud, drills.nothing_found, reading
    ),
    Lesson(
      'planning',
      planning,
      planner,
      drills.nothing_found,
      _asked(config, data, seed),
    ),
  ]


def demonstration_lessons(
  config: ml_collections.ConfigDict,
  environment: SearchR1,
  data: Data,
  seed: int,
) -> list[Lesson]:
  """The expert of the generated world, or of titles that questions name."""
  lessons = config.warm_start.lessons
  if lessons == 'titles':
    return [_titles(environment, data, seed)]
  if lessons != 'world':
    raise ValueError(
      f'warm_start.lessons is {lessons!r}: choose "world" or "titles".'
    )
  expert, asked = _expert(config, seed), _asked(config, data, seed)
  return [Lesson('expert', environment, expert, data.resolve, asked)]


def _titles(environment, data, seed) -> Lesson:
  def drawn(step, count):
    rng = np.random.default_rng((seed, step))
    return [data.train[i] for i in rng.integers(len(data.train), size=count)]

  expert = TitleExpert(environment.max_turns)
  return Lesson('titles', environment, expert, data.resolve, drawn)


def _expert(config, seed) -> Expert:
  section = config.warm_start
  return Expert(
    seed, section.superfluous, section.early, config.environment.max_turns
  )


def _asked(config, data, seed):
  def asked(step, count):
    world = _world(data, seed, step)
    return questions(world, step, count, tuple(config.data.hops))

  return asked


def _world(data: Data, seed: int, step: int):
  """A fresh world of the warm-start split for every step of every seed."""
  span = SPLITS['warm_start']
  return data.worlds.world(span[(seed * 100_003 + step) % len(span)])
