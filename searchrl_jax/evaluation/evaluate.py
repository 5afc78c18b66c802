# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One evaluation: questions in, one row of `evaluation.jsonl` out.

Playing and scoring are handed in, so that evaluation goes through the very
rollout, templates, stops and rewards of training.
"""

from __future__ import annotations

import collections
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from searchrl_jax import types
from searchrl_jax.evaluation import prompts
from searchrl_jax.rewards import answers, measures

Play = Callable[[Sequence[types.Question], float], types.Groups]
# What else the played groups say, as fields of the row.
Beside = Callable[[types.Groups], Mapping[str, Any]]

# What `measures.measure` knows of a batch and a row takes over.
MEASURED = ('f1', 'answered', 'searches', 'useless_searches_per_success')


def nothing_beside(groups: types.Groups) -> Mapping[str, Any]:
  """Adds nothing to a row."""
  del groups
  return {}


def evaluate(
  play: Play,
  score: types.Score,
  questions: Sequence[types.Question],
  *,
  split: str,
  phase: str,
  step: int,
  temperature: float,
  settings: Mapping[str, Any],
  data_hash: str,
  batch: int,
  beside: Beside = nothing_beside,
) -> dict:
  """Plays all questions and says how well it went.

  Args:
    play: (questions, temperature) -> one group of trajectories a question.
    score: groups -> raw numbers.
    questions: what to ask; all of them are asked.
    split: name of the question set.
    phase: `warm_start`, `rl` or `final`.
    step: learning step after which the weights stand.
    temperature: 0 is greedy.
    settings: all that the result depends on, stored as it is.
    data_hash: `hash_of` the questions.
    batch: questions handed to `play` at once.
    beside: groups -> further fields of the row, such as what another method
      would have read for the same searches. Not part of `seconds`.

  Returns:
    `step, phase, split, temperature, n, em, em_stderr, f1, answered, searches,
    useless_searches_per_success, seconds, settings, data_hash`. `n` counts
    questions; a question with several rollouts counts by their mean, and the
    standard error, over questions, is None for a single one. Lists with an
    entry a round: `prompt_tokens_by_round`, of the `trajectories_by_round`
    that had it. Besides: `em_by_hops` where gold chains are known, and where
    questions are of several sources `em_by_source`, `em_micro` (over
    questions, = em) and `em_macro` (over sources).

  Raises:
    ValueError: there is no question, `play` lost some, or `beside` names a
      field that the row has already.
  """
  if not questions:
    raise ValueError(f'the split {split!r} has no questions to evaluate on.')
  begin = time.perf_counter()
  groups = []
  for start in range(0, len(questions), batch):
    groups += play(questions[start : start + batch], temperature)
  if len(groups) != len(questions):
    raise ValueError(
      f'{len(questions)} questions of {split!r} came back as {len(groups)} '
      'groups: play must return one group a question.'
    )
  measured = measures.measure(groups, score(groups))
  seconds = time.perf_counter() - begin
  em_B = np.asarray([_em(group) for group in groups])
  row = {
    'step': step,
    'phase': phase,
    'split': split,
    'temperature': temperature,
    'n': len(questions),
    'em': float(em_B.mean()),
    'em_stderr': standard_error(em_B),
    **{name: measured[name] for name in MEASURED},
    'seconds': seconds,
    'prompt_tokens_by_round': prompts.prompt_tokens_by_round(groups),
    'trajectories_by_round': prompts.trajectories_by_round(groups),
    **_breakdowns(questions, em_B),
    'settings': dict(settings),
    'data_hash': data_hash,
  }
  return row | _new(beside(groups), row)


def _new(more: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
  """The further fields, none of which may hide a measured one."""
  taken = sorted(set(more) & set(row))
  if taken:
    raise ValueError(
      f'`beside` gives {", ".join(taken)}, which a row of an evaluation has '
      'already: choose other names.'
    )
  return dict(more)


def standard_error(values: Sequence[float]) -> float | None:
  """Of the mean, from the unbiased std; None where there are fewer than two.

  [1, 1, 0, 0]: std .5774, standard error .5774 / 2 = .2887.
  """
  if len(values) < 2:
    return None
  return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def hash_of(questions: Sequence[types.Question]) -> str:
  """Twelve hex digits that change with any question, answer or the order."""
  text = json.dumps([[q.id, q.text, list(q.answers)] for q in questions])
  return hashlib.sha256(text.encode()).hexdigest()[:12]


def stratified(
  questions: Sequence[types.Question], n: int
) -> list[types.Question]:
  """A fixed subset in which sources and numbers of hops keep their shares.

  The same questions are chosen whatever their order, on every machine: those
  whose ids have the smallest hashes. Places that shares leave over go to the
  strata with the largest remainders.

      1 hop: 6, 2 hops: 3, 3 hops: 1;  n = 5  ->  3, 1.5, .5  ->  3, 2, 0

  Args:
    questions: the whole set.
    n: questions to keep, at least 1; all where there are no more.

  Returns:
    The chosen questions, in the order in which they were given.
  """
  if n < 1:
    raise ValueError(f'a quick evaluation needs at least 1 question, not {n}.')
  if n >= len(questions):
    return list(questions)
  strata = collections.defaultdict(list)
  for place, question in enumerate(questions):
    strata[question.source, len(question.hops)].append(place)
  exact = {key: n * len(v) / len(questions) for key, v in strata.items()}
  taken = {key: math.floor(share) for key, share in exact.items()}
  left = n - sum(taken.values())
  # Rounded: equal remainders must be equal, then the key decides.
  order = sorted(strata, key=lambda k: (-round(exact[k] - taken[k], 9), k))
  for key in order[:left]:
    taken[key] += 1
  chosen = []
  for key, places in strata.items():
    places.sort(key=lambda place: _place_hash(questions[place]))
    chosen += places[: taken[key]]
  return [questions[place] for place in sorted(chosen)]


def _place_hash(question: types.Question) -> str:
  return hashlib.sha256(f'{question.id}\n{question.text}'.encode()).hexdigest()


def _em(group: Sequence[types.Trajectory]) -> float:
  """The share of a question's rollouts that answer it exactly."""
  return sum(
    answers.exact_match(prediction=one.answer, gold=one.question.answers)
    for one in group
  ) / len(group)


def _breakdowns(questions: Sequence[types.Question], em_B) -> dict:
  """EM by number of hops and by source, where there is something to tell."""
  rows = {}
  if any(question.hops for question in questions):
    by_hops = _means([str(len(q.hops)) for q in questions], em_B)
    rows['em_by_hops'] = by_hops
  by_source = _means([question.source for question in questions], em_B)
  if len(by_source) > 1:
    rows['em_by_source'] = by_source
    rows['em_micro'] = float(em_B.mean())
    rows['em_macro'] = float(np.mean(list(by_source.values())))
  return rows


def _means(keys: Sequence[str], values) -> dict[str, float]:
  parts = collections.defaultdict(list)
  for key, value in zip(keys, values, strict=True):
    parts[key].append(value)
  return {key: float(np.mean(part)) for key, part in sorted(parts.items())}
