# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The page holds what the run wrote, whole or in ruins, and nothing acts."""

import html.parser
import json
import re

import numpy as np
import pytest

from searchrl_jax import metrics, traces, types
from searchrl_jax.diagnostics import browser, report

EVIL = '</script><script>alert(1)</script><!--<script> <img src=x onerror=b()>'


def make_trajectory(rollout, *, n_turns, answer, text=''):
  """Searches Ann, her spouse, and so on, then answers."""
  names = ['Ann', 'Bob', 'Cara', 'Dan', 'Eve']
  turns = []
  for s in range(n_turns):
    query = f'{names[s]} spouse'
    turns.append(
      types.Turn(
        action=types.Action(types.Kind.SEARCH, {'query': query}),
        text=f'<think> spouse of {names[s]} </think>\n'
        f'<search> {query} </search>{text}',
        reply=f'\n\n<information>Doc 1(Title: "{names[s]}") The spouse of '
        f'{names[s]} is {names[s + 1]}.{text}</information>\n\n',
        evidence=(),
        span=types.Span(0, 10 * s, 10 * s + 5),
        seconds=0.1,
        failures=(text,) if text else (),
      )
    )
  turns.append(
    types.Turn(
      action=types.Action(types.Kind.ANSWER, {'answer': answer}),
      text=f'<answer> {answer} </answer>{text}',
      reply='',
      evidence=(),
      span=types.Span(0, 50, 55),
      seconds=0.1,
    )
  )
  question = types.Question(
    id=f'q{text}',
    text=f'Who is the spouse of the spouse of Ann?{text}',
    answers=(f'Cara{text}', 'Cara B.'),
    hops=(
      types.Hop(f'Ann{text}', 'spouse', 'Bob', 'd0'),
      types.Hop('Bob', f'spouse{text}', 'Cara', 'd1'),
    ),
  )
  row = types.TokenRow(
    tokens=np.zeros(60, np.int32),
    sampled=np.arange(60) % 2 == 0,
    turn_id=np.zeros(60, np.int32),
    logps=np.zeros(60, np.float32),
  )
  return types.Trajectory(
    question=question,
    rollout=rollout,
    prompt=f'Answer the question.{text}',
    turns=tuple(turns),
    rows=(row,),
    status=types.Status.ANSWERED,
  )


def write_traces(workdir, step, *, text='', rng=None):
  """A group of four: two found Cara, one of them after a useless search."""
  group = [
    make_trajectory(0, n_turns=2, answer='Cara', text=text),
    make_trajectory(1, n_turns=3, answer='Cara', text=text),
    make_trajectory(2, n_turns=1, answer='Bob', text=text),
    make_trajectory(3, n_turns=2, answer='Dan', text=text),
  ]
  useful = np.zeros((1, 4, 4), np.float32)
  judged = np.zeros((1, 4, 4), bool)
  useful[0, :2, :2] = 1
  judged[0, 0, :2] = judged[0, 1, :3] = True
  advantage_BGS = np.full((1, 4, 4), -0.866, np.float32)
  advantage_BGS[0, :2] = 0.866
  advantage_BGS[0, 1, :3] = [1.193, 1.193, 0.212]  # one useless search
  noise = np.ones_like(useful) if rng is None else rng.random(useful.shape)
  file = metrics.JsonLines(workdir / 'traces.jsonl')
  traces.write(
    file,
    step=step,
    phase='rl',
    groups=[group],
    scores=types.Scores(
      outcome=np.asarray([[1, 1, 0, 0]], np.float32),
      success=np.asarray([[True, True, False, False]]),
      valid=np.ones((1, 4), bool),
      kind=np.ones((1, 4, 4), np.int32),
      judged=judged,
      signals={
        'retrieval_useful': useful,
        'reasoning_correct': (noise > 0.3 * 0.95**step).astype(np.float32),
      },
    ),
    advantage_BGS=advantage_BGS,
  )
  file.close()


def write_rows(workdir, steps, *, useless=True, phase='rl'):
  rng = np.random.default_rng(0)
  lines = metrics.JsonLines(workdir / 'metrics.jsonl')
  for step in range(steps):
    level = 0.3 + 0.5 * (1 - np.exp(-step / 25)) + rng.normal(0, 0.03)
    lines.append(
      {
        'step': step,
        'phase': phase,
        'em': level,
        'reward': level,
        'loss': rng.normal(0, 0.02),
        'entropy': 0.4 * np.exp(-step / 60) + 0.1,
        'kl': None,
        'answered': min(1, level + 0.2),
        'searches': 2 + rng.normal(0, 0.1),
        'zero_spread_fraction': 0.2 + step / 300,
        'useless_searches_per_success': 0.5 * np.exp(-step / 30) + 0.05
        if useless
        else None,
        'seconds_rollout': 0.7,
        'seconds_rewards': 0.05,
        'seconds_update': 0.4,
        'seconds_total': 1.2 + (6 if step == 0 else 0),
      }
    )
  lines.close()


def write_evaluations(workdir, steps):
  lines = metrics.JsonLines(workdir / 'evaluation.jsonl')
  for phase, step, em in (
    ('warm_start', 0, 0.31),
    ('rl', steps // 2, 0.61),
    ('final', steps - 1, 0.78),
  ):
    for temperature in (1.0, 0.0):
      lines.append(
        {
          'step': step,
          'phase': phase,
          'split': 'test',
          'temperature': temperature,
          'n': 1024,
          'em': em + 0.1 * (temperature == 0),
          'em_stderr': 0.013,
          'em_by_hops': {'1': 0.95, '2': 0.8, '3': 0.6},
          'f1': em + 0.02,
          'answered': 0.98,
          'searches': 2.01,
          'useless_searches_per_success': None,
          'seconds': 12.5,
        }
      )
  lines.close()


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
