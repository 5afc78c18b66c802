# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The policy's own rollouts, scored, credited and packed."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from searchrl_jax import packing as packer
from searchrl_jax.credit.spread import spread
from searchrl_jax.training.clock import Clock
from searchrl_jax.training.dynamic_sampling import replace_silent
from searchrl_jax.training.sources import Collected, Packing, token_counts
from searchrl_jax.types import Batch, Groups, Question, Recipe, Scores, Targets

_spread = jax.jit(spread)


@dataclasses.dataclass(frozen=True)
class ExperienceConfig:
  """How rollouts become a batch."""

  group: int  # G, rollouts of a question
  # Leave trajectories without any advantage out of the batch and of the
  # token denominator. Not with a KL term, which acts on them too.
  skip_zero_advantage: bool
  # DAPO's dynamic sampling: rounds of redrawing zero-spread groups, 0 = off.
  redraws: int
  # Stop strings, sampling and limits cut a trajectory: mask it (DAPO).
  mask_overlong: bool
  # Old log-probs from the learner instead of the sampler.
  learner_old_logps: bool
  reference: bool  # reference log-probs for a KL term
  max_invalid_fraction: float  # a run stops above this share


class Experience:
  """The policy's own rollouts, scored and credited."""

  def __init__(
    self,
    recipe: Recipe,
    play: Callable[[Sequence[Question], Any, int], Groups],
    questions: Iterator[Sequence[Question]],
    *,
    config: ExperienceConfig,
    packing: Packing,
    clock: Clock,
    logps: Callable[[Any, Batch], Any],
    measure: Callable[[Groups, Scores], dict],
    zero_spread: Callable[[Any, Any], Any],
    record: Callable[[int, Groups, Scores, Any], None],
  ):
    """
    Args:
      recipe: environment, score and credit of the method.
      play: (questions, params, step) -> groups, by the current weights.
      questions: batches of B questions.
      config: how rollouts become a batch.
      packing: shape of packed rows.
      clock: books the seconds.
      logps: (params, batch) -> log-probs [N, L] by the learner.
      measure: plain numbers of groups and their scores, for the log.
      zero_spread: (outcome_BG, valid_BG) -> groups without a preference.
      record: told of every step's groups, scores and advantages.
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
    self.reference: Any = None  # parameters of the KL reference

  def collect(self, step, params):
    with self._clock('update'):
      jax.block_until_ready(params)  # the last update still runs
    groups, scores, metrics = self._draw(step, params)
    with self._clock('rewards'):
      advantage_BGS = np.asarray(self._credit(scores))
      self._record(step, groups, scores, advantage_BGS)
    with self._clock('packing'):
      keep = np.asarray(scores.valid)
      if self._config.mask_overlong:
        keep &= ~np.array([[t.clipped for t in row] for row in groups])
      if self._config.skip_zero_advantage:
        keep &= np.any(advantage_BGS != 0, axis=-1)
      batch = packer.pack(
        groups,
        length=self._packing.length,
        multiple=self._packing.multiple,
        keep=keep,
      )
    with self._clock('update'):
      targets = self._targets(params, batch, advantage_BGS)
    return Collected(batch, targets, metrics | token_counts(groups))

  def _draw(self, step, params):
    """Rolls out a batch; redraws silent groups where configured."""
    groups, scores = self._round(step, params, next(self._questions))
    metrics = self._measure(groups, scores)
    silent_B = self._silent(scores)
    metrics['zero_spread_fraction'] = float(silent_B.mean())
    valid = np.asarray(scores.valid)
    metrics['invalid_fraction'] = float(1 - valid.mean())
    metrics['reward'] = (
      float(np.asarray(scores.outcome)[valid].mean()) if valid.any() else None
    )
    if metrics['invalid_fraction'] > self._config.max_invalid_fraction:
      raise RuntimeError(
        f'{metrics["invalid_fraction"]:.0%} of the outcomes of step {step} are '
        'invalid: check the judge, or raise experience.max_invalid_fraction.'
      )
    for _ in range(self._config.redraws):
      if not silent_B.any():
        break
      fresh = self._round(step, params, next(self._questions))
      groups, scores = replace_silent(
        groups, scores, silent_B, *fresh, self._silent(fresh[1])
      )
      silent_B = self._silent(scores)
    return groups, scores, metrics

  def _silent(self, scores):
    return np.asarray(self._zero_spread(scores.outcome, scores.valid))

  def _round(self, step, params, questions):
    with self._clock('rollout'):
      groups = self._play(questions, params, step)
    with self._clock('rewards'):
      return groups, self._recipe.score(groups)

  def _targets(self, params, batch, advantage_BGS):
    advantage_NL = np.asarray(_spread(advantage_BGS, batch))
    old_NL = batch.sampler_logps
    if self._config.learner_old_logps:
      old_NL = np.asarray(self._logps(params, batch))
    ref_NL = old_NL
    if self._config.reference:
      ref_NL = np.asarray(self._logps(self.reference, batch))
    return Targets(
      advantage_NL, old_NL, ref_NL, batch.sampled.astype(np.float32)
    )
