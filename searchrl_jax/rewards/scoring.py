# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Finished groups of trajectories to the numbers that credit reads.

`score_outcomes` needs gold answers only; `add_verdicts` adds what a judge of
turns says. Success is decided here, once.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from searchrl_jax import types
from searchrl_jax.rewards import answers, facts, format, judge

# The outcome reward of a trajectory; NaN where none can be trusted.
Outcome = Callable[[types.Trajectory], float]
# Whether a trajectory counts as a success.
Success = Callable[[types.Trajectory], bool]


def exact(trajectory: types.Trajectory) -> float:
  """Outcome: 1 where the final answer equals a gold answer, else 0."""
  return float(succeeded(trajectory))


def token_f1(trajectory: types.Trajectory) -> float:
  """Outcome: F1 between the words of the final and of a gold answer."""
  return answers.f1(
    prediction=trajectory.answer, gold=trajectory.question.answers
  )


def with_format(
  outcome: Outcome, weight: float, formed: format.Formed = format.well_formed
) -> Outcome:
  """An outcome plus `weight` where the trajectory is `formed`."""

  def with_weight(trajectory: types.Trajectory) -> float:
    return outcome(trajectory) + weight * formed(trajectory)

  return with_weight


def empty_store_fails(outcome: Outcome, extract: facts.Extract) -> Outcome:
  """An outcome that is 0 where the trajectory answers but told no fact.

  FactAgent's rule: an answer must be read off the store. An outcome that
  cannot be trusted stays so.
  """

  def with_store(trajectory: types.Trajectory) -> float:
    value = outcome(trajectory)
    guessed = trajectory.answer is not None and not any(extract(trajectory))
    return 0.0 if guessed and math.isfinite(value) else value

  return with_store


def succeeded(trajectory: types.Trajectory) -> bool:
  """Success: the final answer equals a gold answer, whatever is rewarded.

  Only the final answer action counts, wherever else a gold answer stands.
  """
  return answers.exact_match(
    prediction=trajectory.answer, gold=trajectory.question.answers
  )


def success_by_f1(threshold: float) -> Success:
  """Success: the words of the answer agree with F1 of at least `threshold`.

  Raises:
    ValueError: where no answer, or every one, would be a success.
  """
  if not 0 < threshold <= 1:
    raise ValueError(
      f'the F1 that makes a success must be in (0, 1], not {threshold}'
    )

  def close(trajectory: types.Trajectory) -> bool:
    return token_f1(trajectory) >= threshold

  return close


def score_outcomes(
  groups: types.Groups,
  *,
  max_turns: int,
  outcome: Outcome = exact,
  success: Success = succeeded,
) -> types.Scores:
  """Scores without judgements: outcomes, successes, and what turns were.

  Args:
    groups: B groups of G trajectories.
    max_turns: S, the most turns a trajectory may have, its last one included.
      It is no measured maximum, so that shapes do not change between steps.
    outcome: the reward of a trajectory.
    success: whether it counts as a success, decided apart from the reward.

  Returns:
    Scores on the host, `[B, G]` and `[B, G, S]`, with no signals. A
    trajectory whose outcome is not finite is invalid, with outcome 0.

  Raises:
    ValueError: where groups differ in size or a trajectory is too long.
  """
  _check(groups, max_turns)
  outcome_BG = np.array(
    [[outcome(one) for one in group] for group in groups], np.float32
  )
  success_BG = np.array([[success(one) for one in group] for group in groups])
  valid_BG = np.isfinite(outcome_BG)
  kind_BGS = _kinds(groups, max_turns)
  return types.Scores(
    outcome=np.where(valid_BG, outcome_BG, 0).astype(np.float32),
    success=success_BG,
    valid=valid_BG,
    kind=kind_BGS,
    judged=np.zeros(kind_BGS.shape, bool),
    signals={},
  )


def add_verdicts(
  scores: types.Scores,
  groups: types.Groups,
  *,
  judge: judge.Judge,
  only_successful: bool = False,
) -> types.Scores:
  """Adds a judge's signals `retrieval_useful` and `reasoning_correct`.

  Args:
    scores: of these groups.
    groups: B groups of G trajectories.
    judge: asked once a trajectory.
    only_successful: spares a judge that costs something the trajectories
      whose credit does not depend on it. Where judging is free, verdicts on
      failures cost nothing and inform the diagnostics.

  Returns:
    Scores with `judged` true on the turns that have a verdict. Signals are 0
    elsewhere.

  Raises:
    ValueError: where the judge gives more or fewer verdicts than turns, or
      finds nothing to judge by.
  """
  b, g, s = scores.kind.shape
  signals = np.zeros((3, b, g, s), np.float32)
  for i, group in enumerate(groups):
    for j, trajectory in enumerate(group):
      if only_successful and not scores.success[i, j]:
        continue
      verdicts = judge(trajectory)
      if len(verdicts) != len(trajectory.turns):
        raise ValueError(
          f'the judge gave {len(verdicts)} verdicts on a trajectory of '
          f'{len(trajectory.turns)} turns; it must give one a turn'
        )
      for t, verdict in enumerate(verdicts):
        if verdict.valid:
          signals[:, i, j, t] = (verdict.useful, verdict.correct, 1)
  useful_BGS, correct_BGS, judged_BGS = signals
  return dataclasses.replace(
    scores,
    judged=judged_BGS > 0,
    signals={
      **scores.signals,
      'retrieval_useful': useful_BGS,
      'reasoning_correct': correct_BGS,
    },
  )


def _check(groups: types.Groups, max_turns: int) -> None:
  sizes = sorted({len(group) for group in groups})
  if len(sizes) != 1:
    raise ValueError(f'groups must be of one size, not of sizes {sizes}')
  longest = max(len(one.turns) for group in groups for one in group)
  if longest > max_turns:
    raise ValueError(
      f'a trajectory has {longest} turns, more than max_turns = {max_turns}; '
      'count the last turn, which follows all search turns'
    )


def _kinds(groups: types.Groups, max_turns: int) -> np.ndarray:
  """What every turn was, `[B, G, S]`.

  turns      search  search  answer
  S = 5        1       1       5      0  0     0 = no turn
  """
  shape = (len(groups), len(groups[0]), max_turns)
  kind_BGS = np.full(shape, types.Kind.NONE, np.int32)
  for b, group in enumerate(groups):
    for g, trajectory in enumerate(group):
      kinds = [turn.action.kind for turn in trajectory.turns]
      kind_BGS[b, g, : len(kinds)] = kinds
  return kind_BGS
