# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Readers of real question sets, on good rows and on bad ones."""

import json
import os
import pathlib

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from searchrl_jax.data import qa


def jsonl(folder, *rows):
  path = folder / 'set.jsonl'
  lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
  path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
  return path


def flashrag(**changes):
  row = {
    'id': 'nq_1',
    'question': ' who wrote it? ',
    'golden_answers': ['Ada Lovelace', 'Lovelace'],
    'metadata': {'source': 'nq'},
  }
  return row | changes


def search_r1(**changes):
  row = {
    'data_source': 'nq',
    'prompt': [
      {
        'role': 'user',
        'content': 'Answer. Question: example?\nQuestion: who?\n',
      }
    ],
    'ability': 'fact-reasoning',
    'reward_model': {'style': 'rule', 'ground_truth': {'target': ['Ada']}},
    'extra_info': {'split': 'test', 'index': 3},
  }
  return row | changes


def test_flashrag_rows(tmp_path):
  path = jsonl(tmp_path, flashrag(), '', flashrag(id='nq_2', metadata=None))
  first, second = qa.read_questions(path, corpus='wiki')
  assert (first.id, first.text) == ('nq_1', 'who wrote it?')
  assert first.answers == ('Ada Lovelace', 'Lovelace')
  assert (first.source, first.corpus) == ('nq', 'wiki')
  assert first.metadata == {'source': 'nq'}
  assert first.hops == ()
  assert (second.source, second.metadata) == ('set', {})


def test_search_r1_rows(tmp_path):
  path = tmp_path / 'set.parquet'
  other = search_r1(extra_info={'split': 'test', 'index': 4})
  parquet.write_table(pa.Table.from_pylist([search_r1(), other]), path)
  first, second = qa.read_questions(path)
  assert (first.id, second.id) == ('nq_test_3', 'nq_test_4')
  # The last "Question: " counts: earlier ones may be examples.
  assert first.text == 'who?'
  assert first.answers == ('Ada',)
  assert first.source == 'nq'
  assert first.metadata == {'split': 'test', 'index': 3}


def test_a_row_is_told_by_its_fields_not_by_its_file(tmp_path):
  (question,) = qa.read_questions(jsonl(tmp_path, search_r1()))
  assert question.text == 'who?'
  path = tmp_path / 'set.parquet'
  parquet.write_table(pa.Table.from_pylist([flashrag()]), path)
  (question,) = qa.read_questions(path)
  assert question.answers == ('Ada Lovelace', 'Lovelace')


def test_rows_without_an_id_are_named_after_their_place(tmp_path):
  row = flashrag()
  del row['id']
  (question,) = qa.read_questions(jsonl(tmp_path, '', row))
  assert question.id == 'set-2'


def test_integer_ids_become_text(tmp_path):
  (question,) = qa.read_questions(jsonl(tmp_path, flashrag(id=0)))
  assert question.id == '0'


@pytest.mark.parametrize(
  ('held', 'answers'),
  [
    (['Paris', 'Lyon'], ('Paris', 'Lyon')),
    (('Paris', 'Lyon'), ('Paris', 'Lyon')),
    (np.array(['Paris', 'Lyon']), ('Paris', 'Lyon')),
    (np.array(['Paris', 'Lyon'], dtype=object), ('Paris', 'Lyon')),
    (np.array('Paris'), ('Paris',)),
    ('Paris', ('Paris',)),  # not ('P', 'a', 'r', 'i', 's')
    (np.str_('Paris'), ('Paris',)),
    ([1912], ('1912',)),
    (1912, ('1912',)),
    (['', '  ', ' Paris '], ('Paris',)),
    ('', ()),
    ([], ()),
    (None, ()),
    (np.array([]), ()),
  ],
)
def test_texts_however_they_are_held(held, answers):
  assert qa.texts_of(held) == answers


@pytest.mark.parametrize('held', [{'a': 1}, [['Paris']], [None], True, [True]])
def test_what_is_no_text(held):
  with pytest.raises(TypeError, match='expected'):
    qa.texts_of(held)


@pytest.mark.parametrize(
  ('rows', 'message'),
  [
    ([flashrag(), '{"id": "x", "ques'], r'set\.jsonl:2: broken JSON'),
    (['[1, 2]'], r':1: a question is a JSON object, got list'),
    ([flashrag(golden_answers=[])], r":1: question 'nq_1' has no answers"),
    ([flashrag(golden_answers='')], r":1: question 'nq_1' has no answers"),
    ([{'id': 'x', 'question': 'who?'}], r"question 'x' has no answers"),
    ([flashrag(golden_answers={'a': 1})], r"'golden_answers' of question 'nq"),
    ([flashrag(question='  ')], r":1: question 'nq_1' has no text"),
    ([flashrag(question=None)], r":1: question 'nq_1' has no text"),
    ([flashrag(metadata='x')], r":1: 'metadata' must be an object, got str"),
    (
      [{'id': 'x', 'text': 'who?'}],
      r':1: the row has neither .* only id, text',
    ),
    ([{}], r':1: the row has neither .* only nothing'),
    ([flashrag(), flashrag()], r":2: question id 'nq_1' was already used at"),
    ([search_r1(prompt='who?')], r"question 'nq_test_3' has no \"Question: \""),
    ([search_r1(prompt=[])], r"question 'nq_test_3' has no \"Question: \""),
    ([search_r1(prompt=7)], r"question 'nq_test_3' has no \"Question: \""),
    ([search_r1(reward_model=None)], r"'nq_test_3' has no answers in 'target'"),
    ([search_r1(reward_model=[1])], r"'reward_model' must be an object"),
    (['', ' '], r'set\.jsonl: the file holds no questions'),
  ],
)
def test_bad_rows_are_named_in_one_line(tmp_path, rows, message):
  path = jsonl(tmp_path, *rows)
  with pytest.raises(ValueError, match=message) as caught:
    qa.read_questions(path)
  assert '\n' not in str(caught.value)
  assert str(path) in str(caught.value)


def test_bad_files_are_named_in_one_line(tmp_path):
  (tmp_path / 'set.csv').write_text('question,answer\n')
  (tmp_path / 'bytes.jsonl').write_bytes(b'{"id": "\xff"}\n')
  (tmp_path / 'set.parquet').write_text('no parquet')
  (tmp_path / 'empty.jsonl').write_text('')
  cases = {
    'set.csv': r"unknown kind of question file '\.csv'",
    'bytes.jsonl': r'bytes\.jsonl:1: broken JSON',
    'set.parquet': r'not a readable parquet file',
    'empty.jsonl': r'the file holds no questions',
    'none.jsonl': r'there is no such question file',
  }
  for name, message in cases.items():
    with pytest.raises(ValueError, match=message) as caught:
      qa.read_questions(tmp_path / name)
    assert '\n' not in str(caught.value)


def test_bad_parquet_rows_are_named(tmp_path):
  path = tmp_path / 'set.parquet'
  rows = [flashrag(), flashrag(id='nq_2', golden_answers=[])]
  parquet.write_table(pa.Table.from_pylist(rows), path)
  with pytest.raises(ValueError, match=r"parquet, row 1: question 'nq_2'"):
    qa.read_questions(path)


def test_real_questions():
  beside = pathlib.Path(__file__).parents[2] / '..' / 'shared' / 'data'
  root = pathlib.Path(os.environ.get('SEARCHRL_DATA', beside))
  path = root / '2wiki' / 'questions.jsonl'
  if not path.is_file():
    pytest.skip(f'no real questions at {path}: set SEARCHRL_DATA')
  drawn = qa.read_questions(path, corpus='2wiki')
  assert len(drawn) == 44
  assert {q.source for q in drawn} == {'2wikimultihopqa'}
  assert all(q.metadata['mentioned_titles'] for q in drawn)
  assert all(q.text.endswith('?') for q in drawn)
