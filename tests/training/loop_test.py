# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The story of a run, told by a learner that only counts.

Its state is a number of updates; everything that happens is written into one
list, so that order is what is tested.
"""

import collections
import contextlib
import dataclasses

import numpy as np
import pytest

from searchrl_jax.training import loop
from searchrl_jax.training.clock import Clock
from searchrl_jax.training.sources import Collected, TrainingStoppedError


@dataclasses.dataclass(frozen=True)
class State:
  """A learner's state: `params` is the number of updates done."""

  params: int = 0


@dataclasses.dataclass
class Run:
  """One call of `train`, and all that it did."""

  phases: tuple = (('drills', 2), ('rl', 3))
  updates: int = 1  # per step
  save_every: int = 2
  max_skipped: int = 9
  bad: tuple = ()  # updates, counted from 0, that are skipped
  events: list = dataclasses.field(default_factory=list)
  clock: Clock = dataclasses.field(default_factory=Clock)

  def go(self, done=0):
    hooks = loop.Hooks(
      log=self.log,
      evaluate=lambda step, phase, in_phase, state: self.events.append(
        ('evaluate', step, phase.name, in_phase, state.params)
      ),
      save=lambda step, state: self.events.append(('save', step, state.params)),
    )
    return loop.train(
      [self.phase(name, steps) for name, steps in self.phases],
      State(done * self.updates),
      done=done,
      clock=self.clock,
      hooks=hooks,
      save_every=self.save_every,
      max_skipped=self.max_skipped,
    )

  def log(self, row):
    self.events.append(('log', row['step'], row))

  def phase(self, name, steps):
    kind = 'rl' if name == 'rl' else 'warm_start'
    run = self

    class Source:
      def collect(self, step, params):
        run.events.append(('collect', step, name, params))
        return Collected(step, step, {'reward': step / 10})

    def begin(state):
      self.events.append(('begin', name))
      return state

    def update(state, batch, targets):
      assert batch == targets
      self.events.append(('update', batch, state.params))
      skipped = int(state.params in self.bad)
      metrics = {'loss': np.float32(state.params), 'skipped': skipped}
      return State(state.params + 1), metrics

    def minibatches(batch, targets):
      return iter([(batch, targets)] * self.updates)

    return loop.Phase(kind, name, steps, Source(), begin, update, minibatches)

  def of(self, *names):
    """Events of these kinds, rows of the log left out."""
    return [
      event[:2] if event[0] == 'log' else event
      for event in self.events
      if event[0] in names
    ]

  @property
  def rows(self):
    return [event[2] for event in self.events if event[0] == 'log']


# --- order -------------------------------------------------------------------


def test_phases_come_in_order_and_begin_once():
  run = Run()
  final = run.go()
  assert final.params == 5
  assert run.of('begin', 'collect') == [
    ('begin', 'drills'),
    ('collect', 1, 'drills', 0),
    ('collect', 2, 'drills', 1),
    ('begin', 'rl'),
    ('collect', 3, 'rl', 2),
    ('collect', 4, 'rl', 3),
    ('collect', 5, 'rl', 4),
  ]


def test_every_step_is_logged_once_in_order():
  run = Run()
  run.go()
  assert [row['step'] for row in run.rows] == [1, 2, 3, 4, 5]
  assert [row['stage'] for row in run.rows] == ['drills'] * 2 + ['rl'] * 3
  assert [row['phase'] for row in run.rows] == ['warm_start'] * 2 + ['rl'] * 3
  # Its own collected numbers beside those of its own update.
  assert [row['reward'] for row in run.rows] == [0.1, 0.2, 0.3, 0.4, 0.5]
  assert [row['loss'] for row in run.rows] == [0, 1, 2, 3, 4]


def test_metrics_are_fetched_one_step_late():
  """The device works on step k + 1 while the numbers of k are written."""
  run = Run(phases=(('rl', 4),), save_every=99)
  run.go()
  assert run.of('update', 'log') == [
    ('update', 1, 0),
    ('update', 2, 1),
    ('log', 1),
    ('update', 3, 2),
    ('log', 2),
    ('update', 4, 3),
    ('log', 3),
    ('log', 4),
  ]


def test_a_checkpoint_comes_after_all_that_carries_its_number():
  run = Run()  # saves every 2 steps, and the last
  run.go()
  assert run.of('save') == [('save', 2, 2), ('save', 4, 4), ('save', 5, 5)]
  for event in run.of('save'):
    at = run.events.index(event)
    before = [(e[0], e[1]) for e in run.events[:at]]
    after = [(e[0], e[1]) for e in run.events[at:]]
    step = event[1]
    assert ('log', step) in before
    assert ('evaluate', step) in before
    assert not {('log', step), ('evaluate', step)} & set(after)


def test_evaluation_is_told_where_in_its_phase_it_is():
  run = Run()
  run.go()
  assert run.of('evaluate') == [
    ('evaluate', 1, 'drills', 1, 1),
    ('evaluate', 2, 'drills', 2, 2),
    ('evaluate', 3, 'rl', 1, 3),
    ('evaluate', 4, 'rl', 2, 4),
    ('evaluate', 5, 'rl', 3, 5),
  ]


# --- going on ----------------------------------------------------------------


def told(run):
  """What happened, without wall seconds."""
  rows = [
    {k: v for k, v in row.items() if not k.startswith('seconds')}
    for row in run.rows
  ]
  return run.of('collect', 'update', 'evaluate', 'save'), rows


@pytest.mark.parametrize('done', range(6))
def test_a_resumed_run_repeats_and_misses_nothing(done):
  whole, rest = Run(), Run()
  whole.go()
  rest.go(done=done)
  events, rows = told(rest)
  all_events, all_rows = told(whole)
  assert events == [event for event in all_events if event[1] > done]
  assert rows == all_rows[done:]
  # Only phases whose first step is ahead begin; done = 2 is between two.
  assert rest.of('begin') == [
    ('begin', name)
    for name, first in (('drills', 1), ('rl', 3))
    if first > done
  ]


def test_a_finished_run_does_nothing():
  run = Run()
  assert run.go(done=5).params == 5
  assert run.events == []


def test_a_phase_without_steps_is_passed_over():
  run = Run(phases=(('drills', 0), ('rl', 2)))
  run.go()
  assert run.of('begin') == [('begin', 'rl')]
  assert [row['step'] for row in run.rows] == [1, 2]


# --- updates that fail -------------------------------------------------------


def test_too_many_skipped_updates_in_a_row_stop_the_run():
  """Steps 2, 3, 4 are bad; two in a row are allowed."""
  run = Run(phases=(('rl', 9),), bad=(1, 2, 3, 4, 5), max_skipped=2)
  with pytest.raises(TrainingStoppedError, match='up to step 4') as error:
    run.go()
  assert '\n' not in str(error.value)
  assert 'last checkpoint is sound' in str(error.value)
  # The workdir of a run takes no other settings.
  assert 'another workdir' in str(error.value)
  # The bad steps are in the log: how it came to this can be read.
  assert [row['skipped'] for row in run.rows] == [0, 1, 1, 1]


def test_a_good_update_forgives_the_bad_ones_before_it():
  run = Run(phases=(('rl', 9),), bad=(1, 2, 4, 5, 7, 8), max_skipped=2)
  run.go()
  assert [row['skipped'] for row in run.rows] == [0, 1, 1, 0, 1, 1, 0, 1, 1]


def test_a_step_with_one_good_update_is_no_bad_step():
  """Two updates a step, the first of each is bad."""
  run = Run(phases=(('rl', 3),), updates=2, bad=(0, 2, 4), max_skipped=0)
  run.go()
  assert [row['skipped'] for row in run.rows] == [1, 1, 1]
  assert [row['loss'] for row in run.rows] == [1, 3, 5]
  run = Run(phases=(('rl', 3),), updates=2, bad=(2, 3), max_skipped=0)
  with pytest.raises(TrainingStoppedError, match='up to step 2'):
    run.go()


# --- numbers of a step -------------------------------------------------------


def test_a_step_of_several_updates_has_one_row():
  run = Run(phases=(('rl', 2),), updates=3)
  run.go()
  assert [row['loss'] for row in run.rows] == [1, 4]  # means of 012 and 345


def test_metrics_of_updates_are_combined():
  """Means of .5 and 1.5; the largest of the maxima; skipped are counted."""
  combined = loop.combine(
    [
      {'loss': 0.5, 'ratio_max': 3.0, 'skipped': 0},
      {'loss': 1.5, 'ratio_max': 2.0, 'skipped': 0},
    ]
  )
  assert combined == {'loss': 1.0, 'ratio_max': 3.0, 'skipped': 0}


def test_a_skipped_update_does_not_hide_the_others():
  combined = loop.combine(
    [
      {'loss': float('nan'), 'ratio_max': float('inf'), 'skipped': 1},
      {'loss': 1.5, 'ratio_max': 2.0, 'skipped': 0},
    ]
  )
  assert combined == {'loss': 1.5, 'ratio_max': 2.0, 'skipped': 1}


def test_where_all_were_skipped_it_shows():
  combined = loop.combine([{'loss': float('nan'), 'skipped': 1}] * 2)
  assert np.isnan(combined['loss'])
  assert combined['skipped'] == 2


def test_seconds_of_the_rows_add_up_to_those_of_the_run():
  run = Run()
  run.go()
  total = sum(run.clock.snapshot().values())
  assert total > 0
  np.testing.assert_allclose(
    sum(row['seconds_total'] for row in run.rows), total
  )
  for row in run.rows:
    np.testing.assert_allclose(
      row['seconds_total'], row['seconds_update'] + row['seconds_compilation']
    )


class Ticks:
  """A clock by which every activity takes one second."""

  def __init__(self):
    self._seconds = collections.defaultdict(float)

  @contextlib.contextmanager
  def __call__(self, activity):
    yield
    self._seconds[activity] += 1.0

  def snapshot(self):
    return dict(self._seconds)


class TimedRun(Run):
  """Books what its sources do."""

  def phase(self, name, steps):
    phase = super().phase(name, steps)
    collect = phase.source.collect

    def timed(step, params):
      with self.clock('rollout'):
        return collect(step, params)

    phase.source.collect = timed
    return phase


@pytest.mark.parametrize('save_every', [1, 2, 99])
def test_a_row_has_the_seconds_of_its_own_step(save_every):
  """Rows are logged in the next step, or before a save. Read off when they
  are logged, a row before a save would have no rollout and the next one two.
  """
  run = TimedRun(save_every=save_every, clock=Ticks())
  run.go()
  assert [row['seconds_rollout'] for row in run.rows] == [1.0] * 5
