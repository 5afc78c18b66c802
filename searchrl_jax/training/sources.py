# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a step is fed with, wherever its trajectories come from.

Two sources make token rows through the same tool loop:

  demonstrations.py  an expert plays; advantage 1 on its tokens
  experience.py      the policy plays; scores -> credit -> spread
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from searchrl_jax.types import Batch, Groups, Targets


class TrainingStoppedError(RuntimeError):
  """A run that must not go on, with the reason for people."""


@dataclasses.dataclass(frozen=True)
class Collected:
  """One step's data, ready for the update, and the numbers to log."""

  batch: Batch
  targets: Targets
  metrics: Mapping[str, Any]


class Source(Protocol):
  def collect(self, step: int, params: Any) -> Collected:
    """The data of a step, numbered from 1 over the whole run."""


@dataclasses.dataclass(frozen=True)
class Packing:
  """Shape of packed rows: L tokens, N a multiple of `multiple`."""

  length: int
  multiple: int


def token_counts(groups: Groups) -> dict[str, float]:
  """Sampled and given tokens of a trajectory, on average."""
  rows = [row for members in groups for t in members for row in t.rows]
  count = sum(len(members) for members in groups)
  sampled = sum(int(row.sampled.sum()) for row in rows)
  total = sum(len(row.tokens) for row in rows)
  return {
    'sampled_tokens': sampled / count,
    'given_tokens': (total - sampled) / count,
  }
