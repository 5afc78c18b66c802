# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Scores and baselines that several methods share, from a config."""

import functools
from collections.abc import Mapping
from typing import Any

from searchrl_jax.credit import grpo
from searchrl_jax.rewards import format, judge, scoring
from searchrl_jax.types import Groups, Score, Scores

_JUDGE = judge.GroundTruth()


_OUTCOMES = {'em': scoring.exact, 'f1': scoring.token_f1}
_BASELINES = {'group': grpo.advantages, 'leave_one_out': grpo.leave_one_out}


def outcome_of(
  config, *, formed: format.Formed = format.well_formed
) -> scoring.Outcome:
  """What a finished trajectory earns; `formed` says which keep to the form."""
  outcome = choose('reward.outcome', config.reward.outcome, _OUTCOMES)
  weight = config.reward.format_weight
  return scoring.with_format(outcome, weight, formed) if weight else outcome


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


def judged_score(config, environment, *, outcome=None) -> Score:
  """Outcomes, and the ground-truth judge's verdict on every search.

  `outcome` is what a trajectory earns: that of the config where not given.
  """
  outcomes = _outcomes(config, environment, outcome)

  def score(groups: Groups) -> Scores:
    return scoring.add_verdicts(outcomes(groups), groups, judge=_JUDGE)

  return score


def outcome_score(config, environment, *, outcome=None) -> Score:
  """Outcomes; verdicts too where gold chains are known, for the log alone."""
  outcomes = _outcomes(config, environment, outcome)
  judged = judged_score(config, environment, outcome=outcome)

  def score(groups: Groups) -> Scores:
    if all(members[0].question.hops for members in groups):
      return judged(groups)
    return outcomes(groups)

  return score


def _outcomes(config, environment, outcome) -> Score:
  success = scoring.succeeded
  if config.reward.success_f1:
    success = scoring.success_by_f1(config.reward.success_f1)
  return functools.partial(
    scoring.score_outcomes,
    max_turns=environment.all_turns,
    outcome=outcome or outcome_of(config),
    success=success,
  )
