# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Scores that several methods share, from the sections of a config."""

import functools

from searchrl_jax.rewards import judge, scoring
from searchrl_jax.types import Groups, Score, Scores

_JUDGE = judge.GroundTruth()


def _outcome(config):
  weight = config.reward.format_weight
  if not weight:
    return scoring.exact
  return scoring.with_format(scoring.exact, weight)


def judged_score(config, environment) -> Score:
  """Outcomes, and the ground-truth judge's verdict on every search."""
  outcomes = functools.partial(
    scoring.score_outcomes,
    max_turns=environment.all_turns,
    outcome=_outcome(config),
  )

  def score(groups: Groups) -> Scores:
    return scoring.add_verdicts(outcomes(groups), groups, judge=_JUDGE)

  return score


def outcome_score(config, environment) -> Score:
  """Outcomes; verdicts too where gold chains are known, for the log alone."""
  judged = judged_score(config, environment)

  def score(groups: Groups) -> Scores:
    if all(members[0].question.hops for members in groups):
      return judged(groups)
    return scoring.score_outcomes(
      groups, max_turns=environment.all_turns, outcome=_outcome(config)
    )

  return score
