# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rows and lanes under a scripted clock.

Conversations ask, speak for so many ticks, rest while their tools and asides
take their time, ask again, end or leave. A referee sits between them and the
scheduler and judges every decision by a book of its own.

  ticks       0 1 2 3 4 5 6
  row 0       a a . . . a a     a tool of three ticks
  row 1       b b b . b b b     one that fails after one tick
"""

import collections
import dataclasses
import functools
import itertools

import hypothesis
import hypothesis.strategies as st

from searchrl_jax.rollout.scheduler import Scheduler

DEADLINE = 9  # ticks, after which who hangs goes on without an answer


@dataclasses.dataclass(frozen=True)
class Sizes:
  """What a scheduler is made of; all but `places` at each place."""

  rows: int
  width: int
  reserved: int = 0
  places: int = 1

  @property
  def size(self):
    return self.rows + self.reserved

  def scheduler(self):
    per_place = (self.rows, self.width, self.reserved)
    rows, width, reserved = (n * self.places for n in per_place)
    return Scheduler(rows, width, reserved=reserved, places=self.places)


@dataclasses.dataclass(frozen=True)
class Turn:
  """A turn and what it waits for afterwards.

  A tool that fails is one that answers: it takes its time, and on it goes.
  """

  ticks: int  # that it speaks
  tool: int = 0  # ticks until its tool answers, or fails
  asides: tuple[int, ...] = ()  # ticks that each of its asides speaks


@dataclasses.dataclass(frozen=True)
class Talk:
  """A conversation."""

  turns: tuple[Turn, ...]
  start: int = 0
  leaves: int | None = None  # ticks after its start, whatever it does then


class Referee:
  """A scheduler whose every decision is judged."""

  def __init__(self, sizes):
    self.sizes = sizes
    self.scheduler = sizes.scheduler()
    self.queue = []  # of those without a row, in the order of asking
    self.asides = set()
    self.rows = {}  # by id
    self.ready = []  # have a row and asked, in the order of asking there
    self.speaking = set()
    self.begun = {}  # by id: turns begun at its place while it waits there

  def place(self, id):
    return self.rows[id] // self.sizes.size

  def ask(self, id, aside=False):
    self.scheduler.ask(id, aside=aside)
    if aside:
      self.asides.add(id)
    if id in self.rows:
      self._at_its_place(id)
    else:
      self.queue.append(id)

  def _at_its_place(self, id):
    self.ready.append(id)
    self.begun[id] = 0

  def rest(self, id):
    self.scheduler.rest(id)
    self._hushed(id)

  def release(self, id):
    self.scheduler.release(id)
    if id in self.queue:
      self.queue.remove(id)
    if id in self.ready:
      self._hushed(id)
    self.rows.pop(id, None)

  def _hushed(self, id):
    self.ready.remove(id)
    self.speaking.discard(id)

  def room(self, aside):
    """Rows at each place that one more could be given."""
    rooms = []
    for place in range(self.sizes.places):
      there = {id for id in self.rows if self.place(id) == place}
      free = self.sizes.size - len(there)
      most = self.sizes.rows - len(there - self.asides)
      assert free >= 0 and most >= 0
      rooms.append(free if aside else min(free, most))
    return rooms

  def admit(self):
    admitted = self.scheduler.admit()
    for id, row in admitted:
      asides_first = sorted(self.queue, key=lambda i: i not in self.asides)
      assert id == asides_first[0]
      assert row not in self.rows.values()
      assert 0 <= row < self.sizes.size * self.sizes.places
      rooms = self.room(id in self.asides)
      assert row // self.sizes.size == rooms.index(max(rooms))
      self.queue.remove(id)
      self.rows[id] = row
      self._at_its_place(id)
    for id in self.queue:  # nobody waits for a row it could have
      assert max(self.room(id in self.asides)) == 0
    return admitted

  def pick(self):
    picked = self.scheduler.pick()
    assert len(set(picked)) == len(picked)
    for place in range(self.sizes.places):
      ready = [id for id in self.ready if self.place(id) == place]
      there = [id for id in picked if self.place(id) == place]
      # First come, first served, on as many lanes as there can be.
      assert there == ready[: self.sizes.width]
    assert self.speaking <= set(picked)  # no turn is interrupted
    for id in [id for id in picked if id not in self.speaking]:
      self._begin(id)
    return picked

  def _begin(self, id):
    """Nobody waits for more turns than there are other rows at its place."""
    assert self.begun[id] < self.sizes.size
    self.speaking.add(id)
    for other in set(self.ready) - self.speaking:
      self.begun[other] += self.place(other) == self.place(id)

  def check(self):
    """What the scheduler says about itself."""
    assert self.scheduler.waiting == len(self.queue)
    assert self.scheduler.resting == len(self.rows) - len(self.ready)
    assert all(self.scheduler.row(id) == row for id, row in self.rows.items())


class Play:
  """Plays talks, tick by tick, until all are over.

  Attributes:
    said: by talk, the ticks spoken of each of its turns.
    ended: by talk, the tick at which it was over.
    decisions: who was admitted and who was picked, by tick.
  """

  def __init__(self, sizes, *talks):
    self.referee = Referee(sizes)
    self.talks = talks
    self.due = collections.defaultdict(list)  # by tick
    self.tick = 0
    self.left = {}  # by id: ticks of its turn that are to come
    self.parents = {}  # of asides
    self.pending = {}  # by talk: answers that it waits for
    self.new_ids = itertools.count(len(talks))
    self.said = [[] for _ in talks]
    self.ended = {}
    self.decisions = []
    for id, talk in enumerate(talks):
      self._later(talk.start, self._ask, id)
      if talk.leaves is not None:
        self._later(talk.start + talk.leaves, self._leave, id)
    while len(self.ended) < len(talks):
      self._advance()

  def _later(self, ticks, act, id):
    self.due[self.tick + ticks].append(functools.partial(act, id))

  def _advance(self):
    for act in self.due.pop(self.tick, ()):
      act()
    referee, busy = self.referee, self.referee.scheduler.busy
    admitted, picked = referee.admit(), referee.pick()
    assert busy == bool(admitted or picked)
    referee.check()
    self.decisions.append((admitted, picked))
    for id in picked:
      self._speak(id)
    over = len(self.ended) == len(self.talks)
    assert picked or self.due or over, 'everybody waits, for nothing'
    self.tick += 1

  def _turn(self, id):
    return self.talks[id].turns[len(self.said[id])]

  def _ask(self, id):
    self.left[id] = self._turn(id).ticks
    self.referee.ask(id)

  def _speak(self, id):
    self.left[id] -= 1
    if self.left[id]:
      return
    self.referee.rest(id)
    if id in self.parents:
      self.referee.release(id)
      self._answer(self.parents.pop(id))
      return
    turn = self._turn(id)
    self.said[id].append(turn.ticks)
    self.pending[id] = 1 + len(turn.asides)
    self._later(1 + min(turn.tool, DEADLINE), self._answer, id)
    for ticks in turn.asides:
      aside = next(self.new_ids)
      self.parents[aside], self.left[aside] = id, ticks
      self.referee.ask(aside, aside=True)

  def _answer(self, id):
    if id in self.ended:
      return  # it left, the answer comes too late
    self.pending[id] -= 1
    if self.pending[id]:
      return
    if len(self.said[id]) < len(self.talks[id].turns):
      self._ask(id)
    else:
      self._end(id)

  def _leave(self, id):
    if id not in self.ended:
      for aside in [a for a, parent in self.parents.items() if parent == id]:
        del self.parents[aside]
        self.referee.release(aside)
      self._end(id)

  def _end(self, id):
    self.referee.release(id)
    self.ended[id] = self.tick


@st.composite
def scripts(draw, leave):
  """Sizes and talks; `leave`: some of them end before their time."""
  rows, reserved = draw(st.integers(1, 4)), draw(st.integers(0, 2))
  width = draw(st.integers(1, rows + reserved))
  sizes = Sizes(rows, width, reserved, places=draw(st.integers(1, 3)))
  ticks = st.integers(1, 4)
  tools = st.integers(0, 5) | st.just(10**6)  # some hang
  asides = st.lists(ticks, max_size=2 if reserved else 0).map(tuple)
  turns = st.lists(
    st.builds(Turn, ticks, tools, asides), min_size=1, max_size=4
  )
  leaves = st.none() | st.integers(0, 25) if leave else st.none()
  talk = st.builds(Talk, turns.map(tuple), st.integers(0, 6), leaves)
  return sizes, draw(st.lists(talk, min_size=1, max_size=14))


# --- properties --------------------------------------------------------------


@hypothesis.settings(deadline=None)
@hypothesis.given(scripts(leave=False))
def test_everyone_says_everything_once(script):
  sizes, talks = script
  play = Play(sizes, *talks)
  turns = [turn for talk in talks for turn in talk.turns]
  assert play.said == [[turn.ticks for turn in talk.turns] for talk in talks]
  # No tick was spoken twice or by nobody, and all rows are free again.
  spoken = sum(len(picked) for _, picked in play.decisions)
  work = sum(turn.ticks + sum(turn.asides) for turn in turns)
  assert spoken == work
  assert not play.referee.rows and not play.referee.queue
  # Somebody speaks, or a tool works: nothing else takes time.
  tools = sum(1 + min(turn.tool, DEADLINE) for turn in turns)
  assert play.tick <= max(talk.start for talk in talks) + work + tools + 1


@hypothesis.settings(deadline=None)
@hypothesis.given(scripts(leave=True))
def test_who_leaves_at_any_time_holds_up_nobody(script):
  sizes, talks = script
  play = Play(sizes, *talks)
  for said, talk in zip(play.said, talks, strict=True):
    all_said = [turn.ticks for turn in talk.turns]
    if talk.leaves is None:
      assert said == all_said
    else:
      assert said == all_said[: len(said)]
  assert not play.referee.rows and not play.referee.queue


@hypothesis.settings(deadline=None, max_examples=50)
@hypothesis.given(scripts(leave=True))
def test_the_same_script_is_played_the_same_way(script):
  sizes, talks = script
  assert Play(sizes, *talks).decisions == Play(sizes, *talks).decisions


# --- stories -----------------------------------------------------------------


def ends(sizes, *talks):
  """The tick at which each talk is over."""
  play = Play(sizes, *talks)
  return [play.ended[id] for id in range(len(talks))]


def test_more_rows_than_lanes_hide_the_time_of_tools():
  # one row    a . . a . . b . . b . .
  # two rows   a . . a . .
  #              b . . b . .
  talk = Talk((Turn(1, tool=2), Turn(1, tool=2)))
  assert ends(Sizes(rows=1, width=1), talk, talk) == [6, 12]
  assert ends(Sizes(rows=2, width=1), talk, talk) == [6, 7]


def test_who_hangs_costs_its_own_row_alone():
  # row 0   a . . . . . . . . . a    hangs up to the deadline, and goes on
  # row 1   b b c c d d
  hangs = Talk((Turn(1, tool=10**6), Turn(1)))
  others = [Talk((Turn(2),))] * 3
  sizes = Sizes(rows=2, width=2)
  assert ends(sizes, hangs, *others) == [11, 2, 4, 6]


def test_trajectories_that_all_wait_for_asides_do_not_wait_for_ever():
  # row 0   a . . . - - c .    each rests until its aside has been heard
  # row 1   - b . . . . - d
  # row 2     - x x y y   -    reserved
  talk = Talk((Turn(1, asides=(2,)),))
  one_lane = Play(Sizes(rows=2, width=1, reserved=1), *[talk] * 5)
  assert sorted(one_lane.ended) == [0, 1, 2, 3, 4]
  assert one_lane.tick >= 5 * 3  # one lane, and it never stood still
  assert all(picked for _, picked in one_lane.decisions[:15])
