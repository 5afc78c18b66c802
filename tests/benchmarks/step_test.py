# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of a step runs and prints what it promises."""

import json
import types
from unittest import mock

import pytest

from benchmarks import step
from experiments import cli
from experiments.configs import base


@pytest.mark.slow
def test_a_step_is_measured(capsys):
  config = base.get_config()
  sizes = {'persons': 6, 'cities': 4, 'companies': 4, 'films': 4}
  with config.unlocked():
    config.world.update(countries=3, **sizes)
    config.model.sizes.update(
      width=16, layers=1, heads=2, kv_heads=1, head_width=8
    )
    config.rollout.update(questions=2, group=2)
    config.warm_start.questions = 4
    config.warm_start.sft_optimizer.warmup_steps = 0
  with (
    mock.patch.object(cli, 'SEED', types.SimpleNamespace(value=0)),
    mock.patch.multiple(step, _DEMONSTRATIONS=2, _STEPS=2),
  ):
    step.main(config)
  result = json.loads(capsys.readouterr().out)
  for name in (
    'rollout_tokens_per_s',
    'update_tokens_per_s',
    'compiled_programs',
    'peak_rss_mb',
    'seconds_per_step',
  ):
    assert result[name] > 0, name
  # Rollouts and updates are parts of a step.
  seconds = result['tokens_per_step'] / result['rollout_tokens_per_s']
  seconds += result['tokens_per_step'] / result['update_tokens_per_s']
  assert seconds < result['seconds_per_step']
