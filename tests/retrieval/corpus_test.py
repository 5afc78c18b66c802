# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Corpora of both layouts are read; a broken line is named by its number."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax import types
from searchrl_jax.retrieval import corpus

EVAN = {'id': '0', 'contents': '"Evan Morris"\nEvan was\na lobbyist.'}
PARIS = {'id': 7, 'title': 'Paris', 'text': 'Paris is a city.'}


def written(path, *lines):
  lines = [x if isinstance(x, str) else json.dumps(x) for x in lines]
  path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
  return path


def test_both_layouts_give_documents(tmp_path):
  read = corpus.read_corpus(written(tmp_path / 'c.jsonl', EVAN, PARIS))
  assert read == (
    types.Document('0', 'Evan Morris', 'Evan was\na lobbyist.'),
    types.Document('7', 'Paris', 'Paris is a city.'),
  )


def test_gzip_reads_as_plain(tmp_path):
  plain = written(tmp_path / 'c.jsonl', EVAN, PARIS)
  packed = tmp_path / 'c.jsonl.gz'
  packed.write_bytes(gzip.compress(plain.read_bytes()))
  assert corpus.read_corpus(packed) == corpus.read_corpus(plain)


def test_a_cut_gzip_file_is_one_line(tmp_path):
  path = tmp_path / 'c.jsonl.gz'
  path.write_bytes(gzip.compress(json.dumps(EVAN).encode())[:-9])
  with pytest.raises(ValueError, match='not a complete gzip file'):
    corpus.read_corpus(path)


def test_only_the_outer_quotes_belong_to_the_format():
  record = {'id': '1', 'contents': '""Weird Al" Yankovic"\nA singer.'}
  assert corpus.document_of(record, 'here').title == '"Weird Al" Yankovic'
  record = {'id': '1', 'contents': '"Heroes" (album)\nBy Bowie.'}
  assert corpus.document_of(record, 'here').title == '"Heroes" (album)'


@given(
  title=st.text().filter(lambda x: '\n' not in x and x == x.strip()),
  text=st.text(),
)
def test_contents_is_the_inverse_of_reading(title, text):
  document = types.Document('5', title, text)
  record = {'id': '5', 'contents': document.contents}
  assert corpus.document_of(record, 'here') == document


@pytest.mark.parametrize(
  ('line', 'message'),
  [
    ('', r'c\.jsonl:2: the line is blank'),
    ('{"id": "1", "contents": ', r'c\.jsonl:2: not a JSON object'),
    ('["1"]', r'c\.jsonl:2: not a JSON object but list'),
    ('{"contents": "x"}', r'c\.jsonl:2: the passage has no "id"'),
    ('{"id": "1", "title": "x"}', r'c\.jsonl:2: the passage needs "contents"'),
    ('{"id": "1", "contents": 3}', r'c\.jsonl:2: .* must be strings'),
    (EVAN, r'c\.jsonl:2: the id "0" occurs twice'),
  ],
)
def test_errors_are_one_line_with_the_line_number(tmp_path, line, message):
  path = written(tmp_path / 'c.jsonl', EVAN, line, PARIS)
  with pytest.raises(ValueError, match=message) as error:
    corpus.read_corpus(path)
  assert '\n' not in str(error.value)


def test_bytes_that_are_no_text_are_named_by_line(tmp_path):
  path = tmp_path / 'c.jsonl'
  path.write_bytes(json.dumps(EVAN).encode() + b'\n{"id": "\xff"}\n')
  with pytest.raises(ValueError, match=r'c\.jsonl:2: not a JSON object'):
    corpus.read_corpus(path)


def test_an_empty_or_missing_corpus_is_an_error(tmp_path):
  (tmp_path / 'c.jsonl').touch()
  with pytest.raises(ValueError, match='the corpus is empty'):
    corpus.read_corpus(tmp_path / 'c.jsonl')
  with pytest.raises(ValueError, match='no such corpus file'):
    corpus.read_corpus(tmp_path / 'other.jsonl')
