# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Questions through grain: random access, shuffled, resumable, endless.

An iterator's state is a small dict (`get_state`, `set_state`), so that a
resumed run meets the very questions that an uninterrupted one would have met,
also across the end of an epoch. Everything happens in this process.
"""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import grain

from searchrl_jax import types
from searchrl_jax.data.questions import questions
from searchrl_jax.data.world import Worlds


class QuestionSource(Protocol):
  """Random access to questions; a list or tuple of them is one too."""

  def __len__(self) -> int:
    """The questions of an epoch."""

  def __getitem__(self, index: int) -> types.Question:
    """The same question for the same index, always."""


@dataclasses.dataclass(frozen=True)
class GeneratedQuestions:
  """`per_world` questions of each world of a split, numbered world by world.

      index   0 1 2 3 | 4 5 6 7 | 8 ..      per_world = 4
      world     s     |  s + 1  | s + 2     s = seeds.start
      hops    1 2 3 1 | 2 3 1 2 | 3 ..      hops = (1, 2, 3)

  Worlds are drawn at random already: read in order, a world serves
  `per_world` questions and is then left behind; shuffling makes a world for
  nearly every question.
  """

  worlds: Worlds
  seeds: range
  per_world: int
  hops: tuple[int, ...] = (1, 2, 3)

  def __post_init__(self):
    if not self.seeds or self.per_world < 1 or not self.hops:
      raise ValueError(
        'generated questions need seeds, per_world of at least 1 and hops, '
        f'got {self.seeds}, {self.per_world} and {self.hops}'
      )

  def __len__(self) -> int:
    return len(self.seeds) * self.per_world

  def __getitem__(self, index: int) -> types.Question:
    place, within = divmod(int(index), self.per_world)
    world = self.worlds.world(self.seeds[place])
    # Go on with the hops where the world before stopped.
    turn = place * self.per_world % len(self.hops)
    hops = self.hops[turn:] + self.hops[:turn]
    return questions(world, 0, within + 1, hops)[within]


def question_iterator(
  source: QuestionSource | Sequence[types.Question],
  *,
  batch: int,
  seed: int,
  shuffle: bool,
  rank: int = 0,
  ranks: int = 1,
) -> grain.DatasetIterator:
  """Batches of questions for ever; every epoch is shuffled differently.

  A batch may span the end of an epoch, so all have the same size. Of several
  processes, each takes every `ranks`-th question.

  Args:
    source: the questions of one epoch.
    batch: questions of a batch of this process.
    seed: of the order, where shuffled.
    shuffle: whether to shuffle; else the source's own order.
    rank: this process.
    ranks: the number of processes.

  Returns:
    An iterator over tuples of `batch` questions, with `get_state` and
    `set_state`.

  Raises:
    ValueError: for a source without questions or an impossible batch or rank.
  """
  if not len(source):
    raise ValueError('there are no questions to iterate over')
  if batch < 1 or not 0 <= rank < ranks:
    raise ValueError(
      'need a batch of at least 1 and rank below ranks, got '
      f'batch {batch}, rank {rank}, ranks {ranks}'
    )
  dataset = grain.MapDataset.source(source).seed(seed)
  if shuffle:
    dataset = dataset.shuffle()
  # Repeated before it is batched: no short batch ends an epoch. There is no
  # remainder to drop; asking for it keeps grain's count of batches an integer.
  dataset = dataset.repeat()[rank::ranks]
  dataset = dataset.batch(batch, drop_remainder=True, batch_fn=tuple)
  # No threads: questions are in memory or cheap, and order stays simple.
  options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
  return iter(dataset.to_iter_dataset(options))
