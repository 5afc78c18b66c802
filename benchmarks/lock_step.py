# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts in lock step: the referee of `ModelPolicy`, and what it is beside.

All rows speak one turn, all wait for the slowest, all read, and so on; the
next conversations begin when the last of the present ones is over. The same
random keys as those of `ModelPolicy` give the same turns.

  row 0   read | turn 0 . . . | read | turn 1       |
  row 1   read | turn 0       | read | turn 1 . . . |
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import time
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from benchmarks import lock_step_programs as programs
from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.rollout import sampling as sampler
from searchrl_jax.rollout import stops
from searchrl_jax.rollout.buckets import pad
from searchrl_jax.rollout.policy import Asked, Said
from searchrl_jax.types import Sampling

_STEP = 256  # lengths above it are rounded up to multiples of it


@dataclasses.dataclass
class Counters:
  """Work done so far."""

  prefilled_tokens: int = 0  # given, or sampled before, run through the model
  decoded_tokens: int = 0
  busy_seconds: float = 0.0  # reading and decoding


class InStep(abc.ABC):
  """Who sits in which row, and that all speak together."""

  def __init__(self, rows: int):
    self.rows = rows
    self.counters = Counters()
    self._waiting: dict[int, Asked] = {}  # for a row, in the order of asking
    self._row: dict[int, int] = {}  # of each living conversation
    self._asked: dict[int, Asked] = {}  # of those that have a row

  @property
  def busy(self) -> bool:
    """Whether all that have a row have asked; if none has, anyone at all."""
    if self._row:
      return len(self._asked) == len(self._row)
    return bool(self._waiting)

  def ask(self, asked: Asked) -> None:
    """Asks for a turn; new conversations wait for a row."""
    if asked.aside or asked.sampling is not None:
      raise ValueError('lock step draws no asides; use ModelPolicy for them.')
    seated = asked.id in self._row
    (self._asked if seated else self._waiting)[asked.id] = asked

  def advance(self) -> list[tuple[Asked, Said]]:
    """One turn of all, once all have asked."""
    if not self.busy:
      return []
    fresh = not self._row
    if fresh:
      self._row = self._seat(list(self._waiting.values()))
      self._asked = {id: self._waiting.pop(id) for id in self._row}
    asked, self._asked = list(self._asked.values()), {}
    began = time.perf_counter()
    said = self._draw({self._row[one.id]: one for one in asked}, fresh=fresh)
    self.counters.busy_seconds += time.perf_counter() - began
    self.counters.decoded_tokens += sum(len(one.tokens) for one in said)
    return list(zip(asked, said, strict=True))

  def release(self, id: int) -> None:
    """Forgets a conversation."""
    for held in (self._waiting, self._row, self._asked):
      held.pop(id, None)
    if not self._row:
      self._forget()

  def _seat(self, waiting: Sequence[Asked]) -> dict[int, int]:
    """Rows of the conversations that begin now, by their ids."""
    return {asked.id: row for row, asked in enumerate(waiting[: self.rows])}

  @abc.abstractmethod
  def _draw(self, asked: Mapping[int, Asked], *, fresh: bool) -> list[Said]:
    """A turn of each of these rows, in order; `fresh` where all begin."""

  @abc.abstractmethod
  def _forget(self) -> None:
    """No conversation is left."""


class LockStep(InStep):
  """A decoder in lock step, on one device.

  Args:
    model, tokenizer, stops, rows, capacity, max_new_tokens: see `ModelPolicy`.
    again: reads the whole context of every row anew before every turn, as
      systems without a cache that lives across turns do. Otherwise a prompt is
      read once for all rollouts that share it, and every reply once.
  """

  def __init__(
    self,
    model,
    tokenizer: tokenizers.Tokenizer,
    stop_strings: Sequence[str],
    *,
    rows: int,
    capacity: int,
    max_new_tokens: int,
    again: bool,
  ):
    super().__init__(rows)
    self._model = model
    self._capacity = capacity
    self._length = max_new_tokens
    self._again = again
    self._group = 1
    self._stop_table = stops.compile_stops(
      stop_strings, tokenizer.token_bytes, tokenizer.eos_ids
    )
    self._unstack = jax.jit(model.unstack)
    self._programs: dict = {}
    self._params = self._key = self._rows = None
    self._sampling = Sampling()
    self._held: list[list[int]] = []  # tokens in each row of the cache

  def load(self, params) -> None:
    """Takes the weights to sample with."""
    self._params = None
    self._params = self._unstack(params)

  def use(self, sampling: Sampling, key) -> None:
    """Sets how, and with which key, the next turns are drawn."""
    self._sampling, self._key = sampling, key

  def warm_up(self, lengths: Sequence[int], group: int = 1) -> None:
    """Compiles, without running it, what reads texts of these lengths."""
    self._group = 1 if self._again else group
    for width in sorted({_width(n, self._capacity) for n in lengths}):
      tokens = np.zeros((self.rows, width), np.int32)
      count = np.zeros(self.rows, np.int32)
      some = slice(None, self.rows // self._group)
      rows = self._compile(*self._to_read(tokens[some], count[some]))[1]
      if not self._again:
        self._compile(
          programs.extend, (self._params, rows, tokens, count, count)
        )
    self._compile(*self._to_decode({}, rows))

  def _seat(self, waiting):
    self._group = 1 if self._again else waiting[0].sharing
    if self.rows % self._group:
      raise ValueError(
        f'{self.rows} rows are not shared out among groups of {self._group}; '
        'use a multiple of it.'
      )
    groups: list[list[Asked]] = []
    for asked in waiting:
      open_ones = (
        group
        for group in groups
        if len(group) < self._group and group[0].context == asked.context
      )
      if (group := next(open_ones, None)) is not None:
        group.append(asked)
      elif len(groups) < self.rows // self._group:
        groups.append([asked])
    return {
      asked.id: b * self._group + g
      for b, group in enumerate(groups)
      for g, asked in enumerate(group)
    }

  def _forget(self):
    self._rows = None

  def _draw(self, asked, *, fresh):
    if fresh or self._again:
      self._rows = None  # its cache goes before the next one comes
      self._read(asked)
    else:
      self._append(asked)
    self._rows, drawn = self._run(*self._to_decode(asked, self._rows))
    drawn = jax.device_get(drawn)
    said = []
    for row in asked:
      n = drawn.count[row]
      self._held[row] += drawn.tokens[row, :n].tolist()
      stopped = bool(drawn.stopped[row])
      said.append(Said(drawn.tokens[row, :n], drawn.logps[row, :n], stopped))
    return said

  def _read(self, asked: Mapping[int, Asked]) -> None:
    """Reads whole contexts, once for every group of rows."""
    given = [[] for _ in range(self.rows // self._group)]
    for row, one in asked.items():
      given[row // self._group] = list(one.context)
    self._held = [list(g) for g in given for _ in range(self._group)]
    tokens_BT, count_B = self._pad(given)
    self._rows = self._run(*self._to_read(tokens_BT, count_B))

  def _append(self, asked: Mapping[int, Asked]) -> None:
    """Reads what is new in each context."""
    keep_R = np.array([len(held) for held in self._held], np.int32)
    given = [[] for _ in range(self.rows)]
    for row, one in asked.items():
      context = list(one.context)
      keep_R[row] = _shared(self._held[row], context)
      given[row] = context[keep_R[row] :]
      self._held[row] = context
    tokens_RT, count_R = self._pad(given)
    args = (self._params, self._rows, tokens_RT, count_R, keep_R)
    self._rows = self._run(programs.extend, args)

  def _pad(self, given: Sequence[Sequence[int]]):
    width = _width(max(map(len, given)), self._capacity)
    tokens, count = pad(given, width)
    self.counters.prefilled_tokens += int(count.sum())
    return tokens, count

  # --- programs: a function, its arguments, what is fixed ---------------------

  def _to_read(self, tokens_BT, count_B):
    fixed = {'group': self._group, 'capacity': self._capacity}
    return programs.prefill, (self._params, tokens_BT, count_B), fixed

  def _to_decode(self, asked: Mapping[int, Asked], rows):
    fields = np.zeros((4, self.rows), np.uint32)
    for row, one in asked.items():
      fields[:, row] = (
        sampler.question_hash(one.question),
        one.rollout,
        len(one.turns),
        one.budget,
      )
    budget_R = fields[3].astype(np.int32)
    args = (self._params, rows, self._key, *fields[:3], budget_R)
    fixed = {'length': self._length, 'sampling': self._sampling}
    return programs.decode, (*args, self._stop_table), fixed

  def _compile(self, function, args, fixed=None):
    """The program for arguments of these shapes, and the shapes it returns."""
    fixed = fixed or {}
    shapes = tuple(leaf.shape for leaf in jax.tree.leaves(args[1:]))
    name = (function, tuple(fixed.items()), shapes)
    if name not in self._programs:
      bound = functools.partial(function, self._model, **fixed)
      donated = () if function is programs.prefill else (1,)
      lowered = jax.jit(bound, donate_argnums=donated).lower(*args)
      self._programs[name] = (lowered.compile(), jax.eval_shape(bound, *args))
    return self._programs[name]

  def _run(self, function, args, fixed=None):
    return self._compile(function, args, fixed)[0](*args)


def _shared(held: Sequence[int], context: Sequence[int]) -> int:
  """Tokens that stay in the cache: what both begin with.

  The last token of a context that is shorter is read again, for its state.
  """
  n = 0
  for one, other in zip(held, context, strict=False):
    if one != other:
      break
    n += 1
  return n if n < len(context) or n == len(held) else n - 1


def _width(length: int, capacity: int) -> int:
  """The next of 16, 24, 32, 48, ..., 256, 512, 768, ...; C at most."""
  size = 16
  while size < min(length, _STEP):
    size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
  if length > _STEP:
    size = -(-length // _STEP) * _STEP
  return min(size, capacity)
