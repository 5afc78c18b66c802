# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds by activity, compilation kept apart."""

import time

import jax
import jax.numpy as jnp
import pytest

from searchrl_jax.training.clock import Clock


def test_activities_add_up_and_stay_apart():
  clock = Clock()
  began = time.perf_counter()
  for _ in range(2):
    with clock('a'):
      time.sleep(0.02)
  with clock('b'):
    time.sleep(0.01)
  wall = time.perf_counter() - began
  seconds = clock.snapshot()
  assert seconds['a'] >= 0.04
  assert seconds['b'] >= 0.01
  assert sum(seconds.values()) <= wall


def test_compilation_is_taken_out_of_the_activity_that_needed_it():
  clock = Clock()

  @jax.jit
  def slow_to_compile(x):
    for i in range(60):
      x = jnp.sin(x) * (i + 1)
    return x

  began = time.perf_counter()
  with clock('work'):
    slow_to_compile(jnp.ones(3)).block_until_ready()
  wall = time.perf_counter() - began
  first = clock.snapshot()
  assert first['compilation'] > first['work']
  # Nothing is counted twice.
  assert first['compilation'] + first['work'] <= wall
  with clock('work'):
    slow_to_compile(jnp.ones(3)).block_until_ready()
  second = clock.snapshot()
  assert second['compilation'] == first['compilation']


def test_time_is_booked_when_the_activity_fails():
  clock = Clock()
  with pytest.raises(RuntimeError), clock('a'):
    time.sleep(0.01)
    raise RuntimeError
  assert clock.snapshot()['a'] >= 0.01


def test_a_snapshot_does_not_move():
  clock = Clock()
  with clock('a'):
    pass
  before = clock.snapshot()
  kept = dict(before)
  with clock('a'):
    time.sleep(0.01)
  assert before == kept
