# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Prints what a run would need of every device; nothing is loaded.

  python -m launch_scripts.plan --config=experiments/configs/tiny.py
  python -m launch_scripts.plan --config.model.name=qwen2.5-7b \\
    --config.tokenizer=model --devices=8 --memory_gib=80

Of a model on disk or on the hub the config alone is read. With --memory_gib
the devices are accelerators of that size, wherever this is run; without it
they are those of this machine. Exit code 0: it fits; 1: it does not, and what
would is printed.
"""

import dataclasses
import types
from collections.abc import Mapping

import jax
from absl import flags

from experiments import checks, cli, memory, parts
from experiments import policy as policies
from experiments.grammars.search_r1 import SEARCH_R1
from searchrl_jax.models.config import DecoderConfig, Remat
from searchrl_jax.training.kept import kept_bytes
from searchrl_jax.training.weigh import Backend, Devices

_DEVICES = flags.DEFINE_integer(
  'devices',
  None,
  'Devices of the run, instead of config.devices; there may be fewer here.',
  lower_bound=1,
)
_MEMORY = flags.DEFINE_float(
  'memory_gib',
  None,
  'Accelerators with this much memory each, instead of this machine.',
  lower_bound=0.0,
)

_WIDTH = 44  # of the names in the table


def main(config) -> int:
  """Prints the table; 0 where the run fits, else 1."""
  checks.require_sense(config)
  if _MEMORY.value is not None and not 0 < _MEMORY.value < float('inf'):
    raise ValueError(
      f'memory_gib is {_MEMORY.value}; give the GiB of one device.'
    )
  parts.make_limits(config)
  decoder = _decoder(config)
  devices = _devices(config)
  plan = memory.make_plan(config, decoder, devices)
  limit = memory.limit_bytes(config, devices.row_parts * devices.tensor)
  if _MEMORY.value is not None:
    limit = _MEMORY.value * memory.GIB
  for line in _table(plan, limit):
    print(line)
  if plan.need.total > limit:
    print(memory.refusal(plan, limit))
    return 1
  print('fits.')
  return 0


def _decoder(config) -> DecoderConfig:
  """The decoder of a config, its tokenizer read only where its sizes depend
  on it: that of a model is as wide as its weights."""
  named = policies.read_name(config)
  if named.decoder is not None and config.tokenizer == parts.MODEL:
    tokenizer = types.SimpleNamespace(
      token_bytes=range(named.decoder.vocabulary)
    )
  else:
    tokenizer = parts.make_tokenizer(config, named, SEARCH_R1)
  return policies.make_decoder(config, named, tokenizer)


def _devices(config) -> Devices:
  """The mesh of a config over devices that need not be here.

  Raises:
    ValueError: the mesh or the rows do not divide.
  """
  backend = Backend.ACCELERATOR
  if _MEMORY.value is None:
    backend = memory.backend_here()
  count = _DEVICES.value or config.devices or jax.device_count()
  return Devices(**parts.mesh_sizes(config, count), backend=backend)


def _table(plan: memory.Plan, limit: float) -> list[str]:
  """The lines of the table."""
  devices, need = plan.devices, plan.need
  lines = [
    f'{_parameters(plan.decoder)}; data={devices.data} x fsdp={devices.fsdp} '
    f'x tensor={devices.tensor}, {devices.backend.value}',
    f'{"":{_WIDTH}}{"per device":>12}',
    *_section('all the time', need.held),
  ]
  for program, sizes in need.passing.items():
    mark = '  <- most' if program == need.fullest else ''
    lines += _section(f'during {program}{mark}', sizes)
  by_policy = {f'remat {m.value}': _activations(plan, m) for m in Remat}
  lines += _section('activations of a micro-batch, by model.remat', by_policy)
  return [*lines, _line('total', need.total), _line('limit', limit)]


def _section(title: str, sizes: Mapping[str, int]) -> list[str]:
  shown = [_line(f'  {name}', size) for name, size in sizes.items() if size]
  return [title, *shown] if shown else []


def _line(name: str, size: float) -> str:
  return f'{name:{_WIDTH}}{memory.amount(size):>12}'


def _activations(plan: memory.Plan, remat: Remat) -> int:
  """What a policy keeps of the rows of one device."""
  rows = plan.work.micro_rows // plan.devices.row_parts
  decoder = dataclasses.replace(plan.decoder, remat=remat)
  return kept_bytes(decoder, plan.devices, rows, plan.work.length)


def _parameters(decoder: DecoderConfig) -> str:
  learned, all_of_them = memory.count_parameters(decoder)
  if learned == all_of_them:
    return f'{learned:,} parameters learn'
  return f'{learned:,} of {all_of_them:,} parameters learn'


if __name__ == '__main__':
  cli.run(main)
