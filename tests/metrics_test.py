# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rows survive a kill at any byte, and no step appears twice."""

import glob
import json
import os
import pathlib
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchrl_jax import metrics


def write_rows(path, rows):
  lines = metrics.JsonLines(path)
  for row in rows:
    lines.append(row)
  lines.close()


def test_rows_come_back_as_plain_values(tmp_path):
  path = tmp_path / 'deep' / 'rows.jsonl'
  row = {
    'step': np.int64(3),
    'em': np.float32(0.5),
    'loss': jnp.asarray(2.0),
    'kl': float('nan'),
    'ratio_max': np.float32('inf'),
    'skipped': np.bool_(True),
    'list': (1, np.asarray([1.5, -np.inf])),
    'text': 'a "quote"\n日本語 🙂 | \u2028 \ud800',
  }
  write_rows(path, [row])
  [back] = metrics.read_rows(path)
  assert back == {
    'step': 3,
    'em': 0.5,
    'loss': 2.0,
    'kl': None,
    'ratio_max': None,
    'skipped': True,
    'list': [1, [1.5, None]],
    'text': row['text'],
  }
  assert path.read_bytes().count(b'\n') == 1


def test_a_row_is_on_disk_before_append_returns(tmp_path):
  lines = metrics.JsonLines(tmp_path / 'rows.jsonl')
  lines.append({'step': 0})
  assert list(metrics.read_rows(tmp_path / 'rows.jsonl')) == [{'step': 0}]
  lines.append({'step': 1})
  assert len(list(metrics.read_rows(tmp_path / 'rows.jsonl'))) == 2


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_cut_at_any_byte_then_resumed_holds_each_step_once(
  tmp_path_factory, data
):
  path = tmp_path_factory.mktemp('cut') / 'rows.jsonl'
  rows = [{'step': step, 'text': '🙂' * step} for step in range(6)]
  write_rows(path, rows)
  content = path.read_bytes()
  cut = data.draw(st.integers(0, len(content)))
  next_step = data.draw(st.integers(0, 6))
  path.write_bytes(content[:cut])

  # Whole rows are those whose closing brace was written.
  ends = [i for i, byte in enumerate(content) if byte == ord('\n')]
  whole = sum(cut >= end for end in ends)
  assert list(metrics.read_rows(path)) == rows[:whole]

  lines = metrics.JsonLines(path)
  if data.draw(st.booleans()):
    lines.cut_back(next_step)
    kept = min(whole, next_step)
  else:  # a writer that never cuts back still mends the end of the file
    kept = whole
  for row in rows[kept:]:
    lines.append(row)
  assert list(metrics.read_rows(path)) == rows


def test_cut_back_is_exclusive_and_keeps_bytes(tmp_path):
  path = tmp_path / 'rows.jsonl'
  odd = '{"step":   1, "em": 0.10000}\n'
  path.write_text(
    '{"step": 0}\n' + odd + '{"note": "no step"}\n{"step": 2}\n{"step": 3, "e'
  )
  lines = metrics.JsonLines(path)
  lines.cut_back(2)
  assert path.read_text() == '{"step": 0}\n' + odd + '{"note": "no step"}\n'
  lines.append({'step': 2})
  lines.cut_back(2)  # also while the file is open for appending
  assert path.read_text() == '{"step": 0}\n' + odd + '{"note": "no step"}\n'
  assert [p.name for p in tmp_path.iterdir()] == ['rows.jsonl']


def test_cut_back_of_nothing_makes_nothing(tmp_path):
  metrics.JsonLines(tmp_path / 'rows.jsonl').cut_back(0)
  assert not (tmp_path / 'rows.jsonl').exists()


def test_a_kill_while_cutting_leaves_the_old_file(tmp_path, monkeypatch):
  path = tmp_path / 'rows.jsonl'
  write_rows(path, [{'step': 0}, {'step': 1}])
  before = path.read_bytes()

  def killed(*unused):
    raise KeyboardInterrupt

  monkeypatch.setattr(os, 'replace', killed)
  with pytest.raises(KeyboardInterrupt):
    metrics.JsonLines(path).cut_back(1)
  assert path.read_bytes() == before
  monkeypatch.undo()
  metrics.JsonLines(path).cut_back(1)
  assert list(metrics.read_rows(path)) == [{'step': 0}]


@pytest.mark.parametrize('broken', ['{"step": 1, "e', '', '12', 'nonsense'])
def test_a_broken_line_in_the_middle_is_named(tmp_path, broken):
  path = tmp_path / 'rows.jsonl'
  path.write_text('{"step": 0}\n' + broken + '\n{"step": 2}\n')
  with pytest.raises(ValueError, match='line 2: not a JSON object') as error:
    list(metrics.read_rows(path))
  assert '\n' not in str(error.value)
  with pytest.raises(ValueError, match='line 2'):
    metrics.JsonLines(path).cut_back(9)
  assert path.read_text().count('\n') == 3  # untouched


def test_a_last_line_longer_than_a_block_is_cut_off(tmp_path):
  path = tmp_path / 'rows.jsonl'
  path.write_text('{"step": 0}\n{"text": "' + 'x' * 200_000)
  lines = metrics.JsonLines(path)
  lines.append({'step': 1})
  assert list(metrics.read_rows(path)) == [{'step': 0}, {'step': 1}]


def test_reading_streams(tmp_path):
  """40 MB of rows are cut back with a heap of a few rows."""
  path = tmp_path / 'rows.jsonl'
  with open(path, 'w') as file:
    for step in range(400):
      file.write(json.dumps({'step': step, 'text': 'x' * 100_000}) + '\n')
  script = (
    'import sys, tracemalloc; from searchrl_jax import metrics;'
    'tracemalloc.start(); metrics.JsonLines(sys.argv[1]).cut_back(399);'
    'print(tracemalloc.get_traced_memory()[1])'
  )
  command = [sys.executable, '-c', script, str(path)]
  peak = int(subprocess.run(command, capture_output=True, check=True).stdout)
  assert peak < 4_000_000
  assert sum(1 for _ in metrics.read_rows(path)) == 399


def scalars(workdir):
  """(tag, step, value) of every TensorBoard scalar, purged ones included."""
  from tensorboardX import proto

  found = []
  for path in sorted(glob.glob(str(workdir / 'tensorboard' / '*'))):
    data = pathlib.Path(path).read_bytes()
    while data:
      # A record: uint64 length, uint32 checksum, payload, uint32 checksum.
      size = int.from_bytes(data[:8], 'little')
      event = proto.event_pb2.Event.FromString(data[12 : 12 + size])
      data = data[16 + size :]
      if event.HasField('session_log'):
        found.append(('purge', event.step, event.session_log.status))
      for value in event.summary.value:
        found.append((value.tag, event.step, value.simple_value))
  return found


def test_metrics_go_to_the_file_and_the_board(tmp_path):
  board = metrics.Metrics(tmp_path, next_step=0)
  board.write({'step': 0, 'phase': 'rl', 'em': 0.25, 'kl': float('nan')})
  board.write({'step': 1, 'phase': 'rl', 'em': 0.5, 'kl': None})
  rows = list(metrics.read_rows(tmp_path / 'metrics.jsonl'))
  assert [row['em'] for row in rows] == [0.25, 0.5]  # before it is closed
  board.show({'step': 1, 'n': 7, 'split': 'test'}, group='evaluation/test')
  board.close()
  assert ('rl/em', 1, 0.5) in scalars(tmp_path)
  assert ('evaluation/test/n', 1, 7) in scalars(tmp_path)
  tags = {tag for tag, *_ in scalars(tmp_path)}
  assert tags == {'purge', 'rl/em', 'evaluation/test/n'}
  assert len(list(metrics.read_rows(tmp_path / 'metrics.jsonl'))) == 2


def test_a_resumed_board_purges_what_it_writes_again(tmp_path):
  first = metrics.Metrics(tmp_path, next_step=0)
  for step in range(4):
    first.write({'step': step, 'phase': 'rl', 'em': 0.0})
  first.close()
  again = metrics.Metrics(tmp_path, next_step=2)
  again.write({'step': 2, 'phase': 'rl', 'em': 1.0})
  again.close()
  rows = list(metrics.read_rows(tmp_path / 'metrics.jsonl'))
  assert [(row['step'], row['em']) for row in rows] == [(0, 0), (1, 0), (2, 1)]
  start = 1  # SessionLog.START: readers drop what they hold from its step on
  assert ('purge', 2, start) in scalars(tmp_path)
