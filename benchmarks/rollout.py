# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts of search agents: the engine beside rollouts in lock step.

  python -m benchmarks.rollout [--model=tiny] [--parts=latency,floor]

Every contestant plays the conversations of `benchmarks.workload`:

  ours    `ModelPolicy`: caches live, turns and tools of others overlap
  again   lock step that reads the whole context anew before every turn
  torch   the same with `generate` of transformers on PyTorch

Parts:

  latency   all contestants, by the milliseconds of a search
  many      ours with R = 64 rows of which W = 16 decode: what waiting costs
  searches  ours and `again`, by the searches of a trajectory
  floor     a decode step of ours beside its pieces, each timed alone

Contestants are processes that take turns, see `benchmarks.contest`; what they
run first, to compile or to touch memory, is not counted. Weights are random:
sizes of SmolLM2-135M and of the policy of the default config, in float32.
Prints one JSON object; what is measured meanwhile goes to stderr.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import time
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import contest
from benchmarks.contest import pytorch_is_there
from benchmarks.workload import Setting
from experiments.configs import base
from searchrl_jax.models import cpu_attention, presets
from searchrl_jax.models.config import DecoderConfig

SMOLLM2, TINY = 'smollm2-135m', 'tiny'
PARTS = ('latency', 'many', 'searches', 'floor')
# Words of the default config.
_TINY_VOCABULARY = 539
# Ratio -> what was aimed at, and whether that is the least or the most.
TARGETS = {
  'ours/again, 0 ms': ('at least', 2.5),
  'ours/again, 50 ms': ('at least', 3.0),
  'ours/torch, 0 ms': ('at least', 2.0),
  'lost at 500 ms, R = 64': ('at most', 0.15),
  'decode/floor': ('at most', 1.4),
}


@dataclasses.dataclass(frozen=True)
class Plan:
  """What is measured of a model.

  Lock step plays whole batches, so that one of them says as much as many;
  the engine needs a few times its rows until those that begin and those that
  end are few beside the rest.
  """

  decoder: DecoderConfig
  parts: Sequence[str] = PARTS
  latencies: Mapping[str, Sequence[float]] = dataclasses.field(
    default_factory=lambda: {
      'ours': (0, 50, 500),
      'again': (0, 50, 500),
      'torch': (0, 50, 500),
    }
  )
  trajectories: int = 64  # of ours
  in_step: int = 32  # of those in lock step
  many: int = 128  # of ours with 64 rows
  many_latencies: Sequence[float] = (0, 500)
  searches: Sequence[int] = (1, 2, 4, 8)
  rounds: int = 1
  setting: Setting = dataclasses.field(default_factory=Setting)
  many_rows: int = 64


def plans() -> dict[str, Plan]:
  """The plan of every model."""
  sizes = base.get_config().model.sizes.to_dict()
  tiny = DecoderConfig(vocabulary=_TINY_VOCABULARY, **sizes)
  smollm2 = Plan(
    presets.PRESETS[SMOLLM2].config,
    parts=('latency', 'many', 'floor'),
    latencies={'ours': (0, 50, 500), 'again': (0, 50), 'torch': (0,)},
    trajectories=32,
    in_step=16,
    many=64,
    searches=(1, 2, 4),
  )
  small = Plan(
    tiny,
    latencies={'ours': (0, 50, 500), 'again': (0, 50, 500), 'torch': (0,)},
    rounds=2,
  )
  return {SMOLLM2: smollm2, TINY: small}


def _ours(function: str, config: DecoderConfig, **settings):
  from benchmarks import rollout_jax

  return getattr(rollout_jax, function)(config, **settings)


def _floor(config: DecoderConfig):
  from benchmarks import rollout_floor

  return rollout_floor.floor(config)


def _theirs(config: DecoderConfig):
  from benchmarks import rollout_torch

  return rollout_torch.generate(config)


MAKES: dict[str, contest.Make] = {
  'ours': functools.partial(_ours, 'engine'),
  'again': functools.partial(_ours, 'lock_step', again=True),
  'torch': _theirs,
  'floor': _floor,
}


def jobs(plan: Plan, part: str) -> Iterator[tuple[str, Setting]]:
  """Who plays what, in order."""
  ours = dataclasses.replace(plan.setting, trajectories=plan.trajectories)
  step = dataclasses.replace(plan.setting, trajectories=plan.in_step)
  match part:
    case 'latency':
      for latency in sorted({n for ns in plan.latencies.values() for n in ns}):
        for name, latencies in plan.latencies.items():
          if latency in latencies and (name != 'torch' or pytorch_is_there()):
            setting = ours if name == 'ours' else step
            yield name, dataclasses.replace(setting, latency_ms=latency)
    case 'many':
      more = {'rows': plan.many_rows, 'trajectories': plan.many}
      for latency in plan.many_latencies:
        yield 'ours', dataclasses.replace(ours, latency_ms=latency, **more)
    case 'searches':
      for searches in plan.searches:
        workload = dataclasses.replace(ours.workload, searches=searches)
        yield 'ours', dataclasses.replace(ours, workload=workload)
        yield 'again', dataclasses.replace(step, workload=workload)
    case 'floor':
      yield 'floor', plan.setting


def measure(model: str, plan: Plan, part: str) -> list[dict]:
  """The figures of a part, a row for each job."""
  todo = list(jobs(plan, part))
  contestants = {
    name: contest.Contestant(name, MAKES[name], plan.decoder)
    for name in dict.fromkeys(name for name, _ in todo)
  }
  measured = {job: [] for job in todo}
  for turn in range(plan.rounds):
    for name, setting in todo[:: -1 if turn % 2 else 1]:
      run = contestants[name].measure(setting)
      measured[name, setting].append(run)
      label = f'{model} {part} {name} {setting.latency_ms} ms'
      contest.say(f'{label}, {setting.workload.searches} searches', run)
  peaks = {name: one.end() for name, one in contestants.items()}
  return [
    {
      'model': model,
      'part': part,
      'contestant': name,
      'latency_ms': setting.latency_ms,
      'searches': setting.workload.searches,
      'rows': setting.rows,
      'width': setting.width,
      'trajectories': setting.trajectories,
      'peak_rss_mib': peaks[name],
    }
    | contest.summary(runs)
    for (name, setting), runs in measured.items()
  ]


def ratios(figures: Sequence[Mapping]) -> dict[str, dict]:
  """What is claimed of one model, beside what was aimed at."""
  speed = {
    (row['part'], row['contestant'], row['latency_ms'], row['searches']): row[
      'sampled_tokens_per_s'
    ]
    for row in figures
    if row['part'] != 'floor'
  }
  found = {}
  for (part, name, latency, searches), theirs in speed.items():
    ours = speed.get((part, 'ours', latency, searches))
    if name == 'ours' or ours is None:
      continue
    where = f'{searches} searches' if part == 'searches' else f'{latency:g} ms'
    found[f'ours/{name}, {where}'] = ours / theirs
  many = [row for row in figures if row['part'] == 'many']
  for row in many[1:]:
    lost = 1 - row['sampled_tokens_per_s'] / many[0]['sampled_tokens_per_s']
    found[f'lost at {row["latency_ms"]:g} ms, R = {row["rows"]}'] = lost
  for row in figures:
    if row['part'] == 'floor':
      found['decode/floor'] = row['ratio']
  return {name: _beside_target(name, value) for name, value in found.items()}


def _beside_target(name: str, value: float) -> dict:
  if name not in TARGETS:
    return {'value': value}
  bound, target = TARGETS[name]
  return {'value': value, 'target': target, 'bound': bound}


def main(chosen: Mapping[str, Plan]) -> None:
  """Measures and prints."""
  began = time.perf_counter()
  figures, found = [], {}
  for model, plan in chosen.items():
    rows = [row for part in plan.parts for row in measure(model, plan, part)]
    figures += rows
    found[model] = ratios(rows)
  result = {
    'figures': figures,
    'ratios': found,
    'pytorch': 'beside it' if pytorch_is_there() else 'PyTorch was not there',
    'sizes': {
      model: {'decoder': str(plan.decoder)}
      | dataclasses.asdict(plan.setting.workload)
      for model, plan in chosen.items()
    },
    # Without a compiler ours decodes slower than it could.
    'attention_kernel': cpu_attention.available(),
    'seconds': time.perf_counter() - began,
    'machine': contest.machine(),
  }
  print(json.dumps(result, indent=2))


def _chosen(arguments: Sequence[str] | None = None) -> dict[str, Plan]:
  """The plans that the flags ask for."""
  parser = argparse.ArgumentParser()
  known = plans()
  parser.add_argument('--model', choices=[*known], help='both where not given')
  parser.add_argument('--parts', help=f'some of {",".join(PARTS)}')
  parser.add_argument('--rounds', type=int)
  parser.add_argument('--trajectories', type=int, help='of ours')
  flags = parser.parse_args(arguments)
  changes = {}
  if flags.parts:
    changes['parts'] = flags.parts.split(',')
    if unknown := set(changes['parts']) - set(PARTS):
      parser.error(f'no such parts: {sorted(unknown)}; parts are {PARTS}')
  if flags.rounds:
    changes['rounds'] = flags.rounds
  if flags.trajectories:
    changes['trajectories'] = flags.trajectories
  return {
    model: dataclasses.replace(plan, **changes)
    for model, plan in known.items()
    if flags.model in (None, model)
  }


if __name__ == '__main__':
  main(_chosen())
