# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The world is asked on other threads, and may take its time.

Requests of turns that ended together are one call:

  submit [a b c]   ──► resolve([a b c])  in time           a b c answered
  submit [d e]     ──► resolve([d e])    half of the deadline, no answer
                        ├► resolve([d])                     d answered
                        └► resolve([e])   the other half    e failed

so that a request that hangs costs its own trajectory alone, and no more than
its deadline.
"""

import collections
import contextlib
import dataclasses
import math
import queue
import threading
import time
from collections.abc import Hashable, Sequence

from searchrl_jax.types import Failed, Request, Resolver, Result

# Calls that were given up and still hang: each is a thread.
_MOST_ABANDONED = 64
# Seconds that one look into the queue may wait: it refuses infinitely many.
_LONG = 3600.0


@dataclasses.dataclass(frozen=True)
class Tools:
  """How the world is asked.

  Raises ValueError, in one line, for numbers that cannot be meant.
  """

  concurrency: int = 4  # calls at a time
  deadline: float = 60.0  # seconds that a request may take

  def __post_init__(self):
    if not (_is(self.concurrency, int) and self.concurrency >= 1):
      raise ValueError(
        f'tools.concurrency is {self.concurrency!r}; give a whole number of '
        'calls at a time, 1 or more.'
      )
    if not (_is(self.deadline, int, float) and 0 < self.deadline < math.inf):
      raise ValueError(
        f'tools.deadline is {self.deadline!r}; give the seconds that a request '
        'may take, a finite number above 0.'
      )


def _is(value, *kinds) -> bool:
  return isinstance(value, kinds) and not isinstance(value, bool)


@dataclasses.dataclass(eq=False)
class _Call:
  """One call of the resolver."""

  keys: list[Hashable]
  requests: list[Request]
  seconds: float  # that it may take
  ends: float = math.inf  # when it is given up; known once it began


class Requests:
  """Resolves requests off-thread; belongs to the thread that made it.

  A call is in `_waiting`, then in `_running`; one that runs in neither was
  given up, and what it says is not heard.

  Attributes:
    last_seconds: what the last call took that was answered in time; 0 before.
  """

  def __init__(self, resolve: Resolver, tools: Tools = Tools()):
    self._resolve = resolve
    self._tools = tools
    self._lock = threading.Lock()  # of the next three
    self._waiting: collections.deque[_Call] = collections.deque()
    self._running: list[_Call] = []
    self._abandoned = 0
    self._ended: queue.SimpleQueue = queue.SimpleQueue()  # (call, results)
    self._ready: list[tuple[Hashable, Result]] = []
    self._pending = 0
    self._closed = False
    self.last_seconds = 0.0

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self.close()

  @property
  def pending(self) -> int:
    """Requests that `collect` has not answered."""
    return self._pending

  def submit(self, requests: Sequence[tuple[Hashable, Request]]) -> None:
    """Asks for the results of (key, request), all in one call."""
    if self._closed:
      raise ValueError('submit after close; make new Requests.')
    if not requests:
      return
    keys, asked = map(list, zip(*requests, strict=True))
    # A call of one request cannot be parted: it gets all the time at once.
    share = 1 if len(keys) == 1 else 0.5
    self._pending += len(keys)
    with self._lock:
      self._waiting.append(_Call(keys, asked, share * self._tools.deadline))
      self._start()

  def collect(self, wait: float | None) -> list[tuple[Hashable, Result]]:
    """Results that are there, each key once.

    Args:
      wait: seconds to wait for a first one; None for as long as it takes.

    Raises:
      Exception: what the resolver raised.
      ValueError: the resolver returned too many or too few results.
      RuntimeError: too many calls hang.
    """
    until = math.inf if wait is None else time.monotonic() + wait
    self._hear(0.0)
    ends = self._give_up()
    while not self._ready and self._pending and time.monotonic() < until:
      self._hear(min(until, ends) - time.monotonic())
      ends = self._give_up()
    # What was ready before an error is kept for the next time.
    results, self._ready = self._ready, []
    self._pending -= len(results)
    return results

  def close(self) -> None:
    """Waits for nobody: calls under way are not heard any more."""
    self._closed = True
    with self._lock:
      self._waiting.clear()
      self._abandoned += len(self._running)
      self._running.clear()
    self._ended = queue.SimpleQueue()
    self._ready = []
    self._pending = 0

  # --- on the owner's thread -------------------------------------------------

  def _hear(self, wait: float) -> None:
    """Notes the results of calls that ended; waits for a first one."""
    with contextlib.suppress(queue.Empty):
      self._note(*self._ended.get(timeout=max(0.0, min(wait, _LONG))))
      while True:
        self._note(*self._ended.get_nowait())

  def _note(self, call: _Call, got: list[Result] | BaseException) -> None:
    if not isinstance(got, BaseException) and len(got) != len(call.keys):
      got = ValueError(
        f'the resolver returned {len(got)} results for {len(call.keys)} '
        'requests; return one for each, in their order.'
      )
    if isinstance(got, BaseException):
      self._pending -= len(call.keys)
      raise got
    self._ready += zip(call.keys, got, strict=True)

  def _give_up(self) -> float:
    """Gives up the calls that take too long; returns when the next one does."""
    now = time.monotonic()
    with self._lock:
      for call in [call for call in self._running if call.ends <= now]:
        self._running.remove(call)
        self._abandoned += 1
        self._part_or_fail(call)
      self._start()
      abandoned = self._abandoned
      ends = min((call.ends for call in self._running), default=math.inf)
    if abandoned > _MOST_ABANDONED:
      raise RuntimeError(
        f'{abandoned} calls of tools hang; see why the tools do not answer, or '
        'raise tools.deadline.'
      )
    return ends

  def _part_or_fail(self, call: _Call) -> None:
    deadline = self._tools.deadline
    if len(call.keys) == 1:
      why = f'no answer within {deadline:g} s.'
      self._ready += [(key, Failed(why)) for key in call.keys]
      return
    self._waiting.extend(
      _Call([key], [request], deadline - call.seconds)
      for key, request in zip(call.keys, call.requests, strict=True)
    )

  def _start(self) -> None:
    """Starts calls that wait, as many as may run; holds the lock."""
    while self._waiting and len(self._running) < self._tools.concurrency:
      # A daemon: a call that hangs must not keep the process from ending.
      threading.Thread(
        target=self._work, args=(self._next(),), daemon=True
      ).start()

  def _next(self) -> _Call:
    """The call that has waited longest now runs; holds the lock."""
    call = self._waiting.popleft()
    call.ends = time.monotonic() + call.seconds
    self._running.append(call)
    return call

  # --- on a thread of its own ------------------------------------------------

  def _work(self, call: _Call | None) -> None:
    """Runs a call, then those that wait, until none does or it was given up."""
    while call is not None:
      try:
        got = list(self._resolve(call.requests))
      except BaseException as error:  # raised by `collect`
        got = error
      with self._lock:
        if call not in self._running:
          self._abandoned -= 1
          return
        self._running.remove(call)
        self.last_seconds = time.monotonic() - (call.ends - call.seconds)
        self._ended.put((call, got))
        call = self._next() if self._waiting else None
