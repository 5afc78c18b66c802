# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rows and lanes, decision by decision.

In timelines a letter is a conversation that speaks, `.` one that rests in its
row, `-` one that asked and has to wait.
"""

import pytest

from searchrl_jax.rollout.scheduler import Scheduler

A, B, C, D, E, F = range(6)


def seated(*ids, aside=False, **sizes):
  """A scheduler of which these ids have asked and were admitted."""
  scheduler = Scheduler(**sizes)
  for id in ids:
    scheduler.ask(id, aside=aside)
  scheduler.admit()
  return scheduler


# --- rows --------------------------------------------------------------------


def test_rows_are_given_in_the_order_of_asking():
  scheduler = Scheduler(rows=2, width=2)
  assert not scheduler.busy
  for id in (B, C, A):
    scheduler.ask(id)
  assert scheduler.busy and scheduler.waiting == 3
  assert scheduler.pick() == []  # nobody speaks without a row
  assert scheduler.admit() == [(B, 0), (C, 1)]
  assert (scheduler.row(B), scheduler.row(C)) == (0, 1)
  assert (scheduler.waiting, scheduler.resting) == (1, 0)
  assert scheduler.admit() == []  # A waits for a row
  assert scheduler.pick() == [B, C]


def test_a_free_row_is_refilled_while_the_others_go_on():
  # row 0   A A A A A
  # row 1   B B C C C    B is over, C begins; A notices nothing
  scheduler = seated(A, B, C, rows=2, width=2)
  assert scheduler.pick() == [A, B]
  scheduler.rest(B)
  scheduler.release(B)
  assert scheduler.admit() == [(C, 1)]
  assert scheduler.pick() == [A, C]
  assert scheduler.row(A) == 0
  with pytest.raises(ValueError, match='no conversation 1'):
    scheduler.row(B)


def test_a_resting_row_is_kept_though_others_wait_for_one():
  scheduler = seated(A, B, rows=1, width=1)
  scheduler.rest(A)
  assert (scheduler.resting, scheduler.waiting) == (1, 1)
  assert not scheduler.busy
  assert scheduler.admit() == [] and scheduler.pick() == []
  scheduler.ask(A)
  assert scheduler.busy and scheduler.pick() == [A]
  assert scheduler.row(A) == 0


def test_who_rests_and_is_over_leaves_its_row():
  scheduler = seated(A, B, rows=1, width=1)
  scheduler.rest(A)
  scheduler.release(A)
  assert scheduler.busy and scheduler.resting == 0
  assert scheduler.admit() == [(B, 0)]


def test_who_is_over_while_it_waits_leaves_the_queue():
  scheduler = seated(A, B, C, rows=1, width=1)
  scheduler.release(B)
  assert scheduler.waiting == 1
  scheduler.release(A)
  assert scheduler.admit() == [(C, 0)]
  scheduler.release(C)
  assert not scheduler.busy and scheduler.waiting == 0


def test_who_is_over_may_come_again_and_queues_like_anyone():
  scheduler = seated(A, B, rows=1, width=1)
  scheduler.release(A)
  scheduler.ask(A)
  assert scheduler.admit() == [(B, 0)]


# --- lanes -------------------------------------------------------------------


def test_a_resting_row_is_overtaken_and_keeps_its_row():
  # row 0   A A . . - A    rests, asks again while B and C speak
  # row 1   B B B B B .
  # row 2   - - C C C C    asked third, speaks as soon as A rests
  scheduler = seated(A, B, C, rows=3, width=2)
  assert scheduler.pick() == [A, B]
  scheduler.rest(A)
  assert scheduler.pick() == [B, C]
  scheduler.ask(A)
  assert scheduler.pick() == [B, C]
  scheduler.rest(B)
  assert scheduler.pick() == [C, A]
  assert [scheduler.row(id) for id in (A, B, C)] == [0, 1, 2]


def test_who_speaks_is_not_interrupted():
  # row 0   A A A
  # row 1   . - -    asked after A, before C
  # row 2   D C C    C asked first of all, but has its row only now
  scheduler = seated(A, B, D, C, rows=3, width=1)
  scheduler.rest(A)
  scheduler.rest(B)
  scheduler.release(D)
  for id in (A, B):
    scheduler.ask(id)
  assert scheduler.pick() == [A]
  assert scheduler.admit() == [(C, 2)]
  assert scheduler.pick() == [A]
  scheduler.rest(A)
  assert scheduler.pick() == [B]


def test_a_lane_is_idle_only_where_nobody_asks():
  scheduler = seated(A, rows=4, width=3)
  assert scheduler.pick() == [A]
  for id in (B, C, D):
    scheduler.ask(id)
  assert scheduler.pick() == [A]
  scheduler.admit()
  assert scheduler.pick() == [A, B, C]
  assert scheduler.pick() == [A, B, C]  # looking changes nothing


# --- places ------------------------------------------------------------------


def test_newcomers_go_where_most_rows_are_free():
  # place 0   rows 0 1 2   A C E
  # place 1   rows 3 4 5   B D
  scheduler = Scheduler(rows=6, width=2, places=2)
  for id in (A, B, C, D, E):
    scheduler.ask(id)
  assert scheduler.admit() == [(A, 0), (B, 3), (C, 1), (D, 4), (E, 2)]
  assert scheduler.pick() == [A, B]  # one lane at each place
  scheduler.release(A)
  scheduler.release(C)
  scheduler.ask(F)
  ((_, row),) = scheduler.admit()
  assert row in (0, 1)  # two free rows against one


def test_a_lane_does_not_help_out_elsewhere():
  # A cache row lies on its device: place 1 is idle while C waits at place 0.
  scheduler = seated(A, B, C, rows=4, width=2, places=2)
  scheduler.rest(B)
  assert scheduler.pick() == [A]
  scheduler.rest(A)
  assert scheduler.pick() == [C]


def test_every_place_keeps_rows_for_asides():
  # n = 2 rows a place, one of them reserved
  scheduler = seated(A, B, C, rows=2, width=2, reserved=2, places=2)
  assert (scheduler.row(A), scheduler.row(B)) == (0, 2)
  assert scheduler.waiting == 1
  scheduler.ask(D, aside=True)
  scheduler.ask(E, aside=True)
  assert scheduler.admit() == [(D, 1), (E, 3)]
  assert scheduler.waiting == 1  # C may have neither


# --- asides ------------------------------------------------------------------


def test_asides_have_a_row_though_all_trajectories_rest():
  # row 0   A . . . A    rests until its aside is over
  # row 1   - D D D -    reserved: B waits for row 0
  scheduler = seated(A, B, rows=1, width=1, reserved=1)
  scheduler.rest(A)
  assert not scheduler.busy
  scheduler.ask(D, aside=True)
  assert scheduler.busy and scheduler.admit() == [(D, 1)]
  assert scheduler.pick() == [D]
  scheduler.rest(D)
  scheduler.release(D)
  scheduler.ask(A)
  assert scheduler.admit() == [] and scheduler.pick() == [A]


def test_asides_are_admitted_first_and_into_any_free_row():
  scheduler = Scheduler(rows=2, width=3, reserved=1)
  for id in (A, B):
    scheduler.ask(id)
  for id in (D, E):
    scheduler.ask(id, aside=True)
  # Asked last, admitted first; B would take the reserved row and may not.
  assert scheduler.admit() == [(D, 0), (E, 1), (A, 2)]
  scheduler.release(E)
  assert scheduler.admit() == [(B, 1)]


def test_an_aside_that_waits_may_be_taken_back():
  scheduler = seated(D, E, F, rows=1, width=2, reserved=1, aside=True)
  assert scheduler.waiting == 1
  scheduler.release(F)
  assert scheduler.waiting == 0
  scheduler.release(D)
  scheduler.ask(A)
  assert scheduler.admit() == [(A, 0)]


# --- misuse ------------------------------------------------------------------


@pytest.mark.parametrize(
  'sizes, words',
  [
    ({'rows': 0, 'width': 1}, 'rollout.rows is 0 .* 1 or more'),
    ({'rows': 3, 'width': 2, 'places': 2}, 'rollout.rows is 3 .*multiple.* 2'),
    ({'rows': 2, 'width': 0}, 'decode_rows is 0 .* 1 or more'),
    ({'rows': 4, 'width': 3, 'places': 2}, 'decode_rows is 3 .*multiple.* 2'),
    ({'rows': 2, 'width': 3}, 'decode_rows is 3 .* 2 rows'),
    ({'rows': 2, 'width': 4, 'reserved': 1}, 'decode_rows is 4 .* 3 rows'),
    ({'rows': 2, 'width': 1, 'reserved': -1}, 'generate_rows is -1 .* 0 or'),
    (
      {'rows': 2, 'width': 2, 'reserved': 1, 'places': 2},
      'generate_rows is 1 .*multiple.* 2',
    ),
    ({'rows': 2, 'width': 2, 'places': 0}, '0 devices'),
  ],
)
def test_sizes_that_cannot_be_meant(sizes, words):
  with pytest.raises(ValueError, match=words) as raised:
    Scheduler(**sizes)
  assert '\n' not in str(raised.value)


@pytest.mark.parametrize(
  'misuse, words',
  [
    (lambda s: s.ask(A), '0 has asked already'),  # it speaks
    (lambda s: s.ask(C), '2 has asked already'),  # it waits for a row
    (lambda s: s.ask(D, aside=True), 'set rollout.generate_rows'),
    (lambda s: s.rest(B), '1 is not speaking'),  # it rests
    (lambda s: s.rest(C), '2 is not speaking'),  # it waits for a row
    (lambda s: s.rest(D), 'no conversation 3'),
    (lambda s: s.row(C), '2 has no row'),
    (lambda s: s.row(D), 'no conversation 3'),
    (lambda s: s.release(D), 'no conversation 3'),
  ],
)
def test_misuse_says_who_and_changes_nothing(misuse, words):
  scheduler = seated(A, B, C, rows=2, width=2)
  scheduler.rest(B)
  with pytest.raises(ValueError, match=words) as raised:
    misuse(scheduler)
  assert '\n' not in str(raised.value)
  assert (scheduler.waiting, scheduler.resting) == (1, 1)
  assert scheduler.pick() == [A] and scheduler.admit() == []


def test_who_is_over_is_unknown():
  scheduler = seated(A, rows=1, width=1)
  scheduler.release(A)
  with pytest.raises(ValueError, match='no conversation 0'):
    scheduler.release(A)
