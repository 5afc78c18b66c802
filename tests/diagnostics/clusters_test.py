# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Clusters are told in words, the best first, each rollout counted once."""

from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax import traces, types
from searchrl_jax.diagnostics import clusters


def fact(cluster, utility, words=('Ann', 'spouse', 'Bob'), new=True):
  return {
    'fact': list(words),
    'cluster': cluster,
    'utility': utility,
    'new': new,
  }


def trace(rollout, turns, *, step=1, name='q', success=False, valid=True):
  """`turns` are lists of facts, None for a turn without notes."""
  action = types.Action(types.Kind.ASSERT, {'triples': []})
  span = types.Span(0, 0, 1)
  made = tuple(types.Turn(action, '', '', (), span, 0.0) for _ in turns)
  nothing = tuple(None for _ in turns)
  return traces.Trace(
    step=step,
    phase='rl',
    trajectory=types.Trajectory(
      question=types.Question(name, f'Who is {name}?', ('a',)),
      rollout=rollout,
      prompt='',
      turns=made,
      rows=(),
      status=types.Status.TURN_LIMIT,
    ),
    outcome=float(success),
    success=success,
    valid=valid,
    sampled_tokens=1,
    given_tokens=1,
    advantages=nothing,
    signals=tuple({} for _ in turns),
    contributions=nothing,
    notes=tuple({} if told is None else {'facts': told} for told in turns),
  )


def read(stream, limit=8):
  tally = clusters.Clusters(limit=limit)
  for one in stream:
    tally.add(one)
  return tally.questions()


def test_a_group_by_hand():
  """Four rollouts, two succeed. a (0) in 0 and 1, b (1) in 0 and 2, c (5) in 3.

  Utilities .3333, 0 and -.25. Rollout 0 tells a three times, in two wordings.
  """
  wife = ('Ann', 'wife of', 'Bob')
  [question] = read(
    [
      trace(
        0,
        [
          None,
          [fact(0, 0.3333), fact(0, 0.3333, wife, False)],
          [fact(0, 0.3333, new=False), fact(1, 0.0, ('Ann', 'age', '7'))],
        ],
        success=True,
      ),
      trace(1, [[fact(0, 0.3333, wife)]], success=True),
      trace(2, [[fact(1, 0.0, ('Ann', 'age', '7'))], []]),
      trace(3, [[fact(5, -0.25, ('Cara', 'spouse', 'Bob'))]]),
    ]
  )
  assert (question.text, question.step) == ('Who is q?', 1)
  assert (question.rollouts, question.successes) == (4, 2)
  assert (question.invalid, question.more) == (0, 0)
  told = [(c.utility, c.rollouts, c.successes) for c in question.clusters]
  # Rollout 0 counts once in the first: 2, not 4.
  assert told == [(0.3333, 2, 2), (0.0, 2, 1), (-0.25, 1, 0)]
  assert question.clusters[0].wordings == [
    'Ann —spouse→ Bob',
    'Ann —wife of→ Bob',
  ]
  assert question.clusters[2].wordings == ['Cara —spouse→ Bob']


def test_rollouts_that_tell_nothing_belong_to_their_group():
  """One without turns comes first; an invalid one succeeded at nothing."""
  stream = [
    trace(0, []),
    trace(1, [[fact(0, 0.1)]], success=True, valid=False),
    trace(2, []),
  ]
  [question] = read(stream)
  assert (question.rollouts, question.successes, question.invalid) == (3, 0, 1)
  [cluster] = question.clusters
  assert (cluster.rollouts, cluster.successes) == (1, 0)


def test_groups_are_told_apart():
  """The same question again, in its step and in the next: numbers start anew.

  Facts of cluster 0 are other facts in every group.
  """
  stream = [
    trace(rollout, [[fact(0, utility)]], step=step, name=name)
    for step, name, utility in (
      (1, 'q', 0.1),
      (1, 'q', 0.2),
      (1, 'r', 0.3),
      (2, 'r', 0.4),
    )
    for rollout in (0, 1)
  ]
  found = read(stream)
  assert [question.rollouts for question in found] == [2] * 4
  assert [q.clusters[0].utility for q in found] == [0.1, 0.2, 0.3, 0.4]
  # The last ones are kept.
  assert [q.step for q in read(stream, limit=2)] == [1, 2]


def test_runs_without_facts_have_no_questions():
  assert read([trace(0, [None, None]), trace(1, [])]) == []
  # A policy that may tell facts and tells none is something to see.
  [question] = read([trace(0, [[], []])])
  assert question.clusters == []


def test_facts_of_no_cluster_are_left_out():
  [question] = read([trace(0, [[fact(-1, 0.0), fact(3, 0.5)]])])
  assert [cluster.utility for cluster in question.clusters] == [0.5]


UTILITIES = st.lists(st.none() | st.floats(-1, 1), max_size=60)


@given(UTILITIES)
def test_utilities_fall_and_the_far_ones_stay(utilities):
  told = [fact(i, utility) for i, utility in enumerate(utilities)]
  [question] = read([trace(0, [told])])
  shown = [cluster.utility for cluster in question.clusters]
  assert len(shown) == min(len(utilities), clusters.CLUSTERS)
  assert question.more == len(utilities) - len(shown)
  known = [utility for utility in shown if utility is not None]
  assert known == sorted(known, reverse=True)
  assert shown[: len(known)] == known  # unknown ones last
  sizes = sorted((abs(u or 0.0) for u in utilities), reverse=True)
  assert (
    sorted((abs(u or 0.0) for u in shown), reverse=True)
    == (sizes[: len(shown)])
  )


def test_long_texts_and_many_wordings_are_cut():
  told = [
    fact(0, 0.5, (f'{i} {"x" * 5000}', 'spouse', 'Bob')) for i in range(9)
  ]
  [question] = read([trace(0, [told], name='n' * 5000)])
  [cluster] = question.clusters
  assert len(cluster.wordings) == clusters.WORDINGS and cluster.more == 3
  for text in (*cluster.wordings, question.text):
    assert len(text) == clusters.LONGEST + 1
