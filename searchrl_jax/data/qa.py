# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Real question sets, from files in the two layouts in common use.

FlashRAG    {"id", "question", "golden_answers", "metadata"}
Search-R1   {"data_source", "prompt": [messages], "ability",
             "reward_model": {"ground_truth": {"target": answers}},
             "extra_info": {"split", "index"}}

Either may be jsonl or parquet; a row is told by its fields.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from searchrl_jax import types

# A Search-R1 prompt ends with this and the question.
_MARKER = 'Question: '


def read_questions(
  path: str | pathlib.Path, *, corpus: str = ''
) -> tuple[types.Question, ...]:
  """Reads the questions of a file, in order; they are asked of `corpus`.

  Raises:
    ValueError: one line that names the file, the line (jsonl) or row
      (parquet) and what is wrong with it.
  """
  path = pathlib.Path(path)
  readers = {'.jsonl': _json_rows, '.parquet': _parquet_rows}
  if path.suffix not in readers:
    raise ValueError(
      f'{path}: unknown kind of question file {path.suffix!r}: use '
      f'{" or ".join(readers)}'
    )
  if not path.is_file():
    raise ValueError(f'{path}: there is no such question file')
  questions, seen = [], {}
  for where, name, row in readers[path.suffix](path):
    question = _question(row, where, name, path.stem, corpus)
    if question.id in seen:
      raise ValueError(
        f'{where}: question id {question.id!r} was already used at '
        f'{seen[question.id]}; ids must be distinct'
      )
    seen[question.id] = where
    questions.append(question)
  if not questions:
    raise ValueError(f'{path}: the file holds no questions')
  return tuple(questions)


# Both yield (where the row stands, a name for rows without an id, the row).
def _json_rows(path: pathlib.Path) -> Iterator[tuple[str, str, Any]]:
  with path.open('rb') as lines:
    for number, line in enumerate(lines, 1):
      where = f'{path}:{number}'
      if not line.strip():
        continue
      try:
        row = json.loads(line.decode('utf-8-sig'))
      except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f'{where}: broken JSON ({error})') from error
      yield where, f'{path.stem}-{number}', row


def _parquet_rows(path: pathlib.Path) -> Iterator[tuple[str, str, Any]]:
  # Imported here: only parquet files need it, and it takes a while.
  import pyarrow as pa
  from pyarrow import parquet

  try:
    # ParquetFile reads this file alone, whatever its folders are called.
    rows = parquet.ParquetFile(path).read().to_pylist()
  except (pa.ArrowException, OSError) as error:
    reason = str(error).splitlines()[0]
    raise ValueError(f'{path}: not a readable parquet file ({reason})') from (
      error
    )
  for number, row in enumerate(rows):
    yield f'{path}, row {number}', f'{path.stem}-{number}', row


def _question(
  row: Any, where: str, name: str, source: str, corpus: str
) -> types.Question:
  if not isinstance(row, Mapping):
    raise ValueError(
      f'{where}: a question is a JSON object, got {type(row).__name__}'
    )
  if 'question' in row:
    return _from_flashrag(row, where, name, source, corpus)
  if 'prompt' in row:
    return _from_search_r1(row, where, name, source, corpus)
  raise ValueError(
    f"{where}: the row has neither 'question' nor 'prompt', only "
    f'{", ".join(map(str, row)) or "nothing"}'
  )


def _from_flashrag(row, where, name, source, corpus) -> types.Question:
  name = name if row.get('id') is None else str(row['id'])
  metadata = _mapping(row, 'metadata', where)
  return types.Question(
    id=name,
    text=_text(row['question'], where, name),
    answers=_answers(row.get('golden_answers'), 'golden_answers', where, name),
    source=str(metadata.get('source') or source),
    corpus=corpus,
    metadata=metadata,
  )


def _from_search_r1(row, where, name, source, corpus) -> types.Question:
  source = str(row.get('data_source') or source)
  extra = _mapping(row, 'extra_info', where)
  if row.get('id') is not None:
    name = str(row['id'])
  elif extra.get('index') is not None:
    parts = (source, extra.get('split'), extra['index'])
    name = '_'.join(str(part) for part in parts if part is not None)
  truth = _mapping(row, 'reward_model', where)
  truth = _mapping(truth, 'ground_truth', where)
  return types.Question(
    id=name,
    text=_text(_from_prompt(row['prompt'], where, name), where, name),
    answers=_answers(truth.get('target'), 'target', where, name),
    source=source,
    corpus=corpus,
    metadata=extra,
  )


def _from_prompt(prompt: Any, where: str, name: str) -> str:
  """What follows the last "Question: " of the last message."""
  held = isinstance(prompt, list | tuple | np.ndarray)
  messages = list(prompt) if held else [prompt]
  last = messages[-1] if messages else ''
  content = last.get('content') if isinstance(last, Mapping) else last
  content = str(content)
  if _MARKER not in content:
    raise ValueError(
      f'{where}: the prompt of question {name!r} has no "{_MARKER}"'
    )
  return content.rpartition(_MARKER)[2]


def _mapping(row: Mapping[str, Any], field: str, where: str) -> dict[str, Any]:
  """A field that is an object or, empty, missing."""
  value = row.get(field)
  if value is None:
    return {}
  if not isinstance(value, Mapping):
    raise ValueError(
      f'{where}: {field!r} must be an object, got {type(value).__name__}'
    )
  return dict(value)


def _text(value: Any, where: str, name: str) -> str:
  if not isinstance(value, str) or not value.strip():
    raise ValueError(f'{where}: question {name!r} has no text')
  return value.strip()


def _answers(value: Any, field: str, where: str, name: str) -> tuple[str, ...]:
  try:
    answers = texts_of(value)
  except TypeError as error:
    raise ValueError(
      f'{where}: {field!r} of question {name!r}: {error}'
    ) from error
  if not answers:
    raise ValueError(f'{where}: question {name!r} has no answers in {field!r}')
  return answers


def texts_of(value: Any) -> tuple[str, ...]:
  """Texts however they are held: list, tuple, array, or one bare string.

  A bare string is one text, never its characters. Numbers become text;
  blank texts are dropped; None holds none.

  Raises:
    TypeError: for anything else.
  """
  if value is None:
    return ()
  if isinstance(value, np.ndarray):
    value = value.tolist()  # a 0-d array becomes its one element
  if isinstance(value, str | int | float) and not isinstance(value, bool):
    value = [value]
  if not isinstance(value, list | tuple):
    raise TypeError(f'expected a list of texts, got {type(value).__name__}')
  for answer in value:
    if not isinstance(answer, str | int | float) or isinstance(answer, bool):
      raise TypeError(f'expected texts, got {type(answer).__name__}')
  return tuple(text for answer in value if (text := str(answer).strip()))
