# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""CW-GRPO: the outcome advantage, moved to the search turns that earned it.

arXiv:2604.14267. A judge gives every search turn of a successful trajectory
two verdicts: the retrieval was useful (u) and the reasoning was correct (v).
The contribution is p = u * v, and the trajectory's advantage is redistributed
over its search turns in proportion to softmax(alpha * p). No value function
is learned, and nothing is added: the mean over search turns is kept.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from searchrl_jax import types
from searchrl_jax.credit import grpo

# (useful_BGS, correct_BGS, search_turn_BGS) -> contribution_BGS
Contribution = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

# From this sharpness on, the authors' released code switches from the softmax
# to plain proportions (its published setting of 100 stands for infinity).
_RELEASED_SWITCH = 10.0


def contributions(useful_BGS, correct_BGS, search_turn_BGS):
  """p = u * v on search turns: useful retrieval *and* correct reasoning.

  A trajectory with a search turn whose verdict is not finite gets p = 0 as a
  whole, so that it falls back to equal shares instead of a half-judged split.

  Args:
    useful_BGS: u in [0, 1]; NaN where there is no verdict.
    correct_BGS: v in [0, 1]; NaN where there is no verdict.
    search_turn_BGS: which turns are searches.

  Returns:
    Contributions `[B, G, S]` in [0, 1], 0 off the search turns.
  """
  chex.assert_rank(useful_BGS, 3)
  chex.assert_equal_shape([useful_BGS, correct_BGS, search_turn_BGS])
  known_BGS = jnp.isfinite(useful_BGS) & jnp.isfinite(correct_BGS)
  whole_BG1 = jnp.all(known_BGS | ~search_turn_BGS, axis=-1, keepdims=True)
  counts_BGS = known_BGS & search_turn_BGS & whole_BG1
  useful_BGS = jnp.where(counts_BGS, useful_BGS, 0.0)
  correct_BGS = jnp.where(counts_BGS, correct_BGS, 0.0)
  return (useful_BGS * correct_BGS).astype(jnp.float32)


def useful_alone(useful_BGS, correct_BGS, search_turn_BGS):
  """Ablation: p = u, the retrieval verdict alone. Shapes of `contributions`."""
  chex.assert_equal_shape([useful_BGS, correct_BGS, search_turn_BGS])
  return contributions(useful_BGS, jnp.ones_like(useful_BGS), search_turn_BGS)


def correct_alone(useful_BGS, correct_BGS, search_turn_BGS):
  """Ablation: p = v, the reasoning verdict alone. Shapes of `contributions`."""
  chex.assert_equal_shape([useful_BGS, correct_BGS, search_turn_BGS])
  return contributions(jnp.ones_like(correct_BGS), correct_BGS, search_turn_BGS)


def _softmax_shares(contribution_BGS, search_turn_BGS, alpha):
  """softmax(alpha * p) over search turns; alpha = inf is its limit.

  Written in the distance to the best turn, which has power 1: the sum is >= 1
  wherever there is a search, and inf * 0 is never formed.
  """
  among_BGS = jnp.where(search_turn_BGS, contribution_BGS, -jnp.inf)
  best_BG1 = among_BGS.max(axis=-1, keepdims=True, initial=-jnp.inf)
  behind_BGS = best_BG1 - contribution_BGS
  worse_BGS = search_turn_BGS & (behind_BGS > 0)
  exponent_BGS = alpha * jnp.where(worse_BGS, behind_BGS, 1.0)
  power_BGS = jnp.exp(-jnp.where(worse_BGS, exponent_BGS, 0.0))
  power_BGS = jnp.where(search_turn_BGS, power_BGS, 0.0)
  return power_BGS / jnp.maximum(power_BGS.sum(-1, keepdims=True), 1.0)


def _released_shares(contribution_BGS, search_turn_BGS, alpha):
  """p / sum(p) from alpha = 10 on (all 0 where all p are), else softmax."""
  total_BG1 = contribution_BGS.sum(axis=-1, keepdims=True)
  safe_BG1 = jnp.where(total_BG1 > 0, total_BG1, 1.0)
  softmax_BGS = _softmax_shares(contribution_BGS, search_turn_BGS, alpha)
  plain_BGS = contribution_BGS / safe_BG1
  return jnp.where(alpha >= _RELEASED_SWITCH, plain_BGS, softmax_BGS)


def redistribute(
  advantage_BG,
  contribution_BGS,
  search_turn_BGS,
  answer_turn_BGS,
  concentrate_BG,
  *,
  alpha,
  release_compatible=False,
):
  """Moves a trajectory's advantage to the search turns that earned it.

  CW-GRPO (arXiv:2604.14267): c_t = softmax_t(alpha * p_t) and
  A_t = A * c_t * K over the K search turns of a trajectory to concentrate;
  A_t = A on every search turn of any other, and on the turns that are no
  search. The mean over search turns is A exactly, whatever alpha.

      p      1     0     1   answer        A = .8660, alpha = 1
      A_t  1.10  .40  1.10    .87

  Args:
    advantage_BG: outcome advantage of each rollout.
    contribution_BGS: p in [0, 1]; read on search turns only, where a value
      that is not finite counts as 0.
    search_turn_BGS: which turns are searches.
    answer_turn_BGS: the turns that keep A: the answer, and whatever else is
      no search (a malformed action is not a free one).
    concentrate_BG: trajectories whose searches get unequal shares.
    alpha: sharpness, >= 0; 0 is uniform, inf shares equally among the turns
      with the largest p. A number or a traced scalar.
    release_compatible: shares as in the released code, which from alpha = 10
      on divides p by its sum and gives every search 0 where all p are 0.

  Returns:
    Per-turn advantages `[B, G, S]`, 0 where there is no turn.

  Raises:
    ValueError: alpha is a negative number or NaN.
  """
  chex.assert_rank([advantage_BG, contribution_BGS], [2, 3])
  chex.assert_equal_shape([contribution_BGS, search_turn_BGS, answer_turn_BGS])
  chex.assert_equal_shape([advantage_BG, concentrate_BG])
  chex.assert_equal_shape_prefix([advantage_BG, contribution_BGS], 2)
  if isinstance(alpha, int | float) and not alpha >= 0:
    raise ValueError(f'alpha is {alpha}: use a number from 0 to inf.')
  counts_BGS = search_turn_BGS & jnp.isfinite(contribution_BGS)
  contribution_BGS = jnp.where(counts_BGS, contribution_BGS, 0.0)
  shares = _released_shares if release_compatible else _softmax_shares
  share_BGS = shares(contribution_BGS, search_turn_BGS, alpha)
  searches_BG1 = search_turn_BGS.sum(axis=-1, keepdims=True)
  factor_BGS = jnp.where(
    concentrate_BG[..., None], share_BGS * searches_BG1, 1.0
  )
  factor_BGS = jnp.where(search_turn_BGS, factor_BGS, 1.0)
  exists_BGS = search_turn_BGS | answer_turn_BGS
  return jnp.where(exists_BGS, advantage_BG[..., None] * factor_BGS, 0.0)


def _signal(scores, name):
  """A signal by name, as float32."""
  if name not in scores.signals:
    raise ValueError(
      f'CW-GRPO reads the signal {name!r}, but the scores carry '
      f'{sorted(scores.signals)}: use a score function with a turn judge.'
    )
  return jnp.asarray(scores.signals[name], jnp.float32)


def advantages(
  scores: types.Scores,
  *,
  alpha=2.0,
  contribution: Contribution = contributions,
  concentrate_failures=False,
  baseline: grpo.Baseline = grpo.advantages,
  release_compatible=False,
):
  """CW-GRPO as a credit: outcome advantages, redistributed over searches.

  Redistributed are the trajectories that are successful *and* not below their
  group's mean, A >= 0: with graded outcomes a partly right trajectory below
  the mean must not have its useful turns punished most. A trajectory with an
  unjudged search turn keeps equal shares as a whole.

  Args:
    scores: reads `outcome`, `success`, `valid`, `kind`, `judged` and, in
      [0, 1] on search turns, the signals `retrieval_useful` (the turn fetched
      new evidence for the question) and `reasoning_correct` (its context was
      interpreted correctly).
    alpha: sharpness of the shares, 0 to inf; see `redistribute`.
    contribution: how the two signals become p; `useful_alone` and
      `correct_alone` are the published ablations.
    concentrate_failures: the published ablation that redistributes failed
      trajectories too, by the same formula: where A < 0 the turns with the
      largest p take most of the blame. It needs a judge that is asked about
      failures; unjudged ones keep equal shares.
    baseline: the group baseline of the outcome.
    release_compatible: arithmetic of the released code: see `redistribute`;
      also, every trajectory with A >= 0 is redistributed, successful or not.

  Returns:
    Per-turn advantages `[B, G, S]`, 0 where there is no turn.

  Raises:
    ValueError: a signal is missing, or alpha is negative.
  """
  chex.assert_rank([scores.outcome, scores.kind], [2, 3])
  chex.assert_equal_shape([scores.outcome, scores.success, scores.valid])
  chex.assert_equal_shape([scores.kind, scores.judged])
  useful_BGS = _signal(scores, 'retrieval_useful')
  correct_BGS = _signal(scores, 'reasoning_correct')
  search_BGS = scores.kind == types.Kind.SEARCH
  other_BGS = (scores.kind != types.Kind.NONE) & ~search_BGS
  known_BGS = (
    scores.judged & jnp.isfinite(useful_BGS) & jnp.isfinite(correct_BGS)
  )
  judged_BG = jnp.all(known_BGS | ~search_BGS, axis=-1)
  advantage_BG = baseline(scores.outcome, scores.valid)
  earned_BG = advantage_BG >= 0
  if not release_compatible:
    earned_BG = earned_BG & scores.success
  if concentrate_failures:
    earned_BG = earned_BG | ~scores.success
  return redistribute(
    advantage_BG,
    contribution(useful_BGS, correct_BGS, search_BGS),
    search_BGS,
    other_BGS,
    earned_BG & judged_BG,
    alpha=alpha,
    release_compatible=release_compatible,
  )
