# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Questions through grain: unharmed, endless, and resumed exactly."""

import json

import pytest

from searchrl_jax import types
from searchrl_jax.data import pipeline, world

# Seven questions in batches of three: an epoch never ends with a batch.
SEVEN = tuple(
  types.Question(
    id=f'q{i}',
    text=f'who is {i} ?',
    answers=(str(i),),
    hops=(types.Hop('a', 'b', 'c', 'd'),),
    metadata={'hops': 1, 'titles': ['x', 'y']},
  )
  for i in range(7)
)


def iterate(source=SEVEN, batch=3, seed=5, shuffle=True, **ranks):
  return pipeline.question_iterator(
    source, batch=batch, seed=seed, shuffle=shuffle, **ranks
  )


def ids(batches):
  return [question.id for batch in batches for question in batch]


def take(iterator, count):
  return [next(iterator) for _ in range(count)]


def test_questions_pass_unharmed():
  (batch,) = take(iterate(shuffle=False), 1)
  assert batch == SEVEN[:3]
  assert isinstance(batch, tuple)
  assert isinstance(batch[0], types.Question)


def test_epochs_cover_everything_once_and_differ():
  drawn = ids(take(iterate(), 7))  # 21 questions: three epochs
  epochs = [drawn[:7], drawn[7:14], drawn[14:]]
  for epoch in epochs:
    assert sorted(epoch) == [q.id for q in SEVEN]
  assert epochs[0] != epochs[1]
  assert drawn == ids(take(iterate(), 7))
  assert drawn != ids(take(iterate(seed=6), 7))


def test_unshuffled_order_is_the_source_order():
  assert ids(take(iterate(shuffle=False), 3)) == [f'q{i % 7}' for i in range(9)]


@pytest.mark.parametrize('before', [0, 1, 2, 3, 5])
def test_resuming_meets_the_same_questions_also_across_epochs(before):
  # Batches 2 and 4 (from 0) span the ends of the first two epochs.
  whole = ids(take(iterate(), 8))
  first = iterate()
  done = take(first, before)
  state = json.loads(json.dumps(first.get_state()))
  fresh = iterate()
  fresh.set_state(state)
  assert ids(done + take(fresh, 8 - before)) == whole


def test_going_back_to_a_state():
  iterator = iterate()
  take(iterator, 2)
  state = iterator.get_state()
  once = ids(take(iterator, 3))
  iterator.set_state(state)
  assert ids(take(iterator, 3)) == once


def test_processes_share_the_questions():
  whole = ids(take(iterate(batch=1), 12))
  parts = [ids(take(iterate(batch=1, rank=r, ranks=2), 6)) for r in (0, 1)]
  assert parts[0] == whole[0::2]
  assert parts[1] == whole[1::2]


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'source': ()}, 'no questions'),
    ({'batch': 0}, 'batch of at least 1'),
    ({'rank': 2, 'ranks': 2}, 'rank below ranks'),
  ],
)
def test_impossible_iterators(change, message):
  with pytest.raises(ValueError, match=message):
    iterate(**change)


def generated(split='train', per_world=4, hops=(1, 2, 3)):
  worlds = world.Worlds(world.WorldConfig(), keep=4)
  return pipeline.GeneratedQuestions(
    worlds, world.SPLITS[split], per_world, hops
  )


def test_generated_questions_go_world_by_world_with_even_hops():
  source = generated()
  drawn = [source[i] for i in range(12)]
  start = world.SPLITS['train'].start
  assert [q.corpus for q in drawn] == [
    f'world-{start + i // 4}' for i in range(12)
  ]
  assert [len(q.hops) for q in drawn] == [1, 2, 3] * 4
  assert len({q.id for q in drawn}) == 12
  assert len({q.text for q in drawn}) == 12


def test_generated_questions_are_random_access():
  assert generated()[10] == generated()[10]
  source = generated()
  backwards = [source[i] for i in reversed(range(8))]
  assert backwards[::-1] == [generated()[i] for i in range(8)]
  assert len(source) == 4 * len(world.SPLITS['train'])


def test_generated_questions_iterate_and_resume():
  whole = ids(take(iterate(generated(), shuffle=False), 4))
  first = iterate(generated(), shuffle=False)
  done = take(first, 1)
  fresh = iterate(generated(), shuffle=False)
  fresh.set_state(first.get_state())
  assert ids(done + take(fresh, 3)) == whole


def test_the_last_world_of_a_split_and_a_shuffled_split():
  source = generated('test')
  assert source[len(source) - 1].corpus == 'world-39999999'
  corpora = {q.corpus for b in take(iterate(source), 2) for q in b}
  seeds = [world.seed_of(corpus) for corpus in corpora]
  assert all(seed in world.SPLITS['test'] for seed in seeds)
  assert len(corpora) == 6


def test_generated_questions_need_seeds():
  worlds = world.Worlds(world.WorldConfig())
  with pytest.raises(ValueError, match='need seeds'):
    pipeline.GeneratedQuestions(worlds, range(0), 4)
