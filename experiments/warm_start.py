# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What the lessons of all grammars share, before reinforcement learning.

drills          half reading aloud, half planning without passages
demonstrations  the scripted expert, noise and all, in fresh worlds
"""

from collections.abc import Callable, Sequence

import ml_collections
import numpy as np

from experiments.data import Data
from searchrl_jax.data import drills
from searchrl_jax.data.questions import questions
from searchrl_jax.data.world import SPLITS
from searchrl_jax.environments.recite import Recite
from searchrl_jax.types import Lesson, Question

# (step, count) -> the questions of a step.
Asked = Callable[[int, int], Sequence[Question]]

_LESSONS = ('world', 'titles')
_WORDINGS = ('words', 'natural')


def lessons_name(config: ml_collections.ConfigDict) -> str:
  """Whose demonstrations are shown.

  Raises:
    ValueError: there are no such lessons.
  """
  return _one_of('warm_start.lessons', config.warm_start.lessons, _LESSONS)


def wording_name(config: ml_collections.ConfigDict) -> str:
  """How the environment of a config speaks.

  Raises:
    ValueError: there is no such wording.
  """
  name = config.environment.wording
  return _one_of('environment.wording', name, _WORDINGS)


def _one_of(key: str, name: str, known: Sequence[str]) -> str:
  if name not in known:
    choice = ' or '.join(f'"{one}"' for one in known)
    raise ValueError(f'{key} is {name!r}: choose {choice}.')
  return name


def reading_lesson(data: Data, seed: int) -> Lesson:
  """Passages of fresh worlds, read aloud."""

  def reading(step, count):
    return drills.reading(_world(data, seed, step), step, count)

  return Lesson(
    'reading', Recite(), drills.read_aloud, drills.nothing_found, reading
  )


def asked(config: ml_collections.ConfigDict, data: Data, seed: int) -> Asked:
  """Questions of a fresh world for every step."""

  def ask(step, count):
    world = _world(data, seed, step)
    return questions(world, step, count, tuple(config.data.hops))

  return ask


def drawn(data: Data, seed: int) -> Asked:
  """Training questions, drawn anew for every step."""

  def draw(step, count):
    rng = np.random.default_rng((seed, step))
    return [data.train[i] for i in rng.integers(len(data.train), size=count)]

  return draw


def _world(data: Data, seed: int, step: int):
  """A fresh world of the warm-start split for every step of every seed."""
  span = SPLITS['warm_start']
  return data.worlds.world(span[(seed * 100_003 + step) % len(span)])
