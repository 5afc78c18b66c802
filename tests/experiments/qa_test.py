# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Real passages, real questions: learn to search them, from bytes.

SEARCHRL_DATA names the folder of the data; without it nothing runs here.
"""

import json
import pathlib
import re
import unicodedata

import pytest
import Stemmer

from searchrl_jax import metrics, traces
from searchrl_jax.types import Kind

CONFIG = str(
  pathlib.Path(__file__).parents[2] / 'experiments' / 'configs' / 'qa_bytes.py'
)


@pytest.fixture(scope='module')
def searching(start, data, tmp_path_factory):
  """The config as it stands: a short warm start, two steps of GRPO."""
  workdir = tmp_path_factory.mktemp('qa') / 'grpo'
  ended = start(
    'grpo',
    f'--config={CONFIG}',
    f'--config.data.corpus={data}/corpus.jsonl',
    f'--config.data.questions={data}/questions.jsonl',
    f'--workdir={workdir}',
  )
  assert ended.code == 0, ended.err
  return workdir, ended.out


@pytest.fixture(scope='module')
def pages(data):
  rows = [json.loads(x) for x in (data / 'corpus.jsonl').open()]
  return {row['id']: row['contents'] for row in rows}


def stems(text):
  """The stems of a text's words, as the index has them."""
  words = re.findall(r'\w+', unicodedata.normalize('NFC', text).casefold())
  return set(Stemmer.Stemmer('english').stemWords(words))


@pytest.mark.slow
def test_a_policy_of_bytes_finds_real_passages(searching, pages):
  workdir, out = searching
  assert len(pages) == 6119
  rows = list(metrics.read_rows(workdir / 'metrics.jsonl'))
  learning = [row for row in rows if row['phase'] == 'rl']
  assert [row['step'] for row in learning] == [121, 122]
  found = [
    (turn.action.arguments['query'], document)
    for trace in traces.read(workdir / 'traces.jsonl')
    for turn in trace.trajectory.turns
    if turn.action.kind == Kind.SEARCH
    for evidence in turn.evidence
    for document in evidence.documents
  ]
  assert found
  for query, document in found:
    assert document.contents == pages[document.id]
    # BM25 brings what shares the stem of a word with the query.
    assert stems(query) & stems(document.contents)
  # Printed as it is: some searches are well-formed, and some groups differ or
  # do not; nobody chose these numbers.
  searches = sum(row['searches'] for row in learning)
  tried = searches + sum(row['malformed'] for row in learning)
  silent = sum(row['zero_spread_fraction'] for row in learning) / 2
  [line] = [x for x in out.splitlines() if 'well-formed searches' in x]
  assert f'searches {searches / tried:.0%} of the turns' in line
  assert f'zero-spread groups {silent:.0%}' in line
  assert searches > 0


@pytest.mark.slow
def test_it_is_evaluated_and_asked_over_real_passages(start, searching, pages):
  workdir, _ = searching
  ended = start('evaluate', f'--workdir={workdir}')
  assert ended.code == 0, ended.err
  shown = json.loads(ended.out)
  assert shown['n'] == 44
  [final] = [
    row
    for row in metrics.read_rows(workdir / 'evaluation.jsonl')
    if row['phase'] == 'final' and row['temperature'] == 0
  ]
  for name in ('data_hash', 'searches', 'answered', 'f1'):
    assert shown[name] == final[name]
  ended = start(
    'ask',
    f'--workdir={workdir}',
    '--ask=Where was the director of film Navy Nurse born?',
  )
  assert ended.code == 0, ended.err
  assert ended.out.startswith('  agent  ')
  shown = [
    line.removeprefix('  world  <information> ').split('</information>')[0]
    for line in ended.out.splitlines()
    if line.startswith('  world  <information> ')
  ]
  for text in shown:
    assert any(text.strip()[:20] in page for page in pages.values())
