# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Who is answered, when, and by which call.

Tools here wait for events, not for time; a deadline is short where it is to
pass and an hour where it must not. A request is `Open(name)`, its answer is
the name in capitals.
"""

import random
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchrl_jax.rollout import requests as module
from searchrl_jax.rollout.requests import Requests, Tools
from searchrl_jax.types import Failed, Open

NEVER = 3600.0
ENOUGH = 30.0  # seconds that even a busy machine does not need


def answers(requests):
  return [request.url.upper() for request in requests]


def asked(*names):
  return [(name, Open(name)) for name in names]


class World:
  """A resolver that hangs where it is told to, and counts.

  Attributes:
    calls: what each call was asked for, in the order of beginning.
    most: calls that ran at the same time.
  """

  def __init__(self, hangs=(), only=None):
    self.calls, self.most = [], 0
    self.release = threading.Event()
    self._hangs, self._only = set(hangs), only
    self._now, self._lock = 0, threading.Lock()

  def __call__(self, requests):
    names = [request.url for request in requests]
    with self._lock:
      self.calls.append(names)
      self._now += 1
      self.most = max(self.most, self._now)
    hangs = self._hangs & set(names)
    if hangs and (self._only is None or len(names) == self._only):
      self.release.wait(ENOUGH)
    with self._lock:
      self._now -= 1
    return answers(requests)


@pytest.fixture
def start():
  """Requests of a resolver; at the end nothing hangs any more."""
  made = []

  def make(resolve, concurrency=4, deadline=NEVER):
    made.append((resolve, Requests(resolve, Tools(concurrency, deadline))))
    return made[-1][1]

  yield make
  for resolve, requests in made:
    requests.close()
    if isinstance(resolve, World):
      resolve.release.set()


def collect_all(requests):
  """Everything that is pending, in the order of arrival."""
  results = []
  while requests.pending:
    results += requests.collect(None)
  return results


def eventually(what):
  """Waits until something holds."""
  until = time.monotonic() + ENOUGH
  while not what():
    assert time.monotonic() < until
    time.sleep(0.001)


# --- settings ----------------------------------------------------------------


@pytest.mark.parametrize('bad', [0, -1, 2.0, True, '4', None])
def test_concurrency_is_a_whole_number_of_calls(bad):
  with pytest.raises(ValueError, match=r'^tools\.concurrency is .*; give .*$'):
    Tools(concurrency=bad)


@pytest.mark.parametrize(
  'bad', [0, -1.0, float('nan'), float('inf'), True, '60', None]
)
def test_the_deadline_is_finite_and_above_0(bad):
  with pytest.raises(ValueError, match=r'^tools\.deadline is .*; give .*$'):
    Tools(deadline=bad)


def test_whole_seconds_will_do():
  assert Tools(4, 60) == Tools()


# --- answers -----------------------------------------------------------------


def test_one_submit_is_one_call_and_results_come_with_their_keys(start):
  world = World()
  requests = start(world)
  requests.submit([((7, 1), Open('a')), ((3, 0), Open('b'))])
  assert requests.pending == 2
  assert requests.collect(None) == [((7, 1), 'A'), ((3, 0), 'B')]
  assert world.calls == [['a', 'b']]
  assert requests.pending == 0


def test_the_resolver_runs_on_another_thread(start):
  requests = start(lambda asked: [threading.get_ident() for _ in asked])
  requests.submit(asked('a'))
  ((_, thread),) = requests.collect(None)
  assert thread != threading.get_ident()


def test_failed_results_are_results(start):
  requests = start(lambda _: [Failed('no tool'), ''])
  requests.submit(asked('a', 'b'))
  assert requests.collect(None) == [('a', Failed('no tool')), ('b', '')]


def test_collect_waits_as_long_as_it_is_told(start):
  world = World(hangs='a')
  requests = start(world)
  requests.submit([])
  assert world.calls == []
  assert requests.collect(None) == []  # nothing is pending
  assert requests.collect(NEVER) == []
  requests.submit(asked('a'))
  assert requests.collect(0.0) == []
  began = time.monotonic()
  assert requests.collect(0.02) == []
  assert time.monotonic() - began >= 0.02
  threading.Timer(0.02, world.release.set).start()
  assert requests.collect(None) == [('a', 'A')]


def test_a_slow_call_does_not_hold_up_the_others(start):
  world = World(hangs='a')
  requests = start(world, concurrency=2)
  requests.submit(asked('a'))
  for name in 'bcd':
    requests.submit(asked(name))
    assert requests.collect(None) == [(name, name.upper())]
  world.release.set()
  assert requests.collect(None) == [('a', 'A')]


# --- concurrency -------------------------------------------------------------


def test_calls_run_side_by_side_as_many_as_may(start):
  names = 'abcdefg'
  world = World(hangs=names)
  requests = start(world, concurrency=3)
  for name in names:
    requests.submit(asked(name))
  eventually(lambda: len(world.calls) == 3)
  world.release.set()
  assert dict(collect_all(requests)) == {n: n.upper() for n in names}
  assert world.most == 3


def test_a_call_that_waits_begins_though_nobody_collects(start):
  world = World()
  requests = start(world, concurrency=1)
  for name in 'abc':
    requests.submit(asked(name))
  eventually(lambda: len(world.calls) == 3)
  assert world.calls == [['a'], ['b'], ['c']] and world.most == 1
  assert collect_all(requests) == [('a', 'A'), ('b', 'B'), ('c', 'C')]


def test_time_in_the_queue_counts_for_nobody(start):
  # deadline |---------|
  # a        xxxxxxxxxx|         hangs and fails
  # b                  |B        waited for as long as it may take
  world = World(hangs='a')
  requests = start(world, concurrency=1, deadline=0.3)
  requests.submit(asked('a'))
  requests.submit(asked('b'))
  results = collect_all(requests)
  assert results == [('a', Failed('no answer within 0.3 s.')), ('b', 'B')]


def test_an_answer_in_time_counts_though_it_is_collected_late(start):
  world = World()
  requests = start(world, deadline=0.02)
  requests.submit(asked('a'))
  eventually(lambda: not requests._running)
  time.sleep(0.02)
  assert requests.collect(0.0) == [('a', 'A')]


# --- deadlines ---------------------------------------------------------------


def test_a_request_alone_gets_the_whole_deadline_and_fails(start):
  world = World(hangs='a')
  requests = start(world, deadline=0.1)
  began = time.monotonic()
  requests.submit(asked('a'))
  assert requests.collect(None) == [('a', Failed('no answer within 0.1 s.'))]
  assert time.monotonic() - began >= 0.1
  assert world.calls == [['a']]  # and is not asked again


def test_a_request_that_hangs_costs_only_itself(start):
  # [a b c] half of the deadline, then [a] [b] [c] the other half
  world = World(hangs='b')
  requests = start(world, deadline=1.0)
  began = time.monotonic()
  requests.submit(asked('a', 'b', 'c'))
  results = collect_all(requests)
  assert 1.0 <= time.monotonic() - began < 1.5
  assert sorted(results[:2]) == [('a', 'A'), ('c', 'C')]
  assert results[2:] == [('b', Failed('no answer within 1 s.'))]
  assert world.calls[0] == ['a', 'b', 'c']
  assert sorted(world.calls[1:]) == [['a'], ['b'], ['c']]


def test_a_call_that_hangs_may_have_requests_that_do_not(start):
  world = World(hangs='ab', only=2)
  requests = start(world, deadline=1.0)
  requests.submit(asked('a', 'b'))
  assert dict(collect_all(requests)) == {'a': 'A', 'b': 'B'}


def test_calls_that_were_given_up_take_no_place(start):
  world = World(hangs='abc')
  requests = start(world, concurrency=1, deadline=0.02)
  for name in 'abc':
    requests.submit(asked(name))
    assert requests.collect(None)[0][1] == Failed('no answer within 0.02 s.')
  eventually(lambda: world.most == 3)  # all of them still hang


def test_late_answers_are_dropped(start):
  world = World(hangs='a')
  requests = start(world, deadline=0.02)
  requests.submit(asked('a'))
  assert requests.collect(None)[0][1] == Failed('no answer within 0.02 s.')
  world.release.set()
  eventually(lambda: requests._abandoned == 0)
  assert requests.collect(None) == [] and requests.pending == 0


def test_too_many_calls_that_hang_are_an_error(start, monkeypatch):
  monkeypatch.setattr(module, '_MOST_ABANDONED', 3)
  world = World(hangs='abcd')
  requests = start(world, concurrency=8, deadline=0.02)
  for name in 'abcd':
    requests.submit(asked(name))
  with pytest.raises(RuntimeError, match=r'^4 calls .* raise tools\.deadline'):
    for _ in range(4):
      requests.collect(None)
  world.release.set()
  eventually(lambda: requests._abandoned == 0)
  requests.collect(0.0)  # the threads are back: it goes on


# --- errors ------------------------------------------------------------------


def test_an_exception_arrives_as_itself_and_the_others_are_answered(start):
  error = KeyError('broken')

  def resolve(requests):
    if requests[0].url == 'a':
      raise error
    return answers(requests)

  requests = start(resolve, concurrency=1)
  for names in ('b', 'a', 'c'):
    requests.submit(asked(names))
  seen = {}
  with pytest.raises(KeyError) as raised:
    while True:
      seen.update(requests.collect(None))
  assert raised.value is error
  seen.update(collect_all(requests))
  assert seen == {'b': 'B', 'c': 'C'}


@pytest.mark.parametrize('count', [0, 1, 3])
def test_a_wrong_number_of_results_is_an_error(start, count):
  requests = start(lambda _: ['x'] * count)
  requests.submit(asked('a', 'b'))
  with pytest.raises(ValueError, match=f'returned {count} results for 2 req'):
    requests.collect(None)
  assert requests.collect(None) == []


# --- the end -----------------------------------------------------------------


def test_close_waits_for_nobody(start):
  world = World(hangs='ab')
  requests = start(world, concurrency=1)
  requests.submit(asked('a'))
  requests.submit(asked('b'))
  eventually(lambda: world.calls)
  requests.close()
  requests.close()
  assert requests.pending == 0 and requests.collect(None) == []
  with pytest.raises(ValueError, match='submit after close'):
    requests.submit(asked('c'))
  world.release.set()
  eventually(lambda: requests._abandoned == 0)
  assert world.calls == [['a']]  # what had not begun does not begin


def test_leaving_the_block_closes():
  with Requests(answers) as requests:
    pass
  with pytest.raises(ValueError, match='submit after close'):
    requests.submit(asked('a'))


def test_a_process_whose_tool_hangs_ends():
  # A stand-in for `types`: the real one imports JAX, which takes seconds.
  program = """
import sys, threading, types
fake = types.ModuleType('searchrl_jax.types')
fake.Failed = fake.Request = fake.Resolver = fake.Result = str
sys.modules['searchrl_jax.types'] = fake
from searchrl_jax.rollout.requests import Requests
began = threading.Event()
def resolve(_):
  began.set()
  threading.Event().wait()
requests = Requests(resolve)
requests.submit([(0, 'a')])
began.wait()
"""
  subprocess.run([sys.executable, '-c', program], timeout=ENOUGH, check=True)


# --- whatever happens --------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(
  sizes=st.lists(st.integers(0, 4), min_size=1, max_size=6),
  concurrency=st.integers(1, 3),
  seed=st.integers(0, 2**32 - 1),
)
def test_every_key_comes_exactly_once(sizes, concurrency, seed):
  draw = random.Random(seed)
  release = threading.Event()
  keys = [(i, j) for i, size in enumerate(sizes) for j in range(size)]
  fate = {
    key: draw.choices(['quick', 'slow', 'fails', 'hangs'], [5, 3, 2, 1])[0]
    for key in keys
  }

  def resolve(requests):
    fates = [fate[request.url] for request in requests]
    release.wait(ENOUGH if 'hangs' in fates else 0.003 * fates.count('slow'))
    return [
      Failed('broken') if fate[request.url] == 'fails' else request.url
      for request in requests
    ]

  results = []
  with Requests(resolve, Tools(concurrency, 0.02)) as requests:
    for i, size in enumerate(sizes):
      requests.submit([((i, j), Open((i, j))) for j in range(size)])
      results += requests.collect(draw.choice([0.0, 0.002]))
    results += collect_all(requests)
    assert requests.pending == 0
  release.set()
  assert sorted(key for key, _ in results) == keys
  for key, result in results:
    # A busy machine may be late; nobody gets another one's answer.
    assert result == key or isinstance(result, Failed)
    if fate[key] == 'hangs':
      assert result == Failed('no answer within 0.02 s.')
