# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Jitted functions that know how many programs they have become."""

from collections.abc import Callable

import jax


class Program:
  """`jax.jit(function, **options)`, counting its traces.

  A function is traced once for every new shape or dtype of its arguments, and
  each trace is compiled: a count that stands still means that nothing new was
  compiled. JAX's own counts look at caches that may be emptied meanwhile.

  Attributes:
    compiled: programs so far.
  """

  def __init__(self, function: Callable, **options):
    self.compiled = 0

    def traced(*args):
      self.compiled += 1  # runs while tracing only
      return function(*args)

    # Profiles show programs by this name.
    traced.__name__ = getattr(function, '__name__', 'program')
    self._jitted = jax.jit(traced, **options)

  def __call__(self, *args):
    return self._jitted(*args)
