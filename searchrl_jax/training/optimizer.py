# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The optimizer: clipping, Adam, decoupled weight decay, a schedule.

Every config gives the same chain, so that the state of one phase (warm
start) has the structure of the next one's (reinforcement learning):

  gradients -> clip -> Adam -> + decay * parameters -> * -learning rate
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import optax

SCHEDULES = ('constant', 'linear', 'cosine')


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
  """AdamW (arXiv:1711.05101) with clipping and a learning-rate schedule.

  Attributes:
    learning_rate: the largest, reached after the warm-up.
    schedule: what follows the warm-up: constant, linear or cosine.
    warmup_steps: updates of linear growth; the first has 1 / warmup_steps.
    decay_steps: the update at which the decay ends, warm-up included; 0
      takes the number of updates of the phase.
    final_fraction: of the learning rate, where the decay ends.
    beta1, beta2, eps: of Adam.
    weight_decay: decoupled; not applied to norms and biases.
    clip_norm: largest global norm of a gradient; 0 does not clip.
  """

  learning_rate: float = 1e-6
  schedule: str = 'constant'
  warmup_steps: int = 0
  decay_steps: int = 0
  final_fraction: float = 0.1
  beta1: float = 0.9
  beta2: float = 0.999
  eps: float = 1e-8
  weight_decay: float = 0.0
  clip_norm: float = 1.0

  def __post_init__(self):
    if self.schedule not in SCHEDULES:
      raise ValueError(
        f'optimizer.schedule is {self.schedule!r}; choose one of: '
        f'{", ".join(SCHEDULES)}.'
      )
    if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
      raise ValueError(
        f'optimizer.beta1 and beta2 are {self.beta1} and {self.beta2}; both '
        'lie in [0, 1).'
      )
    for name in (
      'learning_rate',
      'warmup_steps',
      'decay_steps',
      'final_fraction',
      'eps',
      'weight_decay',
      'clip_norm',
    ):
      if not 0 <= getattr(self, name) < math.inf:
        raise ValueError(
          f'optimizer.{name} is {getattr(self, name)}; it must be a finite '
          'number, not negative.'
        )


def make_schedule(config: OptimizerConfig, steps: int) -> optax.Schedule:
  """Returns update -> learning rate; update 0 is the first.

    rate |      ______            warm-up w, decay until d, then flat
         |    /        \\ _
         |  /              \\ _______  final_fraction * rate
         +--w-----------------d---

  Update t < w has (t + 1) / w of the rate, so that none has zero. After it
  the share left, f = 1 - (t - w) / (d - w) clipped to [0, 1], moves the rate
  from 1 to final_fraction, linearly or as (1 + cos(pi (1 - f))) / 2.

  Args:
    config: of the optimizer.
    steps: updates of the phase, the decay's length where the config has none.

  Raises:
    ValueError: a decay that ends before its warm-up does.
  """
  warmup = config.warmup_steps
  end = config.decay_steps or steps
  if config.schedule != 'constant' and end <= warmup:
    raise ValueError(
      f'optimizer: the decay ends at update {end} but the warm-up takes '
      f'{warmup}; shorten warmup_steps or raise decay_steps.'
    )

  def rate(update):
    t = jnp.asarray(update, jnp.float32)
    rising = jnp.minimum((t + 1) / max(warmup, 1), 1.0)
    if config.schedule == 'constant':
      return config.learning_rate * rising
    left = 1 - jnp.clip((t - warmup) / (end - warmup), 0.0, 1.0)
    if config.schedule == 'cosine':
      left = (1 + jnp.cos(jnp.pi * (1 - left))) / 2
    falling = config.final_fraction + (1 - config.final_fraction) * left
    return config.learning_rate * jnp.where(t < warmup, rising, falling)

  return rate


def make_optimizer(
  config: OptimizerConfig, steps: int
) -> optax.GradientTransformation:
  """Builds the chain drawn at the top of this file.

  Moments and updates are float32 whatever the parameters are. The structure
  of the state depends on the parameters only, not on the config.

  Args:
    config: of the optimizer.
    steps: updates of the phase; see `make_schedule`.

  Raises:
    ValueError: an impossible schedule.
  """
  chain = optax.chain(
    optax.clip_by_global_norm(config.clip_norm or math.inf),
    optax.scale_by_adam(b1=config.beta1, b2=config.beta2, eps=config.eps),
    optax.add_decayed_weights(config.weight_decay, mask=decayed),
    optax.scale_by_learning_rate(make_schedule(config, steps)),
  )

  # Adam's second moment takes the dtype of the parameters, which may be
  # bfloat16; squares of gradients do not survive it.
  def init(params):
    return chain.init(_float32(params))

  def update(grads, opt_state, params):
    return chain.update(_float32(grads), opt_state, _float32(params))

  return optax.GradientTransformation(init, update)


def decayed(params: Any) -> Any:
  """True where weight decay applies: matrices, not norms and biases.

  A stacked norm is `[layers, D]`: below the key `layers` the first axis is
  the stack and does not count.
  """

  def is_matrix(path, param):
    stacked = any(getattr(key, 'key', None) == 'layers' for key in path)
    return param.ndim - stacked >= 2

  return jax.tree_util.tree_map_with_path(is_matrix, params)


def _float32(tree):
  return jax.tree.map(lambda x: x.astype(jnp.float32), tree)
