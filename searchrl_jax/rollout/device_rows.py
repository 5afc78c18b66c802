# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The cache rows of all devices, and the programs that work on them.

A place is a device (or the devices along the axis 'tensor' that decode the
same rows). Every place runs the same programs on rows of its own, with rows
numbered from 0 at each; no collective is needed, and their loops need not run
equally long.

  place 0   rows 0 1 2 3      place 1   rows 0 1 2 3
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from searchrl_jax import sharding
from searchrl_jax.rollout import device
from searchrl_jax.rollout.buckets import pad, pieces, width, widths
from searchrl_jax.rollout.device import ROWS, Lanes
from searchrl_jax.rollout.programs import Program


@dataclasses.dataclass(frozen=True)
class Text:
  """Tokens to append to a row."""

  place: int
  row: int
  tokens: np.ndarray  # [n] int32
  keep: int = 0  # tokens of the row that stay before them

  def cut(self, most: int) -> list['Text']:
    """The same in pieces of at most `most` tokens."""
    return [
      dataclasses.replace(
        self, tokens=self.tokens[start:stop], keep=self.keep + start
      )
      for start, stop in pieces(len(self.tokens), most)
    ]


@dataclasses.dataclass(frozen=True)
class Sizes:
  """How much there is, and is done, at a time; of all places together.

  Attributes:
    rows: cache rows.
    width: W, rows that decode together.
    capacity: C, tokens of a row.
    steps: T, tokens that a lane draws in one call at most.
    append_rows: rows to which one call appends at one place, at most.
    append_tokens: tokens that one call reads at one place, padding included.
  """

  rows: int
  width: int
  capacity: int
  steps: int
  append_rows: int
  append_tokens: int


class DeviceRows:
  """The rows of a model's conversations on the devices of a mesh.

  Attributes:
    places: devices with rows of their own.
    rows: of one place; any higher number stands for padding.
    width: lanes of one place.
    append_rows: rows of one place to which a call appends or copies.
  """

  def __init__(self, model, stop_table, sizes: Sizes, mesh):
    self._model = model
    self._mesh = mesh
    self._stop_table = stop_table
    self._sizes = sizes
    self.places = sharding.row_parts(mesh)
    self.rows = sizes.rows // self.places
    self.width = sizes.width // self.places
    self.append_rows = sizes.append_rows
    self._programs: dict = {}
    # Every device decodes with all of the weights, wherever the learner has
    # them: gathered here, once per phase, instead of at every token.
    self._unstack = jax.jit(
      model.unstack, out_shardings=NamedSharding(mesh, sharding.REPLICATED)
    )
    self._params = None
    self._rows = None  # allocated when first used

  def load(self, params) -> None:
    """Takes the weights, laid out for decoding once."""
    self._params = None  # two copies at a time would be the peak of a run
    self._params = self._unstack(params)

  @property
  def compiled(self) -> int:
    """Programs compiled so far."""
    return sum(program.compiled for program in self._programs.values())

  def read(self, texts: Sequence[Text]) -> None:
    """Appends texts to their rows, each row once.

    Pieces of the same bucket are read together, whoever's they are. The shape
    of a call depends on the bucket alone.
    """
    waiting = [text.cut(self._sizes.append_tokens) for text in texts]
    while waiting := [cuts for cuts in waiting if cuts]:
      buckets = defaultdict(list)
      for cuts in waiting:
        piece = cuts.pop(0)
        columns = width(len(piece.tokens), self._sizes.capacity)
        buckets[columns].append(piece)
      for columns, same in sorted(buckets.items()):
        for batch in self._batches(same, self._appending(columns)):
          self._extend(batch, columns)

  def copy(self, pairs: Sequence[tuple[int, int, int]]) -> None:
    """Copies rows: (place, source, target), no target twice."""
    size = self.append_rows
    for batch in self._batches(pairs, size, place=lambda pair: pair[0]):
      source, target = self._numbers(size), self._numbers(size)
      for i, pair in batch:
        _, source[i], target[i] = pair
      self._copy(source, target)

  def decode(
    self, key, lanes: Lanes, empty: int, patience: int, *, truncated: bool
  ) -> device.Drawn:
    """Draws for lanes `[places * width]`; see `device.decode`."""
    program = self._program(
      functools.partial(device.decode, self._model),
      (P(), ROWS, P(), ROWS, P(), P(), P()),
      (ROWS, ROWS),
      (1,),
      steps=self._sizes.steps,
      truncated=truncated,
    )
    scalars = np.int32(empty), np.int32(patience)
    self._rows, drawn = program(
      self._params, self._living(), key, lanes, *scalars, self._stop_table
    )
    return jax.device_get(drawn)

  def wait(self) -> None:
    """Returns when everything asked for so far is done."""
    jax.block_until_ready(self._rows)

  def widths(self) -> list[int]:
    """Columns of every call that `read` can make."""
    return widths(self._sizes.append_tokens, self._sizes.capacity)

  def warm_up(self) -> None:
    """Compiles what `read` and `copy` can ask for, on rows that are none."""
    for columns in self.widths():
      self._extend([], columns)
    none = self._numbers(self.append_rows)
    self._copy(none, none)

  # --- calls -----------------------------------------------------------------

  def _copy(self, source, target) -> None:
    program = self._program(device.copy, (ROWS, ROWS, ROWS), ROWS, (0,))
    self._rows = program(self._living(), source, target)

  def _extend(self, batch, columns: int) -> None:
    size = self._appending(columns)
    row, keep = self._numbers(size), np.zeros(self.places * size, np.int32)
    tokens = np.zeros((self.places * size, columns), np.int32)
    count = np.zeros(self.places * size, np.int32)
    for i, text in batch:
      row[i], keep[i] = text.row, text.keep
      tokens[i : i + 1], count[i : i + 1] = pad([text.tokens], columns)
    program = self._program(
      functools.partial(device.extend, self._model),
      (P(), ROWS, ROWS, ROWS, ROWS, ROWS),
      ROWS,
      (1,),
    )
    self._rows = program(self._params, self._living(), row, tokens, count, keep)

  def _appending(self, columns: int) -> int:
    """Rows of a place to which a call of so many columns appends."""
    fitting = max(1, self._sizes.append_tokens // columns)
    return min(self.append_rows, fitting)

  def _batches(self, items, size: int, place=lambda text: text.place):
    """Up to `size` items of every place at a time, with their numbers among
    the `places * size` of a call."""
    queues = [[] for _ in range(self.places)]
    for item in items:
      queues[place(item)].append(item)
    while any(queues):
      batch = []
      for p, queue in enumerate(queues):
        taken, queue[:size] = queue[:size], []
        batch += [(p * size + i, item) for i, item in enumerate(taken)]
      yield batch

  def _numbers(self, size: int) -> np.ndarray:
    """Row numbers of a call, all of them padding."""
    return np.full(self.places * size, self.rows, np.int32)

  def _living(self) -> device.Rows:
    """The rows, allocated at the first call; handed over, since programs
    write them where they are."""
    if self._rows is None:
      make = functools.partial(
        device.empty, self._model, self.rows, self._sizes.capacity
      )
      sharded = jax.shard_map(
        make, mesh=self._mesh, in_specs=(), out_specs=ROWS, check_vma=False
      )
      self._rows = jax.jit(sharded)()
    rows, self._rows = self._rows, None
    return rows

  def _program(self, function, specs, out_specs, donate: Iterable, **static):
    """A jitted version of a function of `device.py`, one copy a place."""
    inner = getattr(function, 'func', function)
    name = (inner.__name__, *static.items())
    if name not in self._programs:
      sharded = jax.shard_map(
        functools.partial(function, **static),
        mesh=self._mesh,
        in_specs=specs,
        out_specs=out_specs,
        check_vma=False,
      )
      self._programs[name] = Program(sharded, donate_argnums=tuple(donate))
    return self._programs[name]
