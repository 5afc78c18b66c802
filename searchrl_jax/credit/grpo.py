# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Group-relative baselines: a rollout is compared with its siblings.

GRPO (arXiv:2402.03300), its variant without the division by the standard
deviation (Dr. GRPO, arXiv:2503.20783), and leave-one-out (RLOO,
arXiv:2402.14740). Only valid members of a group enter its statistics; an
outcome that is not finite is never valid, whatever the flag says.

    outcome  1  ?  0  1        mean of the three = 2/3, std = .5774
    valid    1  0  1  1
    A      .58  0 -1.15 .58
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from searchrl_jax import types

# Groups whose outcomes lie closer than this carry no preference: dividing by
# their standard deviation would amplify rounding.
SPREAD = 1e-6

# (outcome_BG, valid_BG) -> advantage_BG
Baseline = Callable[[jax.Array, jax.Array], jax.Array]


def _usable(outcome_BG, valid_BG):
  """Returns (outcome, valid), with 0 for every outcome that does not count."""
  outcome_BG = jnp.asarray(outcome_BG, jnp.float32)
  valid_BG = jnp.asarray(valid_BG, bool)
  chex.assert_rank(outcome_BG, 2)
  chex.assert_equal_shape([outcome_BG, valid_BG])
  valid_BG = valid_BG & jnp.isfinite(outcome_BG)
  return jnp.where(valid_BG, outcome_BG, 0.0), valid_BG


def zero_spread(outcome_BG, valid_BG):
  """Which groups say nothing: max - min over valid members <= 1e-6.

  A group with fewer than two valid members has nothing to compare and counts
  as one of these. Their share is worth logging; with dynamic sampling (DAPO,
  arXiv:2503.14476) they are redrawn.

  Args:
    outcome_BG: outcome rewards, any finite scale.
    valid_BG: which outcomes may be trusted.

  Returns:
    Booleans `[B]`.
  """
  outcome_BG, valid_BG = _usable(outcome_BG, valid_BG)
  # Without a valid member: -inf - inf = -inf, which is no spread either.
  highest_B = jnp.where(valid_BG, outcome_BG, -jnp.inf).max(axis=1)
  lowest_B = jnp.where(valid_BG, outcome_BG, jnp.inf).min(axis=1)
  return highest_B - lowest_B <= SPREAD


def _centred(outcome_BG, valid_BG):
  """Outcome minus the mean of the valid members, 0 where not valid."""
  count_B1 = valid_BG.sum(axis=1, keepdims=True)
  mean_B1 = outcome_BG.sum(axis=1, keepdims=True) / jnp.maximum(count_B1, 1)
  return jnp.where(valid_BG, outcome_BG - mean_B1, 0.0), count_B1


def advantages(outcome_BG, valid_BG, *, normalize_std=True, eps=1e-6):
  """GRPO: A = (r - mean) / (std + eps) within the group of a question.

  Mean and unbiased standard deviation (ddof 1) over the valid members. Groups
  without spread, or with fewer than two valid members, get exactly 0, and so
  do invalid members.

  Args:
    outcome_BG: outcome rewards, any finite scale.
    valid_BG: which outcomes may be trusted.
    normalize_std: False leaves A = r - mean (Dr. GRPO).
    eps: added to the standard deviation, in units of the outcome.

  Returns:
    Advantages `[B, G]`, finite everywhere.
  """
  silent_B1 = zero_spread(outcome_BG, valid_BG)[:, None]
  outcome_BG, valid_BG = _usable(outcome_BG, valid_BG)
  centred_BG, count_B1 = _centred(outcome_BG, valid_BG)
  if normalize_std:
    square_B1 = jnp.square(centred_BG).sum(axis=1, keepdims=True)
    std_B1 = jnp.sqrt(square_B1 / jnp.maximum(count_B1 - 1, 1))
    centred_BG = centred_BG / (std_B1 + eps)
  return jnp.where(silent_B1, 0.0, centred_BG)


def leave_one_out(outcome_BG, valid_BG):
  """RLOO: A = r - mean of the *other* valid members of the group.

  Equal to n / (n - 1) * (r - mean over all n valid members). Zeros as in
  `advantages`.

  Args:
    outcome_BG: outcome rewards, any finite scale.
    valid_BG: which outcomes may be trusted.

  Returns:
    Advantages `[B, G]`, finite everywhere.
  """
  silent_B1 = zero_spread(outcome_BG, valid_BG)[:, None]
  outcome_BG, valid_BG = _usable(outcome_BG, valid_BG)
  centred_BG, count_B1 = _centred(outcome_BG, valid_BG)
  scale_B1 = count_B1 / jnp.maximum(count_B1 - 1, 1)
  return jnp.where(silent_B1, 0.0, scale_B1 * centred_BG)


def turn_advantages(scores: types.Scores, *, baseline: Baseline = advantages):
  """GRPO as a credit: every turn of a rollout gets the rollout's advantage.

  Args:
    scores: reads `outcome`, `valid` and `kind`; no signals.
    baseline: the group baseline, e.g. `leave_one_out` or a partial of
      `advantages`.

  Returns:
    Advantages `[B, G, S]`, 0 where there is no turn.
  """
  chex.assert_rank(scores.kind, 3)
  chex.assert_equal_shape_prefix([scores.outcome, scores.kind], 2)
  advantage_BG = baseline(scores.outcome, scores.valid)
  return jnp.where(scores.kind != types.Kind.NONE, advantage_BG[..., None], 0.0)
