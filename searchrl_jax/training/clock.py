# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Where the time goes: wall seconds by activity, compilation kept apart."""

import contextlib
import time
from collections import defaultdict

import jax

# JAX reports every tracing, lowering and compilation under this prefix.
_COMPILATION = '/jax/core/compile/'


class Clock:
  """Adds up wall seconds by activity.

  Compilation happens inside whatever activity first needs a program; its
  seconds are taken out of that activity and booked as `compilation`.
  """

  def __init__(self):
    self.seconds: dict[str, float] = defaultdict(float)
    self._compiled = 0.0
    jax.monitoring.register_event_duration_secs_listener(self._listen)

  def _listen(self, event: str, duration: float, **_) -> None:
    if event.startswith(_COMPILATION):
      self._compiled += duration

  @contextlib.contextmanager
  def __call__(self, activity: str):
    """Times a block; blocks do not nest."""
    began, compiled = time.perf_counter(), self._compiled
    try:
      yield
    finally:
      wall = time.perf_counter() - began
      compilation = min(wall, self._compiled - compiled)
      self.seconds[activity] += wall - compilation
      self.seconds['compilation'] += compilation

  def snapshot(self) -> dict[str, float]:
    return dict(self.seconds)
