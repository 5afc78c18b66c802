# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
r"""Reads a corpus of passages from a jsonl file.

Two layouts of a line, each of which may be gzipped as a whole (`.gz`):

  {"id": "0", "contents": "\"Evan Morris\"\nEvan Morris was ..."}
  {"id": "0", "title": "Evan Morris", "text": "Evan Morris was ..."}
"""

import gzip
import json
import pathlib
from collections.abc import Mapping
from typing import Any, BinaryIO

from searchrl_jax import types


def read_corpus(path: str | pathlib.Path) -> tuple[types.Document, ...]:
  """Reads the passages of a corpus file, in the order of its lines.

  Args:
    path: a jsonl file of the layouts above.

  Returns:
    The passages, with the quotes around a title removed.

  Raises:
    ValueError: in one line that names file and line number, if the file is
      missing, empty or unreadable, or a line is blank, broken, lacks a field
      or repeats an id.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise ValueError(f'{path}: no such corpus file')
  documents = {}
  try:
    with _open(path) as lines:
      for number, line in enumerate(lines, start=1):
        document = _document(line, f'{path}:{number}')
        if document.id in documents:
          raise ValueError(
            f'{path}:{number}: the id "{document.id}" occurs twice; '
            'ids of passages must be unique'
          )
        documents[document.id] = document
  except (gzip.BadGzipFile, EOFError) as error:
    raise ValueError(f'{path}: not a complete gzip file ({error})') from error
  if not documents:
    raise ValueError(f'{path}: the corpus is empty; it needs passages')
  return tuple(documents.values())


def document_of(record: Mapping[str, Any], where: str) -> types.Document:
  """The passage that one JSON object describes.

  Args:
    record: holds `id`, and either `title` and `text`, or `contents`.
    where: what an error message calls the object's place.

  Raises:
    ValueError: where a field is missing or is no string.
  """
  if 'id' not in record:
    raise ValueError(f'{where}: the passage has no "id"')
  if 'title' in record and 'text' in record:
    title, text = record['title'], record['text']
  elif 'contents' in record:
    title, text = record['contents'], ''
    if isinstance(title, str):
      title, _, text = title.partition('\n')
  else:
    raise ValueError(
      f'{where}: the passage needs "contents", or "title" and "text"; it has '
      + ', '.join(f'"{name}"' for name in record)
    )
  if not isinstance(title, str) or not isinstance(text, str):
    raise ValueError(f'{where}: title and text of a passage must be strings')
  return types.Document(str(record['id']), _unquoted(title), text)


def _open(path: pathlib.Path) -> BinaryIO:
  # Bytes, decoded line by line: an error can then name its line.
  return gzip.open(path, 'rb') if path.suffix == '.gz' else path.open('rb')


def _document(line: bytes, where: str) -> types.Document:
  if not line.strip():
    raise ValueError(f'{where}: the line is blank; remove it')
  try:
    record = json.loads(line.decode('utf-8-sig'))
  except ValueError as error:
    raise ValueError(f'{where}: not a JSON object ({error})') from error
  if not isinstance(record, dict):
    raise ValueError(f'{where}: not a JSON object but {type(record).__name__}')
  return document_of(record, where)


def _unquoted(title: str) -> str:
  title = title.strip()
  if len(title) >= 2 and title[0] == title[-1] == '"':
    return title[1:-1]
  return title
