# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a batch of finished trajectories looks like, in plain numbers."""

import numpy as np

from searchrl_jax import types
from searchrl_jax.rewards import answers, format

Measures = dict[str, float | None]


def measure(
  groups: types.Groups,
  scores: types.Scores,
  *,
  formed: format.Formed = format.well_formed,
) -> Measures:
  """Averages over all trajectories of a batch.

  Args:
    groups: B groups of G trajectories.
    scores: of these groups; without a judge's signals where there was none.
    formed: whether a trajectory keeps to the form of its environment.

  Returns:
    By name, None where a number is not defined:
      reward: mean outcome of the valid trajectories.
      invalid_fraction: share of trajectories without a trustworthy outcome.
      em, f1, containment: agreement of the final answer with the gold,
        whatever was rewarded or counted as a success.
      answered: share that ended by an answer.
      searches: search turns of a trajectory.
      useless_searches_per_success: see `useless_searches`.
      malformed, failed_tools: such turns of a trajectory.
      repeated_queries: search turns of a trajectory whose query, normalised,
        an earlier turn had asked.
      clipped_fraction: share cut by a length limit.
      format_rate: share that is `formed`.
  """
  trajectories = [one for group in groups for one in group]

  def mean(number_of) -> float:
    return float(np.mean([number_of(one) for one in trajectories]))

  def agreement(compare) -> float:
    return mean(
      lambda one: compare(prediction=one.answer, gold=one.question.answers)
    )

  valid_BG = np.asarray(scores.valid)
  outcome_BG = np.asarray(scores.outcome)
  return {
    'reward': float(outcome_BG[valid_BG].mean()) if valid_BG.any() else None,
    'invalid_fraction': float(1 - valid_BG.mean()),
    'em': agreement(answers.exact_match),
    'f1': agreement(answers.f1),
    'containment': agreement(answers.contains),
    'answered': mean(lambda one: one.answer is not None),
    'searches': mean(lambda one: len(_queries(one))),
    'useless_searches_per_success': useless_searches(scores),
    'malformed': mean(_malformed),
    'failed_tools': mean(lambda one: sum(bool(t.failures) for t in one.turns)),
    'repeated_queries': mean(
      lambda one: len(_queries(one)) - len(set(_queries(one)))
    ),
    'clipped_fraction': mean(lambda one: one.clipped),
    'format_rate': mean(formed),
  }


def useless_searches(scores: types.Scores) -> float | None:
  """Search turns with p = u v = 0 of a successful trajectory, on average.

  Counted over the successful trajectories whose search turns all have a
  verdict; one that answered without searching is among them, with none.

  Returns:
    The average, None where there is no such trajectory or no judge.
  """
  if not {'retrieval_useful', 'reasoning_correct'} <= set(scores.signals):
    return None
  search_BGS = np.asarray(scores.kind) == types.Kind.SEARCH
  useful_BGS = np.asarray(scores.signals['retrieval_useful'])
  correct_BGS = np.asarray(scores.signals['reasoning_correct'])
  known_BG = (np.asarray(scores.judged) | ~search_BGS).all(axis=-1)
  counted_BG = np.asarray(scores.success) & known_BG
  if not counted_BG.any():
    return None
  useless_BGS = search_BGS & (useful_BGS * correct_BGS == 0)
  return float(useless_BGS[counted_BG].sum() / counted_BG.sum())


def _queries(trajectory: types.Trajectory) -> list[str]:
  return [
    answers.normalise(turn.action.arguments['query'])
    for turn in trajectory.turns
    if turn.action.kind == types.Kind.SEARCH
  ]


def _malformed(trajectory: types.Trajectory) -> int:
  return sum(t.action.kind == types.Kind.INVALID for t in trajectory.turns)
