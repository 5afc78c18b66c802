# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The page holds what the run wrote, whole or in ruins, and nothing acts."""

import html.parser
import json
import re

import pytest

from searchrl_jax import metrics
from searchrl_jax.diagnostics import browser, report
from tests.diagnostics.workdirs import (
  facts_of,
  write_evaluations,
  write_rows,
  write_traces,
)

EVIL = '</script><script>alert(1)</script><!--<script> <img src=x onerror=b()>'


class Page(html.parser.HTMLParser):
  """The elements of a page and what stands in its scripts."""

  def __init__(self, text):
    super().__init__()
    self.tags, self.attributes, self.scripts, self.words = [], [], [], []
    self.feed(text)

  def handle_starttag(self, tag, attributes):
    self.tags.append(tag)
    self.attributes += attributes

  def handle_data(self, text):
    # Inside a script the parser looks for nothing but its end.
    (self.scripts if self.cdata_elem == 'script' else self.words).append(text)

  @property
  def traces(self):
    return json.loads(self.scripts[0])


def page_of(workdir):
  path = report.write_report(workdir)
  assert path == workdir / 'report.html'
  text = path.read_text(encoding='utf-8')
  return text, Page(text)


def test_a_whole_run(tmp_path):
  write_rows(tmp_path, 20)
  write_evaluations(tmp_path, 20)
  for step in range(6):
    write_traces(tmp_path, step)
  text, page = page_of(tmp_path)
  assert 'missing or empty' not in text
  # learning, curves, contributions, seconds: each one an image
  assert page.tags.count('img') == 4
  assert 'exact match and useless searches by step' in text
  # six evaluations and a head; greedy final em .78 + .1 and its error
  assert page.tags.count('tr') == 7
  assert '0.880 ± 0.013' in text and '1: 0.950  2: 0.800  3: 0.600' in text
  assert len(page.traces) == 24
  first = page.traces[1]
  assert [turn['advantage'] for turn in first['turns']] == pytest.approx(
    [1.193, 1.193, 0.212, 0.866]
  )
  assert first['turns'][2]['numbers']['contribution'] == 0
  assert first['hops'][0] == ['Ann', 'spouse', 'Bob']


def test_the_page_stands_alone(tmp_path):
  write_rows(tmp_path, 5)
  write_traces(tmp_path, 0)
  _, page = page_of(tmp_path)
  assert not {'link', 'iframe', 'object', 'base'} & set(page.tags)
  sources = [value for name, value in page.attributes if name == 'src']
  assert sources and all(value.startswith('data:') for value in sources)
  assert not [v for name, v in page.attributes if name in ('href', 'srcset')]


def test_a_trajectory_cannot_act_on_the_page(tmp_path):
  write_traces(tmp_path, 0)
  _, tame = page_of(tmp_path)
  for path in tmp_path.iterdir():
    path.unlink()
  write_traces(tmp_path, 0, text=EVIL)
  text, page = page_of(tmp_path)
  assert page.tags == tame.tags  # no element more, none less
  assert len(page.scripts) == 2 and EVIL not in text
  assert page.scripts[1] == tame.scripts[1]
  assert page.traces[0]['question'].endswith(EVIL)  # nothing is lost either
  # The script has no way to make markup of a string.
  assert not re.search(
    'innerHTML|outerHTML|insertAdjacent|write|eval', browser.SCRIPT
  )


def test_rows_cannot_act_on_the_page(tmp_path):
  write_evaluations(tmp_path, 4)
  lines = metrics.JsonLines(tmp_path / 'evaluation.jsonl')
  [row, *_] = metrics.read_rows(tmp_path / 'evaluation.jsonl')
  lines.append({**row, 'split': EVIL, 'em_by_hops': {EVIL: 1}, 'phase': EVIL})
  lines.close()
  _, page = page_of(tmp_path)
  assert page.scripts == [] and 'onerror' not in dict(page.attributes)
  assert any(EVIL in word for word in [''.join(page.words)])


def test_clusters_of_facts_and_their_utilities(tmp_path):
  for step in range(12):
    write_traces(tmp_path, step, note=facts_of)
  _, page = page_of(tmp_path)
  words = ' '.join(' '.join(page.words).split())
  assert words.count('2 of 4 rollouts succeeded') == report.QUESTIONS
  assert 'step 11' in words and 'step 3 ' not in words  # the last eight
  # utility, told by, of them succeeded, facts
  best = words.index('+0.333 2 2 Ann —spouse→ Bob')
  assert best < words.index('-0.250 1 0 Ann —spouse→ Dan')
  first = page.traces[0]['turns']
  assert first[0]['facts'] == [
    {'fact': 'Ann —spouse→ Bob', 'cluster': 2, 'utility': 0.3333, 'new': True}
  ]
  assert first[0]['numbers']['shaping'] == 0.3215
  assert first[1]['numbers']['penalty'] == -0.1 and first[1]['facts'] == []


def test_facts_cannot_act_on_the_page(tmp_path):
  write_traces(tmp_path, 0, note=facts_of)
  _, tame = page_of(tmp_path)
  (tmp_path / 'traces.jsonl').unlink()
  write_traces(tmp_path, 0, text=EVIL, note=facts_of)
  text, page = page_of(tmp_path)
  assert page.tags == tame.tags and EVIL not in text
  assert f'Ann{EVIL} —spouse{EVIL}→ Bob{EVIL}' in ''.join(page.words)


def test_a_run_without_facts_shows_none(tmp_path):
  """Neither where turns note nothing nor in files without notes."""
  write_traces(tmp_path, 0)
  path = tmp_path / 'traces.jsonl'
  for content in (path.read_text(), path.read_text().replace('"notes"', '"n"')):
    path.write_text(content)
    text, page = page_of(tmp_path)
    assert 'Facts and what they were worth' not in text
    assert page.traces[0]['turns'][0]['facts'] == []
    assert 'shaping' not in page.traces[0]['turns'][0]['numbers']


def test_what_was_read_beside_another_method(tmp_path):
  """The last test evaluation; a name with a dollar sign is no formula."""
  write_evaluations(
    tmp_path,
    20,
    prompt_tokens_by_round=[50.0, 61.0, 70.5],
    yardstick=r'$\frac{' + EVIL,
    yardstick_prompt_tokens_by_round=[30.0, 75.0, 122.0, 160.0],
  )
  text, page = page_of(tmp_path)
  pictures = [value for name, value in page.attributes if name == 'alt']
  [told] = [alt for alt in pictures if 'prompt tokens' in alt]
  assert told == (
    'mean prompt tokens by round: this run and the same searches in '
    r'$\frac{' + EVIL + '; test, final, step 19, temperature 0'
  )
  assert EVIL not in text


def test_what_was_read_alone_and_not_at_all(tmp_path):
  write_evaluations(tmp_path, 20, prompt_tokens_by_round=[50.0, 61.0])
  text, _ = page_of(tmp_path)
  assert 'by round: this run; test, final, step 19, temperature 0' in text
  (tmp_path / 'evaluation.jsonl').unlink()
  write_evaluations(tmp_path, 20)
  text, _ = page_of(tmp_path)
  assert 'round by round' not in text


def test_metrics_of_facts_are_drawn_where_there_are_any(tmp_path):
  write_rows(tmp_path, 3)
  text, _ = page_of(tmp_path)
  assert 'fact_recall' not in text and 'zero_spread_fraction' in text
  lines = metrics.JsonLines(tmp_path / 'metrics.jsonl')
  names = ('fact_recall', 'shaping_nonzero_fraction', 'facts', 'clusters')
  row = {'step': 3, 'phase': 'rl', 'malformed': 0.1, 'shaping': None}
  lines.append(row | dict.fromkeys(names, 0.5))
  lines.close()
  text, _ = page_of(tmp_path)
  curves = 'malformed, facts, clusters, fact_recall, shaping_nonzero_fraction"'
  assert curves in text


@pytest.mark.parametrize('content', [None, '', '{"step": 0, "pha'])
def test_ruins_have_a_page(tmp_path, content):
  names = ('metrics.jsonl', 'traces.jsonl', 'evaluation.jsonl')
  if content is not None:
    for name in names:
      (tmp_path / name).write_text(content)
  text, page = page_of(tmp_path)
  assert 'img' not in page.tags and 'script' not in page.tags
  for words in ('No curve yet', 'No evaluation yet', 'No turn was judged'):
    assert words in text
  if not content:
    for name in names:
      assert f'{name} is missing or empty' in text


def test_a_run_without_judge_has_a_page(tmp_path):
  """GRPO on questions without hops knows no useless search."""
  write_rows(tmp_path, 12, useless=False)
  text, page = page_of(tmp_path)
  assert page.tags.count('img') == 3 and 'No turn was judged' in text


def test_a_warm_start_alone_has_a_page(tmp_path):
  write_rows(tmp_path, 3, phase='warm_start', useless=False)
  text, _ = page_of(tmp_path)
  assert 'Curves, warm_start' in text and 'last step, warm_start' in text


def test_the_page_stays_small(tmp_path):
  """120 steps of long-winded trajectories: 200 at most, each text cut."""
  for step in range(120):
    write_traces(tmp_path, step, text='x' * 5000)
  _, page = page_of(tmp_path)
  assert 100 <= len(page.traces) <= report.TRACES
  steps = [trace['step'] for trace in page.traces]
  assert steps[0] == 0 and steps[-1] == 119 and steps == sorted(steps)
  longest = browser.LONGEST + 50
  assert all(len(turn['text']) < longest for turn in page.traces[0]['turns'])
  assert re.search(r'… \(\d+ more characters\)', page.traces[0]['question'])


def test_a_broken_line_is_named(tmp_path):
  write_rows(tmp_path, 3)
  path = tmp_path / 'metrics.jsonl'
  path.write_text('oops\n' + path.read_text())
  with pytest.raises(ValueError, match=r'metrics\.jsonl, line 1'):
    report.write_report(tmp_path)
