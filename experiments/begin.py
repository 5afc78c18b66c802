# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a run begins with: its last checkpoint, shared weights, or new ones.

The weights with which reinforcement learning begins are kept for good, in
`warm_start/` of the workdir: other runs share them (`init_from`), and they are
the reference of a KL term, also after an interruption.
"""

import dataclasses
import json
import pathlib
from typing import Any

import jax

from experiments.policy import Policy
from searchrl_jax import checkpoint
from searchrl_jax import workdir as workdirs


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Weights:
  """A state without an optimizer."""

  params: Any
  step: Any


WARM_START = 'warm_start'  # its folder in a workdir
_BASE = 'base.json'  # which frozen weights its adapters belong to


def begin(config, learner, checkpoints, questions, counters) -> tuple[Any, int]:
  """The state to go on with and the number of steps behind it.

  Questions and counters are set to where they were.
  """
  if checkpoints.latest() is not None:
    restored = checkpoints.restore(learner.template)
    questions.set_state(restored.data)
    for name, value in restored.progress.items():
      setattr(counters, name, value)
    print(f'going on after step {restored.step}.')
    return restored.state, restored.step
  if config.init_from:
    place = pathlib.Path(config.init_from)
    if (place / WARM_START).is_dir():
      place = place / WARM_START
    step, params = checkpoint.restore_params(place, learner.params_template)
    print(f'beginning with the weights of step {step} in {place}.')
    return learner.init_with(params), 0
  return learner.init(), 0


def keep_warm_start(workdir: pathlib.Path, identity, state) -> None:
  """Keeps the weights reinforcement learning begins with, once.

  After a kill between this and the next checkpoint the same weights are
  computed again, bit for bit, and are found here already.
  """
  place = workdir / WARM_START
  if checkpoint.saved_steps(place):
    return
  kept = checkpoint.Checkpoints(place, identity, keep=2, best_metric='none')
  kept.save(
    int(state.step),
    _Weights(state.params, state.step),
    rng=jax.random.key(0),
    data=None,
    progress=None,
    metrics={},
  )
  kept.close()


def reference(workdir: pathlib.Path, template) -> Any:
  """The weights that `keep_warm_start` kept."""
  return checkpoint.restore_params(workdir / WARM_START, template)[1]


def require_same_base(workdir: pathlib.Path, policy: Policy) -> None:
  """Refuses adapters beside other frozen weights than they were learned on.

  Raises:
    ValueError: where the weights are not those that `keep_base` noted.
  """
  path = workdir / _BASE
  if not policy.frozen or not path.exists():
    return
  there, here = json.loads(path.read_text()), _base(policy)
  if there['fingerprint'] != here['fingerprint']:
    raise ValueError(
      f'the adapters of {workdir} belong to weights from {there["origin"]}, '
      f'and those from {policy.origin} differ; provide the former.'
    )
  if there['scale'] != here['scale']:
    raise ValueError(
      f'the adapters of {workdir} count {there["scale"]} times, here '
      f'{here["scale"]} (lora.alpha / lora.rank); set both as there.'
    )


def keep_base(workdir: pathlib.Path, policy: Policy) -> None:
  """Notes which frozen weights the adapters of a workdir belong to."""
  if policy.frozen:
    workdirs.write_json(workdir / _BASE, _base(policy))


def _base(policy: Policy) -> dict:
  return {
    'origin': policy.origin,
    'fingerprint': policy.base_fingerprint,
    'scale': policy.model.config.lora.scale,
  }
