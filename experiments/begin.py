# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a run begins with: its last checkpoint, shared weights, or new ones.

The weights with which reinforcement learning begins are kept for good, in
`warm_start/` of the workdir: other runs share them (`init_from`), and they are
the reference of a KL term, also after an interruption.
"""

import dataclasses
import pathlib
from typing import Any

import jax

from searchrl_jax import checkpoint


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Weights:
  """A state without an optimizer."""

  params: Any
  step: Any


WARM_START = 'warm_start'  # its folder in a workdir


def begin(config, learner, checkpoints, questions, counters) -> tuple[Any, int]:
  """The state to go on with and the number of steps behind it.

  Questions and counters are set to where they were.
  """
  state = learner.init()
  if checkpoints.latest() is not None:
    restored = checkpoints.restore(state)
    questions.set_state(restored.data)
    for name, value in restored.progress.items():
      setattr(counters, name, value)
    print(f'going on after step {restored.step}.')
    return restored.state, restored.step
  if config.init_from:
    place = pathlib.Path(config.init_from)
    if (place / WARM_START).is_dir():
      place = place / WARM_START
    step, params = checkpoint.restore_params(place, state.params)
    print(f'beginning with the weights of step {step} in {place}.')
    state = learner.init_with(params)
  return state, 0


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
