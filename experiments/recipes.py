# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Scores and baselines that several methods share, from a config."""

import functools
from collections.abc import Mapping
from typing import Any

from searchrl_jax.credit import grpo
from searchrl_jax.rewards import judge, scoring
from searchrl_jax.types import Groups, Score, Scores

_JUDGE = judge.GroundTruth()


_OUTCOMES = {'em': scoring.exact, 'f1': scoring.token_f1}
_BASELINES = {'group': grpo.advantages, 'leave_one_out': grpo.leave_one_out}


def _outcome(config):
  outcome = choose('reward.outcome', config.reward.outcome, _OUTCOMES)
  weight = config.reward.format_weight
  return scoring.with_format(outcome, weight) if weight else outcome


def baseline(config) -> grpo.Baseline:
  """What an outcome is compared with."""
  section = config.grpo
  chosen = choose('grpo.baseline', section.baseline, _BASELINES)
  if chosen is not grpo.advantages:
    return chosen
  return functools.partial(chosen, normalize_std=section.normalize_std)


def choose(key: str, name: str, options: Mapping[str, Any]) -> Any:
  """The option of that name.

  Raises:
    ValueError: there is none; names the legal ones.
  """
  if name not in options:
    raise ValueError(f'{key} is {name!r}: choose one of {", ".join(options)}.')
  return options[name]


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
