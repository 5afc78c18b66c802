# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The policy's own rollouts, scored, credited and packed."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from searchrl_jax import packing as packer
from searchrl_jax.credit.spread import spread, token_weighted_mean
from searchrl_jax.training import overlong
from searchrl_jax.training.clock import Clock
from searchrl_jax.training.dynamic_sampling import replace_silent
from searchrl_jax.training.sources import (
  Collected,
  Packing,
  TrainingStoppedError,
  token_counts,
)
from searchrl_jax.types import (
  Batch,
  Explanation,
  Groups,
  Kind,
  Question,
  Recipe,
  Scores,
  Targets,
)

# Means over the tokens that trained: nothing where there were none.
_OF_TOKENS = (
  'logp',
  'entropy',
  'kl',
  'ratio_max',
  'clip_low_fraction',
  'clip_high_fraction',
  'off_policy_weight',
  'sampler_learner_gap',
)

_spread = jax.jit(spread)
_token_weighted_mean = jax.jit(token_weighted_mean)


@dataclasses.dataclass(frozen=True)
class ExperienceConfig:
  """How rollouts become a batch.

  Attributes:
    skip_zero_advantage: leaves trajectories without any advantage out of the
      batch and of the token denominator. Not with a KL or entropy term, which
      act on them too.
    redraws: DAPO's dynamic sampling, rounds of redrawing zero-spread groups.
    mask_overlong: DAPO: a trajectory cut by a limit does not train.
    overlong_margin: DAPO: tokens before `max_tokens` over which a penalty
      from 0 to -1 is added to the outcome; 0 adds none.
    max_tokens: sampled tokens of a trajectory at which the penalty is full.
    learner_old_logps: old log-probs by the learner instead of the sampler.
    reference: whether reference log-probs are needed, for a KL term.
    max_invalid_fraction: share of invalid outcomes above which a run stops.
  """

  skip_zero_advantage: bool
  redraws: int
  mask_overlong: bool
  overlong_margin: int
  max_tokens: int
  learner_old_logps: bool
  reference: bool
  max_invalid_fraction: float


class Experience:
  """The policy's own rollouts, scored and credited."""

  def __init__(
    self,
    recipe: Recipe,
    play: Callable[[Sequence[Question], Any, int, int], Groups],
    questions: Iterator[Sequence[Question]],
    *,
    config: ExperienceConfig,
    packing: Packing,
    clock: Clock,
    logps: Callable[[Any, Batch], Any],
    reference: Callable[[Batch], Any],
    describe: Callable[[], dict],
    measure: Callable[[Groups, Scores], dict],
    zero_spread: Callable[[Any, Any], Any],
    record: Callable[[int, Groups, Scores, Any, Explanation], None],
  ):
    """
    Args:
      recipe: environment, score and credit of the method.
      play: (questions, params, step, round) -> groups, by the current
        weights; rounds after 0 redraw.
      questions: batches of B questions.
      config: how rollouts become a batch.
      packing: shape of packed rows.
      clock: books the seconds.
      logps: (params, batch) -> log-probs [N, L] by the learner.
      reference: batch -> log-probs [N, L] by the KL reference.
      describe: numbers of the player for the log, after it has played.
      measure: plain numbers of groups and their scores, for the log.
      zero_spread: (outcome_BG, valid_BG) -> groups without a preference.
      record: told of every step's groups, scores, advantages and what
        explains them.
    """
    self._recipe = recipe
    self._play = play
    self._questions = questions
    self._config = config
    self._packing = packing
    self._clock = clock
    self._logps = logps
    self._measure = measure
    self._zero_spread = zero_spread
    self._record = record
    self._credit = jax.jit(recipe.credit)
    self._reference = reference
    self._describe = describe

  def collect(self, step, params):
    with self._clock('update'):
      jax.block_until_ready(params)  # the last update still runs
    groups, scores, metrics = self._draw(step, params)
    with self._clock('rewards'):
      advantage_BGS = np.asarray(self._credit(scores))
      explanation = self._recipe.explain(groups, scores)
      metrics |= explanation.metrics
      self._record(step, groups, scores, advantage_BGS, explanation)
    with self._clock('packing'):
      batch = self._pack(groups, scores, advantage_BGS)
    with self._clock('update'):
      targets = self._targets(params, batch, advantage_BGS)
      metrics['token_weighted_mean'] = _search_mean(
        advantage_BGS, scores, batch
      )
    metrics |= token_counts(groups) | self._describe()
    if not batch.sampled.any():  # a mean of nothing is not 0
      metrics |= dict.fromkeys(_OF_TOKENS)
    return Collected(batch, targets, metrics)

  def _pack(self, groups, scores, advantage_BGS):
    """The trajectories that train, packed."""
    keep_BG = np.array(scores.valid)
    if self._config.mask_overlong:
      clipped_BG = np.array([[t.clipped for t in row] for row in groups])
      keep_BG &= np.asarray(overlong.mask(clipped_BG)) > 0
    if self._config.skip_zero_advantage:
      keep_BG &= np.any(advantage_BGS != 0, axis=-1)
    return packer.pack(
      groups,
      length=self._packing.length,
      multiple=self._packing.multiple,
      keep=keep_BG,
    )

  def _draw(self, step, params):
    """Rolls out a batch; redraws silent groups where configured."""
    groups, scores = self._round(step, 0, params)
    metrics = self._measure(groups, scores)
    silent_B = self._silent(scores)
    metrics['zero_spread_fraction'] = float(silent_B.mean())
    for number in range(1, self._config.redraws + 1):
      if not silent_B.any():
        break
      fresh = self._round(step, number, params)
      groups, scores = replace_silent(
        groups, scores, silent_B, *fresh, self._silent(fresh[1])
      )
      silent_B = self._silent(scores)
    return groups, scores, metrics

  def _silent(self, scores):
    return np.asarray(self._zero_spread(scores.outcome, scores.valid))

  def _round(self, step, number, params):
    """One batch of questions, rolled out and scored."""
    with self._clock('rollout'):
      groups = self._play(next(self._questions), params, step, number)
    with self._clock('rewards'):
      scores = self._recipe.score(groups)
      if self._config.overlong_margin:
        scores = self._penalise(groups, scores)
    invalid = 1 - float(np.mean(scores.valid))
    if invalid > self._config.max_invalid_fraction:
      raise TrainingStoppedError(
        f'{invalid:.0%} of the outcomes of step {step} are invalid: check the '
        'judge, or raise experience.max_invalid_fraction.'
      )
    return groups, scores

  def _penalise(self, groups, scores):
    """Lowers the outcome of trajectories that come close to the limit."""
    sampled_BG = np.array(
      [[sum(r.sampled.sum() for r in t.rows) for t in row] for row in groups]
    )
    penalty_BG = overlong.soft_penalty(
      sampled_BG,
      limit=self._config.max_tokens,
      margin=self._config.overlong_margin,
    )
    return dataclasses.replace(
      scores, outcome=np.asarray(scores.outcome + penalty_BG)
    )

  def _targets(self, params, batch, advantage_BGS):
    advantage_NL = np.asarray(_spread(advantage_BGS, batch))
    old_NL = batch.sampler_logps
    if self._config.learner_old_logps:
      old_NL = np.asarray(self._logps(params, batch))
    ref_NL = old_NL
    if self._config.reference:
      ref_NL = np.asarray(self._reference(batch))
    return Targets(
      advantage_NL, old_NL, ref_NL, batch.sampled.astype(np.float32)
    )


def _search_mean(advantage_BGS, scores: Scores, batch: Batch) -> float | None:
  """Token-weighted mean advantage of the searches of successes.

  Credit keeps the mean per turn; under a token mean, long turns weigh more.
  None where no trained trajectory succeeded with a search.
  """
  search_BGS = np.asarray(scores.kind) == Kind.SEARCH
  mean_BG = np.asarray(_token_weighted_mean(advantage_BGS, search_BGS, batch))
  chosen_BG = np.asarray(scores.success) & (mean_BG != 0)
  return float(mean_BG[chosen_BG].mean()) if chosen_BG.any() else None
