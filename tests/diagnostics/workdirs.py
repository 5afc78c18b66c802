# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Workdirs as runs leave them, made up: rows, evaluations and traces."""

import numpy as np

from searchrl_jax import metrics, traces, types


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


def facts_of(rollout, turn, text):
  """Both good rollouts tell Bob, one bad rollout Dan; others nothing."""
  told = {
    (0, 0): ('Bob', 2, 0.3333, 0.3215),
    (1, 0): ('Bob', 2, 0.3333, 0.3215),
    (3, 1): ('Dan', 0, -0.25, -0.2449),
  }
  if (rollout, turn) not in told:
    return {'shaping': 0.0, 'penalty': -0.1, 'facts': []}
  name, cluster, utility, shaping = told[rollout, turn]
  fact = [f'Ann{text}', f'spouse{text}', f'{name}{text}']
  fact = {'fact': fact, 'cluster': cluster, 'utility': utility, 'new': True}
  return {'shaping': shaping, 'penalty': 0.0, 'facts': [fact]}


def nothing_of(rollout, turn, text):
  return {}


def write_traces(workdir, step, *, text='', rng=None, note=nothing_of):
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
    notes=[
      [
        [note(g, t, text) for t in range(len(one.turns))]
        for g, one in enumerate(group)
      ]
    ],
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


def write_evaluations(workdir, steps, **more):
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
          **more,
        }
      )
  lines.close()
