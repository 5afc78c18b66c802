# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Our contestants of `benchmarks.rollout`: the engine, and lock step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax

from benchmarks.lock_step import LockStep
from benchmarks.workload import Setting, Texts, play
from searchrl_jax import sharding
from searchrl_jax.models import decoder
from searchrl_jax.rollout.model_policy import ModelPolicy
from searchrl_jax.types import Sampling

SAMPLING = Sampling()


def engine(config):
  """`ModelPolicy`; returns what measures a setting."""
  return _measure(config, make_engine)


def lock_step(config, *, again: bool):
  """`LockStep`; returns what measures a setting."""

  def make(model, params, setting):
    workload = setting.workload
    policy = LockStep(
      model,
      Texts(config.vocabulary),
      (),
      rows=setting.rows,
      capacity=workload.capacity,
      max_new_tokens=workload.longest,
      again=again,
    )
    _begin(policy, params)
    read = [workload.prompt, workload.reply]
    policy.warm_up(workload.contexts() if again else read, workload.group)
    return policy

  return _measure(config, make)


def make_engine(model, params, setting: Setting) -> ModelPolicy:
  """A policy of the engine, compiled."""
  policy = ModelPolicy(
    model,
    Texts(model.config.vocabulary),
    (),
    rows=setting.rows,
    width=setting.width,
    capacity=setting.workload.capacity,
    max_new_tokens=setting.workload.longest,
    mesh=sharding.make_mesh(devices=jax.devices()[:1]),
  )
  _begin(policy, params)
  policy.warm_up()
  return policy


def _begin(policy, params) -> None:
  policy.load(params)
  policy.use(SAMPLING, jax.random.key(0))


def _measure(config, make: Callable):
  """Keeps the policy of the last rows and workload, warm."""
  model = decoder.make_model(config)
  params = model.init(jax.random.key(0))
  kept = {}

  def measure(setting: Setting):
    name = (setting.workload, setting.rows, setting.width)
    if name not in kept:
      kept.clear()  # two caches at a time may be too much
      kept[name] = make(model, params, setting)
      _touch(kept[name], config.vocabulary, setting)
    return play(kept[name], config.vocabulary, setting)

  return measure


def _touch(policy, vocabulary: int, setting: Setting) -> None:
  """Plays a few short turns, uncounted."""
  workload = setting.workload
  short = dataclasses.replace(
    workload, shortest=2, longest=2, searches=min(1, workload.searches)
  )
  few = dataclasses.replace(
    setting, workload=short, trajectories=workload.group
  )
  play(policy, vocabulary, few)
