# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The loss of an update: a surrogate, a KL, an entropy bonus, LLDS.

`logps_NL[n, t]` is the log-prob of token t given the earlier tokens of its
segment, `entropy_NL[n, t]` the entropy of the distribution it was drawn from.
Both mean something on sampled tokens only, and only those are read:

    segment_ids  1 1 1 1 1 2 2 2 0
    sampled      0 1 1 0 1 0 1 1 0
    weight       ? 1 1 ? 1 ? 0 0 ?      0 leaves a sampled token out
    acts on        * *   *

Everything else is replaced by 0 before any arithmetic, so that an inf or NaN
there reaches neither the loss nor its gradient. A non-finite number on a token
that counts does reach the loss: the update is then skipped, not repaired.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import chex
import jax
import jax.numpy as jnp

from searchrl_jax import types
from searchrl_jax.training import aggregation, kl, llds, ratio, surrogate

Metrics = dict[str, jax.Array]

# (logps_NL, entropy_NL, batch, targets, counts) -> (loss, metrics)
Loss = Callable[
  [jax.Array, jax.Array, types.Batch, types.Targets, aggregation.Counts],
  tuple[jax.Array, Metrics],
]


@dataclasses.dataclass(frozen=True)
class LossConfig:
  """The loss in words. Defaults are published values."""

  # 'clipped' (PPO) or 'likelihood' (-A logp, supervised warm start).
  surrogate: str = 'clipped'
  # The ratio is clipped to [1 - clip_low, 1 + clip_high] (DAPO). A sequence
  # ratio needs much smaller ones (GSPO: 3e-4 and 4e-4).
  clip_low: float = 0.2
  clip_high: float = 0.28
  # 'token', or 'sequence' (GSPO: one ratio per segment).
  ratio: str = 'token'
  # 'token_mean' (DAPO), 'segment_mean' (GRPO), 'constant_length' (Dr. GRPO).
  aggregation: str = 'token_mean'
  # Tokens; read by 'constant_length' only. A run's response budget; CW-GRPO's.
  constant_length: float = 8192.0
  # 'k1', 'k2', 'k3' to the reference, or 'none'.
  kl: str = 'k3'
  # Loss per nat of KL (Search-R1, CW-GRPO).
  kl_weight: float = 0.001
  # Loss taken off per nat of entropy; 0 is off.
  entropy_weight: float = 0.0
  # Weight between sampler and old policy: 'none', 'truncated' (TIS) or
  # 'band' (IcePop).
  off_policy: str = 'none'
  # Largest weight of 'truncated'.
  truncate_at: float = 2.0
  # Smallest and largest weight that 'band' lets through.
  band_low: float = 0.5
  band_high: float = 2.0
  # Whether good trajectories are kept likely (LLDS), and by how much: loss
  # per nat of lost likelihood (.01 was found too weak).
  llds: bool = False
  llds_weight: float = 0.2


@dataclasses.dataclass(frozen=True)
class Parts:
  """The loss in functions. `clip_low`, `clip_high` are inf without a clip."""

  surrogate: surrogate.Surrogate
  ratio: ratio.Ratio
  aggregation: aggregation.Aggregation
  kl: kl.Kl
  off_policy: ratio.OffPolicy
  clip_low: float
  clip_high: float
  kl_weight: float
  entropy_weight: float
  llds_weight: float  # 0 leaves the part out


def _masked(keep_NL, value_NL):
  """The value where kept, else 0; its gradient is exactly 0 elsewhere."""
  chex.assert_equal_shape([keep_NL, value_NL])
  return jnp.where(keep_NL, value_NL, 0.0).astype(jnp.float32)


def evaluate(
  parts: Parts,
  logps_NL,
  entropy_NL,
  batch: types.Batch,
  targets: types.Targets,
  counts: aggregation.Counts,
) -> tuple[jax.Array, Metrics]:
  """The loss of a micro-batch, and what to log of it.

  Losses and metrics are divided by the *global* counts already: those of
  micro-batches and devices add up to those of the whole, except metrics whose
  name ends in `_max`, of which the largest counts (see `combine`). A
  micro-batch without a token that counts gives 0 everywhere, and gradient 0.

  The metrics are token means over what counts: `logp`, `entropy` and
  `kl` (k3 to the reference, whichever KL is trained on) in nats;
  `clip_low_fraction`, `clip_high_fraction` (tokens whose gradient the clip
  removed); `off_policy_weight`; `sampler_learner_gap`, mean |logps -
  sampler's logps| in nats: on the first update after sampling the weights are
  equal, and what it shows is two computations of one number that disagree;
  later updates add true drift. `ratio_max` is the largest ratio. `loss` is
  the sum of the parts `loss_surrogate`, `loss_kl`, `loss_entropy` and
  `loss_llds`, each already weighted.

  Args:
    parts: the functions that make up the loss.
    logps_NL: learner's log-probs, with gradient.
    entropy_NL: learner's entropies in nats, with gradient.
    batch: packed rows.
    targets: what to compare with; see `types.Targets`.
    counts: global denominators, summed over the whole update.

  Returns:
    (loss, metrics), all float32 scalars; the keys never depend on `parts`.
  """
  chex.assert_rank(logps_NL, 2)
  weight_NL = aggregation.kept_weight(batch, targets)
  keep_NL = weight_NL > 0
  logps_NL = _masked(keep_NL, logps_NL)
  entropy_NL = _masked(keep_NL, entropy_NL)
  advantage_NL = _masked(keep_NL, targets.advantage)
  old_NL = _masked(keep_NL, targets.old_logps)
  ref_NL = _masked(keep_NL, targets.ref_logps)
  sampler_NL = _masked(keep_NL, batch.sampler_logps)

  ratio_NL = parts.ratio(logps_NL, old_NL, keep_NL, batch.segment_ids)
  off_policy_NL = parts.off_policy(old_NL, sampler_NL)
  surrogate_NL = parts.surrogate(ratio_NL, logps_NL, advantage_NL)
  coefficient_NL = parts.aggregation(weight_NL, batch.segment_ids, counts)
  per_token_NL = aggregation.token_mean(weight_NL, batch.segment_ids, counts)

  def aggregate(term_NL):
    return (coefficient_NL * term_NL).sum()

  losses = {
    'loss_surrogate': aggregate(off_policy_NL * surrogate_NL),
    'loss_kl': parts.kl_weight * aggregate(parts.kl(logps_NL, ref_NL)),
    'loss_entropy': -parts.entropy_weight * aggregate(entropy_NL),
    'loss_llds': jnp.zeros(()),
  }
  if parts.llds_weight:
    drop_NL = llds.likelihood_drop(
      logps_NL, old_NL, advantage_NL, keep_NL, batch
    )
    losses['loss_llds'] = parts.llds_weight * (per_token_NL * drop_NL).sum()
  loss = sum(losses.values())

  lower_NL, upper_NL = surrogate.clip_events(
    ratio_NL, advantage_NL, low=parts.clip_low, high=parts.clip_high
  )
  means = {
    'logp': logps_NL,
    'entropy': entropy_NL,
    'kl': kl.k3(logps_NL, ref_NL),
    'clip_low_fraction': lower_NL,
    'clip_high_fraction': upper_NL,
    'off_policy_weight': off_policy_NL,
    'sampler_learner_gap': jnp.abs(logps_NL - sampler_NL),
  }
  metrics = {'loss': loss, **losses}
  for name, value_NL in means.items():
    metrics[name] = (per_token_NL * value_NL).sum()
  # Ratios are positive, so the 0 of masked tokens never wins.
  metrics['ratio_max'] = jnp.where(keep_NL, ratio_NL, 0.0).max()
  return loss, jax.lax.stop_gradient(metrics)


def combine(first: Metrics, second: Metrics) -> Metrics:
  """Metrics of two micro-batches as one: sums, and maxima of `_max` names."""
  return {
    name: jnp.maximum(value, second[name])
    if name.endswith('_max')
    else value + second[name]
    for name, value in first.items()
  }


def _choose(field: str, name: str, functions: Mapping[str, Any]):
  """The function of that name, or an error that names the legal ones."""
  if name not in functions:
    raise ValueError(
      f'loss.{field} is {name!r}: choose one of {", ".join(functions)}.'
    )
  return functions[name]


def _check(config: LossConfig):
  """Rejects numbers that no loss could mean."""
  for field in ('clip_low', 'clip_high', 'constant_length', 'truncate_at'):
    value = getattr(config, field)
    if not value > 0:
      raise ValueError(f'loss.{field} is {value}: choose a number above 0.')
  for field in ('kl_weight', 'entropy_weight', 'llds_weight'):
    value = getattr(config, field)
    if not value >= 0:
      raise ValueError(f'loss.{field} is {value}: choose 0 or more.')
  if not 0 <= config.band_low < config.band_high:
    raise ValueError(
      f'loss.band_low is {config.band_low}: choose it from 0 to below '
      f'loss.band_high, {config.band_high}.'
    )


def parts_of(config: LossConfig) -> Parts:
  """Turns the words of a config into the functions they name.

  Raises:
    ValueError: a word names nothing, or a number is out of range.
  """
  _check(config)
  clips = config.surrogate == 'clipped'
  low, high = config.clip_low, config.clip_high
  surrogates = {
    'clipped': functools.partial(surrogate.clipped, low=low, high=high),
    'likelihood': surrogate.likelihood,
  }
  ratios = {'token': ratio.token, 'sequence': ratio.sequence}
  aggregations = {
    'token_mean': aggregation.token_mean,
    'segment_mean': aggregation.segment_mean,
    'constant_length': functools.partial(
      aggregation.constant_length, length=config.constant_length
    ),
  }
  kls = {'none': kl.none, 'k1': kl.k1, 'k2': kl.k2, 'k3': kl.k3}
  weights = {
    'none': ratio.on_policy,
    'truncated': functools.partial(ratio.truncated, limit=config.truncate_at),
    'band': functools.partial(
      ratio.band, low=config.band_low, high=config.band_high
    ),
  }
  return Parts(
    surrogate=_choose('surrogate', config.surrogate, surrogates),
    ratio=_choose('ratio', config.ratio, ratios),
    aggregation=_choose('aggregation', config.aggregation, aggregations),
    kl=_choose('kl', config.kl, kls),
    off_policy=_choose('off_policy', config.off_policy, weights),
    clip_low=low if clips else float('inf'),
    clip_high=high if clips else float('inf'),
    kl_weight=config.kl_weight,
    entropy_weight=config.entropy_weight,
    llds_weight=config.llds_weight if config.llds else 0.0,
  )


def make_loss(config: LossConfig) -> Loss:
  """The loss a config describes: `evaluate` with its parts filled in.

  Raises:
    ValueError: a word names nothing, or a number is out of range.
  """
  return functools.partial(evaluate, parts_of(config))
