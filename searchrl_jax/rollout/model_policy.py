# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A model that draws, its cache alive across the turns of a batch."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from searchrl_jax import sharding
from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.rollout import device
from searchrl_jax.rollout.policy import Said
from searchrl_jax.rollout.programs import Program
from searchrl_jax.rollout.sampling import question_hash
from searchrl_jax.rollout.stops import compile_stops
from searchrl_jax.types import Sampling


@dataclasses.dataclass
class Counters:
  """Work done by a model policy, in tokens."""

  prefilled_tokens: int = 0  # given tokens run through the model
  decoded_tokens: int = 0  # sampled tokens


def bucket(length: int, least: int = 16) -> int:
  """The next of 16, 24, 32, 48, 64, 96, …: few shapes, little padding."""
  size = least
  while size < length:
    size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
  return size


def _pad(rows: Sequence[Sequence[int]], count: int, capacity: int):
  """Right-pads id lists into [count, T] with T a bucket; returns counts."""
  counts = np.zeros(count, np.int32)
  counts[: len(rows)] = [len(row) for row in rows]
  # The last bucket may be wider than the cache: what is in it never is.
  width = min(bucket(counts.max()), capacity)
  tokens = np.zeros((count, width), np.int32)
  for i, row in enumerate(rows):
    tokens[i, : len(row)] = row
  return tokens, counts


class ModelPolicy:
  """Samples from a decoder whose cache lives across the turns of a batch.

  Shapes depend on the configuration alone (R rows, bucketed lengths), so that
  a partial batch compiles nothing new. Every device of the mesh decodes its
  own rows; no collective is needed, and the loops of the devices need not run
  equally long.

  Attributes:
    rows: R, a multiple of every group size it is started with.
    counters: work done so far.
  """

  def __init__(
    self,
    model,
    tokenizer: tokenizers.Tokenizer,
    stops: Sequence[str],
    *,
    rows: int,
    capacity: int,
    max_new_tokens: int,
    mesh,
  ):
    self.counters = Counters()
    self._model = model
    self.rows = rows
    self._capacity = capacity
    self._length = max_new_tokens
    self._mesh = mesh
    self._stop_table = compile_stops(
      stops, tokenizer.token_bytes, tokenizer.eos_ids
    )
    self._programs: dict = {}
    # Every device decodes with all of the weights, wherever the learner has
    # them: gathered here, once per phase, instead of at every token.
    self._unstack = jax.jit(
      model.unstack, out_shardings=NamedSharding(mesh, sharding.REPLICATED)
    )
    self._params = None
    self._sampling = Sampling()
    self._key = None

  # --- parameters and settings ---

  def load(self, params) -> None:
    """Takes the weights to sample with, laid out for decoding once."""
    self._params = None  # two copies at a time would be the peak of a run
    self._params = self._unstack(params)

  def use(self, sampling: Sampling, key) -> None:
    """Sets how, and with which key, the next rollouts are drawn."""
    self._sampling = sampling
    self._key = key

  @property
  def compiled_programs(self) -> int:
    """Programs compiled so far for prefill, extend and decode."""
    return sum(program.compiled for program in self._programs.values())

  def _program(self, function, specs, out_specs, donate, **static):
    """A jitted, row-sharded version of a function of `device.py`."""
    name = (function.__name__, *static.items())
    if name not in self._programs:
      body = functools.partial(function, self._model, **static)
      sharded = jax.shard_map(
        body,
        mesh=self._mesh,
        in_specs=specs,
        out_specs=out_specs,
        check_vma=False,
      )
      self._programs[name] = Program(sharded, donate_argnums=donate)
    return self._programs[name]

  # --- the protocol ---

  def start(self, prompts, group):
    if len(prompts) * group > self.rows or self.rows % group:
      raise ValueError(
        f'{len(prompts)} prompts with {group} rollouts each do not fit into '
        f'{self.rows} rows; use fewer questions, or rows a multiple of the '
        'group.'
      )
    tokens_BT, count_B = _pad(prompts, self.rows // group, self._capacity)
    program = self._program(
      device.prefill,
      (P(), device.ROWS, device.ROWS),
      device.ROWS,
      (),
      group=group,
      capacity=self._capacity,
    )
    self._rows = None  # its cache goes before the next one comes
    self._rows = program(self._params, tokens_BT, count_B)
    self._lengths = np.repeat(count_B, group)
    self.counters.prefilled_tokens += int(count_B.sum())

  def draw(self, asked):
    fields = np.zeros((4, self.rows), np.uint32)
    for item in asked:
      fields[:, item.row] = (
        question_hash(item.question),
        item.rollout,
        len(item.turns),
        item.budget,
      )
    question_R, rollout_R, turn_R, budget_R = fields
    rows = device.ROWS
    program = self._program(
      device.decode,
      (P(), device.ROWS, P(), rows, rows, rows, rows, P()),
      (device.ROWS, rows),
      (1,),
      length=self._length,
      sampling=self._sampling,
    )
    self._rows, drawn = program(
      self._params,
      self._rows,
      self._key,
      question_R,
      rollout_R,
      turn_R,
      budget_R.astype(np.int32),
      self._stop_table,
    )
    drawn = jax.device_get(drawn)
    self._lengths += drawn.count
    self.counters.decoded_tokens += int(drawn.count.sum())
    said = []
    for item in asked:
      n = drawn.count[item.row]
      said.append(
        Said(
          drawn.tokens[item.row, :n],
          drawn.logps[item.row, :n],
          bool(drawn.stopped[item.row]),
        )
      )
    return said

  def append(self, given):
    self._extend(given, self._lengths.copy())

  def rebuild(self, prompts):
    keep_R = self._lengths.copy()
    keep_R[list(prompts)] = 0
    self._extend(prompts, keep_R)

  def _extend(self, given, keep_R):
    if not given:
      return
    ordered = [given.get(row, ()) for row in range(self.rows)]
    tokens_RT, count_R = _pad(ordered, self.rows, self._capacity)
    rows = device.ROWS
    program = self._program(
      device.extend, (P(), device.ROWS, rows, rows, rows), device.ROWS, (1,)
    )
    self._rows = program(self._params, self._rows, tokens_RT, count_R, keep_R)
    self._lengths = keep_R + count_R
    self.counters.prefilled_tokens += int(count_R.sum())
