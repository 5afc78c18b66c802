# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""How long a decode call puts up with lanes that draw nothing."""

import math

_FORGETTING = 1.1  # a slow round is forgotten after some quick ones


class Patience:
  """Idle lane steps worth as much as one round on the host.

  A call that ends when its idle lanes have cost what ending it costs is never
  twice as slow as the best choice in hindsight (the ski rental problem). A
  large model looks up whenever a turn ends, a tiny one when most have ended.
  Only when things happen depends on these times, never what is drawn.
  """

  def __init__(self, width: int):
    self._width = width
    self._round = math.inf
    self._step = math.inf

  def note(self, round_seconds: float, step_seconds: float) -> None:
    """Tells how long the host took, and each step of the call after it."""
    self._round = min(self._round * _FORGETTING, round_seconds)
    self._step = min(self._step * _FORGETTING, step_seconds)

  @property
  def steps(self) -> int:
    """Idle steps of lanes, all together; 1 or more."""
    if math.isinf(self._round):
      return self._width
    ratio = self._round / max(self._step, 1e-9)
    return max(1, min(math.ceil(ratio * self._width), 2**30))
