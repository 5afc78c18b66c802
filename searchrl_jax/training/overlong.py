# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What to do with a trajectory that a length limit cut off.

Its outcome says little about its reasoning. DAPO (arXiv:2503.14476, section
3.4) offers two treatments: leave its tokens out of the loss, or lower its
reward gradually before the limit. The first decides which trajectories are
packed, the second acts on `Scores.outcome` before the group baseline; both
happen between scoring and the update (`experience.py`), hence this folder.
A masked trajectory stays in its group's statistics, since its outcome is
still what the policy earned.
"""

import chex
import jax.numpy as jnp


def mask(clipped_BG):
  """Weights 0 for trajectories cut by a limit, else 1.

  Args:
    clipped_BG: `Trajectory.clipped`.

  Returns:
    Weights `[B, G]` float32.
  """
  chex.assert_rank(clipped_BG, 2)
  return jnp.where(clipped_BG, 0.0, 1.0).astype(jnp.float32)


def soft_penalty(sampled_tokens_BG, *, limit, margin):
  """A penalty from 0 to -1 over the last `margin` tokens before the limit.

  DAPO, eq. 13. Only sampled tokens count: a long observation is not the
  policy's doing. With limit 100 and margin 20:

      tokens      80    90   100   120
      penalty      0   -.5    -1    -1

  Args:
    sampled_tokens_BG: sampled tokens of each trajectory.
    limit: tokens at which the penalty is full.
    margin: tokens over which it grows, 0 < margin <= limit.

  Returns:
    Penalties `[B, G]` float32 in [-1, 0], to be added to the outcome.

  Raises:
    ValueError: margin is out of range.
  """
  chex.assert_rank(sampled_tokens_BG, 2)
  if not 0 < margin <= limit:
    raise ValueError(
      f'overlong margin is {margin} tokens: choose it above 0 and at most '
      f'the limit of {limit}.'
    )
  tokens_BG = jnp.asarray(sampled_tokens_BG, jnp.float32)
  return jnp.clip(((limit - margin) - tokens_BG) / margin, -1.0, 0.0)
