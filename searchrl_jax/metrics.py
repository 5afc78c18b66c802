# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of numbers as JSON lines that survive a kill, and TensorBoard.

Three files of a workdir are written by `JsonLines`: `metrics.jsonl`,
`traces.jsonl`, `evaluation.jsonl`. One rule holds for all of them: a *last*
line that is not a whole JSON object is a line whose writing was interrupted.
Readers skip it and the next writer cuts it off. A broken line anywhere else
is an error that names the line. Files are streamed, never read whole.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorboardX

Row = Mapping[str, Any]


def plain(value: Any) -> Any:
  """Turns a value into what JSON can hold.

  Numbers that are not finite become None, since JSON has no word for them.
  Arrays and tuples become lists, dataclasses become dictionaries, and an
  object JSON knows nothing of becomes its string.
  """
  if value is None or isinstance(value, bool | str):
    return str(value) if isinstance(value, str) else value
  if isinstance(value, int):
    return int(value)
  if isinstance(value, float):
    return float(value) if math.isfinite(value) else None
  if isinstance(value, Mapping):
    return {str(key): plain(item) for key, item in value.items()}
  if isinstance(value, list | tuple):
    return [plain(item) for item in value]
  if dataclasses.is_dataclass(value):
    names = [field.name for field in dataclasses.fields(value)]
    return {name: plain(getattr(value, name)) for name in names}
  if isinstance(value, np.generic) or hasattr(value, '__array__'):
    return plain(np.asarray(value).tolist())
  return str(value)


def read_rows(path: str | os.PathLike) -> Iterator[dict]:
  """Streams the rows of a file of JSON lines, in order.

  Raises:
    ValueError: a line other than the last is not a JSON object.
  """
  return (row for _, row in _whole_lines(pathlib.Path(path)))


class JsonLines:
  """An append-only file of JSON lines, one row a line, flushed every row.

  A row reaches the operating system before `append` returns, so that it
  outlives the process, killed or not. Lines are ASCII: a cut never splits a
  character and no text can bring a line break of its own.
  """

  def __init__(self, path: str | os.PathLike):
    self.path = pathlib.Path(path)
    self._file = None

  def append(self, row: Row) -> None:
    """Writes one row, after cutting off what an interrupted writer left."""
    if self._file is None:
      self.path.parent.mkdir(parents=True, exist_ok=True)
      _mend_end(self.path)
      self._file = open(self.path, 'ab', buffering=0)  # noqa: SIM115
    line = json.dumps(plain(row), allow_nan=False) + '\n'
    self._file.write(line.encode('ascii'))

  def cut_back(self, next_step: int) -> None:
    """Drops what a resumed run will write again: keeps `step < next_step`.

    `next_step` is the step the resumed run begins with: rows of its own are
    dropped, those of the checkpoint's step before it stay. Rows without a
    step are kept.
    """
    self.keep(lambda row: row.get('step') is None or row['step'] < next_step)

  def keep(self, wanted: Callable[[dict], bool]) -> None:
    """Keeps the wanted rows, byte for byte, and drops the others.

    Written beside the file and renamed over it: a kill leaves the old file
    or the new one, never half of either. A missing file stays missing.
    """
    self.close()
    if not self.path.exists():
      return
    beside = self.path.with_name(self.path.name + '.cut')
    with open(beside, 'wb') as file:
      for line, row in _whole_lines(self.path):
        if wanted(row):
          # The last line may lack its newline and still be whole.
          file.write(line if line.endswith(b'\n') else line + b'\n')
      file.flush()
      os.fsync(file.fileno())
    os.replace(beside, self.path)

  def close(self) -> None:
    """Closes the file; a later `append` opens it again."""
    if self._file is not None:
      self._file.close()
      self._file = None


class Metrics:
  """`metrics.jsonl` and TensorBoard, written together, row by row.

  Args:
    workdir: where `metrics.jsonl` and `tensorboard/` live.
    next_step: the step this run begins with. Rows from it on, left by a run
      that was killed after its last checkpoint, are dropped from the file
      and purged from TensorBoard, so that no step appears twice.
  """

  def __init__(self, workdir: str | os.PathLike, *, next_step: int):
    workdir = pathlib.Path(workdir)
    self._lines = JsonLines(workdir / 'metrics.jsonl')
    self._lines.cut_back(next_step)
    self._board = tensorboardX.SummaryWriter(
      logdir=str(workdir / 'tensorboard'), purge_step=next_step
    )

  def write(self, row: Row) -> None:
    """Appends a row to `metrics.jsonl` and shows its numbers on the board."""
    self._lines.append(row)
    self.show(row, group=row['phase'])

  def show(self, row: Row, *, group: str) -> None:
    """Shows a row's finite numbers on the board alone, as `group/name`."""
    for name, value in plain(row).items():
      if name != 'step' and isinstance(value, int | float):
        self._board.add_scalar(f'{group}/{name}', value, row['step'])
    self._board.flush()

  def close(self) -> None:
    self._lines.close()
    self._board.close()


def _parse(line: bytes) -> dict | None:
  """The row of a line, None where the line is not a JSON object."""
  try:
    row = json.loads(line.decode('utf-8'))
  except ValueError:
    return None
  return row if isinstance(row, dict) else None


def _whole_lines(path: pathlib.Path) -> Iterator[tuple[bytes, dict]]:
  """Streams (line, row), looking one line ahead to know which is the last."""
  with open(path, 'rb') as file:
    number, line = 1, file.readline()
    while line:
      following = file.readline()
      row = _parse(line)
      if row is None:
        if following:
          raise ValueError(
            f'{path}, line {number}: not a JSON object. Remove the line, or '
            'start again in a fresh workdir.'
          )
        return
      yield line, row
      number, line = number + 1, following


def _mend_end(path: pathlib.Path) -> None:
  """Ends the file with a newline: completes its last line or cuts it off.

  {"step": 0}\\n{"step": 1}      ->  {"step": 0}\\n{"step": 1}\\n
  {"step": 0}\\n{"step": 1, "e   ->  {"step": 0}\\n
  """
  if not path.exists():
    return
  with open(path, 'r+b') as file:
    begin = end = file.seek(0, os.SEEK_END)
    tail = b''
    # Step back until the last newline is in sight: a line may be long.
    while begin > 0 and b'\n' not in tail:
      begin = max(0, begin - 65536)
      file.seek(begin)
      tail = file.read(end - begin)
    last = tail[tail.rfind(b'\n') + 1 :]
    if not last:
      return
    if _parse(last) is None:
      file.truncate(end - len(last))
    else:
      file.seek(end)
      file.write(b'\n')
