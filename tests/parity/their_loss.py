# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The loss of an update once more, in PyTorch, segment by segment.

Written from the formulas of `docs/methods.md`, for reading, not for speed: it
walks over segments where ours computes on whole rows, and its model runs the
packed rows by a mask that is given to it whole.
"""

import numpy as np
import torch

from searchrl_jax.training.losses import LossConfig
from searchrl_jax.types import Batch, Targets


def scores(model, batch: Batch, temperature: float):
  """(logps, entropy) `[N, L]` of packed rows; column 0 means nothing."""
  segments = torch.as_tensor(batch.segment_ids)
  length = segments.shape[1]
  visible = segments[:, :, None] == segments[:, None, :]
  visible &= torch.ones(length, length, dtype=torch.bool).tril()
  mask = torch.where(visible, 0.0, torch.finfo(torch.float32).min)
  tokens = torch.as_tensor(batch.tokens, dtype=torch.long)
  logits = model(
    input_ids=tokens,
    position_ids=torch.as_tensor(batch.positions, dtype=torch.long),
    attention_mask=mask[:, None],
    use_cache=False,
  ).logits
  distribution = torch.log_softmax(logits / temperature, dim=-1)
  entropy = -(distribution.exp() * distribution).sum(-1)
  chosen = distribution[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
  first = torch.zeros(len(tokens), 1)
  return torch.cat([first, chosen], 1), torch.cat([first, entropy[:, :-1]], 1)


def loss(logps, entropy, batch: Batch, targets: Targets, config: LossConfig):
  """The scalar that is minimised."""
  kept = list(_kept_segments(batch, targets))
  weights = [targets.weight[row, columns] for row, columns in kept]
  tokens = float(sum(weight.sum() for weight in weights))
  segments = float(sum(weight.mean() for weight in weights))
  total = torch.zeros(())
  for (row, columns), weight in zip(kept, weights, strict=True):

    def at(array, row=row, columns=columns):
      return torch.as_tensor(array)[row, columns]

    logp, old, advantage = (
      at(x) for x in (logps, targets.old_logps, targets.advantage)
    )
    term = _surrogate(logp, old, advantage, config)
    term = term * _off_policy(old, at(batch.sampler_logps), config)
    difference = at(targets.ref_logps) - logp
    kl = {
      'none': torch.zeros_like(logp),
      'k1': -difference,
      'k2': difference**2 / 2,
      'k3': difference.exp() - difference - 1,
    }[config.kl]
    term = term + config.kl_weight * kl
    term = term - config.entropy_weight * at(entropy)
    weight = torch.as_tensor(weight)
    denominator = {
      'token_mean': tokens,
      'segment_mean': len(columns) * segments,
      'constant_length': segments * config.constant_length,
    }[config.aggregation]
    total = total + (weight * term).sum() / denominator
    if config.llds:
      drop = _likelihood_drop(logp, old, advantage, at(batch.turn_id))
      total = total + config.llds_weight * (weight * drop).sum() / tokens
  return total


def _kept_segments(batch, targets):
  """(row, columns of its sampled tokens that weigh something)."""
  keep = batch.sampled & (targets.weight > 0)
  for row, ids in enumerate(batch.segment_ids):
    for number in sorted(set(ids.tolist()) - {0}):
      columns = np.flatnonzero((ids == number) & keep[row])
      if len(columns):
        yield row, columns


def _surrogate(logp, old, advantage, config):
  if config.surrogate == 'likelihood':
    return -advantage * logp
  change = logp - old
  if config.ratio == 'sequence':
    change = change.mean().detach() + logp - logp.detach()
  ratio = change.exp()
  clipped = ratio.clamp(1 - config.clip_low, 1 + config.clip_high)
  return -torch.minimum(ratio * advantage, clipped * advantage)


def _off_policy(old, sampler, config):
  weight = (old - sampler).exp()
  inside = (config.band_low <= weight) & (weight <= config.band_high)
  return {
    'none': torch.ones_like(weight),
    'truncated': weight.clamp(max=config.truncate_at),
    'band': weight * inside,
  }[config.off_policy]


def _likelihood_drop(logp, old, advantage, turns):
  """max(0, old - logp) of turns that fell, in segments that are not bad."""
  drop = torch.zeros_like(logp)
  if advantage.sum() < 0:
    return drop
  for turn in sorted(set(turns.tolist())):
    here = turns == turn
    if (old - logp)[here].sum() > 0:
      drop = drop + here * (old - logp).clamp(min=0)
  return drop
