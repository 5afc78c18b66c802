# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a run fits into its devices, and what to change where it does not.

Changes are sought in the order of least harm: first those that cost time
alone, then those that change what is learned:

  model.remat            layer         the same numbers, more arithmetic
  training.microbatch    halves        the same loss, smaller passes
  training.logps_chunk   halves        the same log-probs, smaller products
  rollout.append_tokens  halves        the same rollouts, more calls
  rollout.rows           halves        the same rollouts, fewer at a time
  mesh.fsdp              more devices  the same update, traffic between them
  model.compute_dtype    bfloat16      rounding
  lora.rank              16            adapters learn, the weights do not

A change later in the list is made only where all before it do not suffice,
and those before it are taken back as far as the later one allows.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections

from experiments import parts
from searchrl_jax.models.config import DecoderConfig, Lora, Remat
from searchrl_jax.training.memory import Need, Work, need
from searchrl_jax.training.weigh import Backend, Devices, parted, shapes_of

GIB = 2**30
# What a container may take; a number, or "max".
_CONTAINER = pathlib.Path('/sys/fs/cgroup/memory.max')
_LEAST_CHUNK = 256  # below it a product with the head is slow
_LEAST_READ = 64  # below it reading a prompt is


@dataclasses.dataclass(frozen=True)
class Plan:
  """A run as its memory sees it.

  Attributes:
    decoder, devices, work: see `need`.
    reserved: rows among those of the work that are not for trajectories.
  """

  decoder: DecoderConfig
  devices: Devices
  work: Work
  reserved: int = 0

  @functools.cached_property
  def need(self) -> Need:
    """Bytes on each device."""
    return need(self.decoder, self.devices, self.work)


@dataclasses.dataclass(frozen=True)
class Proposal:
  """Changes of a config, key -> value, and the plan that they make."""

  changes: dict[str, Any]
  plan: Plan


def make_plan(
  config: ml_collections.ConfigDict, decoder: DecoderConfig, devices: Devices
) -> Plan:
  """What a config does at a time."""
  section, training = config.rollout, config.training
  rows = parts.make_rows(config)
  work = Work(
    micro_rows=training.microbatch,
    length=training.packed_length,
    chunk=training.logps_chunk,
    rows=rows.rows + rows.reserved,
    width=rows.width,
    capacity=section.context,
    append_rows=rows.append_rows,
    append_tokens=rows.append_tokens,
    reference=config.loss.kl != 'none',
  )
  return Plan(decoder, devices, work, rows.reserved)


def require_fitting(
  config: ml_collections.ConfigDict,
  decoder: DecoderConfig,
  mesh: Mapping[str, int],
) -> None:
  """Refuses a run that this machine cannot hold, before weights are made.

  Args:
    config: of the run.
    decoder: with the sizes of the weights.
    mesh: axis name -> size.

  Raises:
    ValueError: what is needed, what there is, and what would fit.
  """
  devices = Devices(**mesh, backend=backend_here())
  plan = make_plan(config, decoder, devices)
  count = devices.row_parts * devices.tensor
  limit = limit_bytes(config, count)
  if plan.need.total > limit:
    raise ValueError(refusal(plan, limit))


def backend_here() -> Backend:
  """That of the devices JAX sees."""
  if jax.default_backend() == 'cpu':
    return Backend.CPU
  return Backend.ACCELERATOR


def limit_bytes(config: ml_collections.ConfigDict, devices: int) -> float:
  """What one device of this machine may hold.

  Devices of a CPU share its memory, of which counts what is free now.
  """
  if config.memory.limit_gib:
    return config.memory.limit_gib * GIB
  if backend_here() is Backend.CPU:
    return _free_memory() / devices
  stats = jax.local_devices()[0].memory_stats() or {}
  return stats.get('bytes_limit', float('inf'))


def _free_memory() -> float:
  """Bytes that programs may still take; without end where nobody says."""
  try:
    with open('/proc/meminfo') as file:
      fields = dict(line.split(':') for line in file)
  except OSError:
    return float('inf')
  free = int(fields['MemAvailable'].split()[0]) * 1024
  try:  # a container may allow less than there is
    return min(free, int(_CONTAINER.read_text()))
  except (OSError, ValueError):  # no container, or one without a limit
    return free


def refusal(plan: Plan, limit: float) -> str:
  """One line: what is needed, what there is, what would fit."""
  largest = sorted(parts_of(plan.need).items(), key=lambda part: -part[1])[:3]
  named = ', '.join(f'{name} {amount(size)}' for name, size in largest)
  short = (
    f'each device needs {amount(plan.need.total)} ({named}, ...) and has '
    f'{amount(limit)}'
  )
  proposal = propose(plan, limit)
  need, flags = amount(proposal.plan.need.total), as_flags(proposal.changes)
  if proposal.plan.need.total <= limit:
    return f'{short}; {need} would do with {flags}.'
  return (
    f'{short}; nothing fits: {need} are needed'
    + (f' even with {flags}' if flags else ', and nothing can be changed')
    + '; take more or larger devices, a smaller model, or a shorter '
    'rollout.context and training.packed_length.'
  )


def parts_of(need: Need) -> dict[str, int]:
  """What there is while the fullest program runs, by name."""
  return need.held | need.passing[need.fullest]


def count_parameters(decoder: DecoderConfig) -> tuple[int, int]:
  """Numbers that learn, and all there are."""
  params = shapes_of(decoder)
  learned, _ = parted(decoder, params)
  return tuple(
    sum(leaf.size for leaf in jax.tree.leaves(tree))
    for tree in (learned, params)
  )


def amount(size: float) -> str:
  """Bytes for people: 28.4 GiB, 562 KiB."""
  units = {'GiB': 2**30, 'MiB': 2**20, 'KiB': 2**10, 'bytes': 1}
  name = next((name for name in units if size >= units[name]), 'bytes')
  value = size / units[name]
  return f'{value:.0f} {name}' if value >= 100 else f'{value:.3g} {name}'


def as_flags(changes: Mapping[str, Any]) -> str:
  """Changes of a config as a person types them."""
  return ' '.join(f'--config.{key}={value}' for key, value in changes.items())


# --- what could be changed ---------------------------------------------------

# A plan with more and more of one change: (changes of the config, plan).
Step = tuple[dict[str, Any], Plan]


def propose(plan: Plan, limit: float) -> Proposal:
  """The least harmful changes after which a plan fits.

  Returns:
    A proposal whose plan fits; where none does, the one that needs least.
  """
  taken = [0] * len(_KNOBS)  # how far each change goes
  best = _made(plan, taken)
  for k, knob in enumerate(_KNOBS):
    if best.plan.need.total <= limit:
      break
    # Of the settings of this knob, the mildest that fits or needs least.
    for setting in range(1, len(list(knob(best.plan))) + 1):
      tried = [*taken[:k], setting, *taken[k + 1 :]]
      made = _made(plan, tried)
      if made.plan.need.total < best.plan.need.total:
        taken, best = tried, made
      if best.plan.need.total <= limit:
        break
  if best.plan.need.total > limit:
    return best
  for k in reversed(range(len(_KNOBS))):  # most harmful first
    for setting in range(taken[k]):
      tried = [*taken[:k], setting, *taken[k + 1 :]]
      made = _made(plan, tried)
      if made.plan.need.total <= limit:
        taken, best = tried, made
        break
  return best


def _made(plan: Plan, settings: Sequence[int]) -> Proposal:
  """The plan with each change taken as far as its setting says."""
  changes = {}
  for knob, setting in zip(_KNOBS, settings, strict=True):
    steps = list(knob(plan))[:setting]
    if steps:
      more, plan = steps[-1]
      changes |= more
  return Proposal(changes, plan)


def _remat(plan: Plan) -> Iterator[Step]:
  if plan.decoder.remat is not Remat.LAYER:
    yield {'model.remat': 'layer'}, _decoder(plan, remat=Remat.LAYER)


def _microbatch(plan: Plan) -> Iterator[Step]:
  rows = plan.work.micro_rows
  while rows % (2 * plan.devices.row_parts) == 0:
    rows //= 2
    yield {'training.microbatch': rows}, _work(plan, micro_rows=rows)


def _logps_chunk(plan: Plan) -> Iterator[Step]:
  chunk = plan.work.chunk // 2
  while chunk >= _LEAST_CHUNK:
    yield {'training.logps_chunk': chunk}, _work(plan, chunk=chunk)
    chunk //= 2


def _append_tokens(plan: Plan) -> Iterator[Step]:
  tokens = plan.work.append_tokens // 2
  while tokens >= _LEAST_READ:
    yield (
      {'rollout.append_tokens': tokens},
      _work(plan, append_tokens=tokens),
    )
    tokens //= 2


def _rows(plan: Plan) -> Iterator[Step]:
  """Fewer rollouts in flight; those of a step take turns."""
  rows = most = plan.work.rows - plan.reserved
  while rows % (2 * plan.devices.row_parts) == 0:
    rows //= 2
    width = min(plan.work.width, rows)
    changes = {'rollout.rows': rows}
    if width < plan.work.width < most:  # a number of its own, now too large
      changes['rollout.decode_rows'] = width
    yield changes, _work(plan, rows=rows + plan.reserved, width=width)


def _fsdp(plan: Plan) -> Iterator[Step]:
  parts = plan.devices.row_parts
  for fsdp in range(plan.devices.fsdp + 1, parts + 1):
    if parts % fsdp == 0 and plan.decoder.width % fsdp == 0:
      devices = dataclasses.replace(plan.devices, data=parts // fsdp, fsdp=fsdp)
      yield {'mesh.fsdp': fsdp}, dataclasses.replace(plan, devices=devices)


def _compute_dtype(plan: Plan) -> Iterator[Step]:
  if plan.decoder.compute_dtype != jnp.bfloat16:
    narrow = _decoder(plan, compute_dtype=jnp.dtype(jnp.bfloat16))
    yield {'model.compute_dtype': 'bfloat16'}, narrow


def _lora(plan: Plan) -> Iterator[Step]:
  if plan.decoder.lora is None:
    adapters = {'lora.rank': Lora().rank}
    yield adapters, _decoder(plan, lora=Lora())
    yield (
      adapters | {'model.param_dtype': 'bfloat16'},
      _decoder(plan, lora=Lora(), param_dtype=jnp.dtype(jnp.bfloat16)),
    )


_KNOBS: tuple[Callable[[Plan], Iterator[Step]], ...] = (
  _remat,
  _microbatch,
  _logps_chunk,
  _append_tokens,
  _rows,
  _fsdp,
  _compute_dtype,
  _lora,
)


def _decoder(plan: Plan, **changes) -> Plan:
  return dataclasses.replace(
    plan, decoder=dataclasses.replace(plan.decoder, **changes)
  )


def _work(plan: Plan, **changes) -> Plan:
  return dataclasses.replace(
    plan, work=dataclasses.replace(plan.work, **changes)
  )
