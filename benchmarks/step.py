# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Learning steps of the default policy: speed, programs, memory.

  python -m benchmarks.step [--config.rollout.questions=16 ...]

Demonstrates for a few steps, so that the policy searches, then takes learning
steps of CW-GRPO as a run would, the first of them uncounted (it compiles).
Prints one JSON object: `rollout_tokens_per_s` counts every token of the
trajectories, prompts and replies included; `update_tokens_per_s` those of the
trajectories that entered the update; `seconds_per_step` is all of a step.
"""

import json
import platform
import resource
import time

import jax

from experiments import cli, cwgrpo
from experiments.assembly import assemble
from searchrl_jax.training import loop

_DEMONSTRATIONS = 60
_STEPS = 8  # counted


def main(config) -> None:
  """Measures and prints."""
  with config.unlocked():
    config.warm_start.update(drill_steps=0, sft_steps=_DEMONSTRATIONS)
    config.training.steps = _STEPS + 1
    # Every trajectory is trained on, whatever its advantage.
    config.experience.skip_zero_advantage = False
  run = assemble(cwgrpo.EXPERIMENT, config, cli.SEED.value)
  stages = run.phases(
    record=lambda *step: None,
    keep=lambda state: None,
    reference=lambda: run.learner.params,
  )
  rows_logged, moments = [], []

  def after_step(step, phase, in_phase, state):
    with run.clock('update'):
      jax.block_until_ready(state.params)
    moments.append((time.perf_counter(), run.clock.snapshot()))

  hooks = loop.Hooks(
    log=rows_logged.append, evaluate=after_step, save=lambda *step: None
  )
  loop.train(
    stages,
    run.learner.init(),
    done=0,
    clock=run.clock,
    hooks=hooks,
    save_every=_DEMONSTRATIONS + _STEPS + 1,
    max_skipped=0,
  )
  counted = rows_logged[-_STEPS:]
  rows = config.rollout.questions * config.rollout.group
  tokens = rows * sum(
    row['sampled_tokens'] + row['given_tokens'] for row in counted
  )
  (began, before), (ended, after) = moments[-_STEPS - 1], moments[-1]
  result = {
    'rollout_tokens_per_s': tokens / (after['rollout'] - before['rollout']),
    'update_tokens_per_s': tokens / (after['update'] - before['update']),
    'compiled_programs': run.compiled_programs,
    'peak_rss_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    'seconds_per_step': (ended - began) / _STEPS,
    'steps': _STEPS,
    'tokens_per_step': tokens / _STEPS,
    'machine': f'{platform.processor() or platform.machine()}, '
    f'{jax.device_count()} x {jax.devices()[0].device_kind}, '
    f'jax {jax.__version__}',
  }
  print(json.dumps(result, indent=2))


if __name__ == '__main__':
  cli.run(main)
