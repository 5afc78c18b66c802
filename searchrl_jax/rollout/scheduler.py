# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Which conversations have a row, and which of them decode next.

Decisions only: no tokens, no devices, no clock. A conversation asks to speak;
it is given a row when one is free, speaks when it is its turn, and rests in
its row while the world answers.

  R = 5, W = 2        row 0   a  speaks ◄─┐ W lanes: those that asked first
                      row 1   b  speaks ◄─┘
                      row 2   c  asked
                      row 3   d  rests: waits for its tools, costs nothing
                      row 4   e  rests
  queue   f g h       as soon as a row is free

First come, first served: nobody is overtaken at a place by one who asked there
later, and so nobody waits for ever. Who comes from the queue asks there when it
is given its row: it must not interrupt a turn that has begun.
"""

import dataclasses
from collections import deque


@dataclasses.dataclass
class _Seat:
  """A conversation that has asked at least once."""

  aside: bool
  row: int | None = None
  asked: bool = True


class Scheduler:
  """Shares rows among conversations, and lanes among rows.

  Places are devices with rows of their own: place p has the row numbers
  [p * n, (p + 1) * n), n = (rows + reserved) / places.

  Args:
    rows: R, for trajectories.
    width: W, rows that decode at a time.
    reserved: rows that only asides (`Generate` requests) take. Without one,
      trajectories that all wait for their asides would wait for ever.
    places: over which all three are divided evenly.

  Raises:
    ValueError: numbers that cannot be meant.
  """

  def __init__(
    self, rows: int, width: int, *, reserved: int = 0, places: int = 1
  ):
    if places < 1:
      raise ValueError(f'rows are split over {places} devices; give 1 or more.')
    for name, value, least in (
      ('rollout.rows', rows, 1),
      ('rollout.decode_rows', width, 1),
      ('rollout.generate_rows', reserved, 0),
    ):
      if value < least or value % places:
        raise ValueError(
          f'{name} is {value} and must be {least} or more, and a multiple of '
          f'the {places} devices that rows are split over.'
        )
    if width > rows + reserved:
      raise ValueError(
        f'rollout.decode_rows is {width} and there are {rows + reserved} rows; '
        'choose no more than those.'
      )
    self._width = width // places
    self._most = rows // places  # trajectories at a place
    self._size = (rows + reserved) // places
    self._reserved = reserved
    self._free = [
      deque(range(p * self._size, (p + 1) * self._size)) for p in range(places)
    ]
    self._trajectories = [0] * places
    self._seats: dict[int, _Seat] = {}
    self._queues = {True: deque(), False: deque()}  # by whether an aside
    # Those that asked and have a row, at each place in the order of asking.
    self._ready: list[dict[int, None]] = [{} for _ in range(places)]

  # --- conversations ---------------------------------------------------------

  def ask(self, id: int, *, aside: bool = False) -> None:
    """A conversation wants to speak; it gets a row when one is free.

    Raises:
      ValueError: it has asked already, or is an aside and no row is reserved.
    """
    if aside and not self._reserved:
      raise ValueError(
        'the environment asks the policy itself and no row is kept for that; '
        'set rollout.generate_rows to 1 or more.'
      )
    seat = self._seats.get(id)
    if seat is None:
      self._seats[id] = _Seat(aside)
      self._queues[aside].append(id)
      return
    if seat.asked:
      raise ValueError(f'conversation {id} has asked already.')
    seat.asked = True
    self._ready[self._place(seat)][id] = None

  def rest(self, id: int) -> None:
    """Its turn is said: it keeps its row and is not picked until it asks."""
    seat = self._known(id)
    if seat.row is None or not seat.asked:
      raise ValueError(f'conversation {id} is not speaking.')
    seat.asked = False
    del self._ready[self._place(seat)][id]

  def release(self, id: int) -> None:
    """It is over: gives up its row, or its place in the queue."""
    seat = self._known(id)
    del self._seats[id]
    if seat.row is None:
      self._queues[seat.aside].remove(id)
      return
    place = self._place(seat)
    self._ready[place].pop(id, None)
    self._free[place].append(seat.row)
    self._trajectories[place] -= not seat.aside

  def row(self, id: int) -> int:
    """The row of a conversation that has one; ValueError where it has none."""
    seat = self._known(id)
    if seat.row is None:
      raise ValueError(f'conversation {id} has no row yet.')
    return seat.row

  # --- decisions -------------------------------------------------------------

  def admit(self) -> list[tuple[int, int]]:
    """Gives free rows to those who wait for one: (id, row).

    Asides first, since a trajectory rests until they are over.
    """
    admitted = []
    for aside in (True, False):
      queue = self._queues[aside]
      while queue and (place := self._roomiest(aside)) is not None:
        id, row = queue.popleft(), self._free[place].popleft()
        self._seats[id].row = row
        self._trajectories[place] += not aside
        self._ready[place][id] = None
        admitted.append((id, row))
    return admitted

  def pick(self) -> list[int]:
    """Who decodes next: W / places at each place, those that asked first."""
    return [
      id
      for ready in self._ready
      for id, _ in zip(ready, range(self._width), strict=False)
    ]

  @property
  def resting(self) -> int:
    """Conversations that have a row and did not ask."""
    return len(self._seats) - self.waiting - sum(map(len, self._ready))

  @property
  def waiting(self) -> int:
    """Conversations that asked and have no row."""
    return sum(map(len, self._queues.values()))

  @property
  def busy(self) -> bool:
    """Whether `admit` or `pick` would return something."""
    return any(self._ready) or any(
      queue and self._roomiest(aside) is not None
      for aside, queue in self._queues.items()
    )

  # --- places ----------------------------------------------------------------

  def _roomiest(self, aside: bool) -> int | None:
    """The place with most rows for one more; the first of equals."""
    rooms = [
      len(free) if aside else min(len(free), self._most - held)
      for free, held in zip(self._free, self._trajectories, strict=True)
    ]
    most = max(rooms)
    return rooms.index(most) if most > 0 else None

  def _place(self, seat: _Seat) -> int:
    return seat.row // self._size

  def _known(self, id: int) -> _Seat:
    if id not in self._seats:
      raise ValueError(f'there is no conversation {id}.')
    return self._seats[id]
