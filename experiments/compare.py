# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Compares methods over finished runs, one workdir a seed.

  python -m experiments.compare \\
    --runs=GRPO=runs/grpo-0,runs/grpo-1 --runs=CW-GRPO=runs/cw-0,runs/cw-1

Prints a table in markdown: mean ± sample standard deviation over the seeds.
"""

import sys

from absl import flags

from experiments import cli
from searchrl_jax import workdir as workdirs
from searchrl_jax.evaluation import table

_RUNS = flags.DEFINE_multi_string(
  'runs', [], 'A method and its workdirs: NAME=DIR,DIR.'
)
_SPLIT = flags.DEFINE_string('split', 'test', 'The evaluated questions.')


def main(config) -> None:
  """Prints the table."""
  del config  # every workdir has its own
  methods, settings = {}, set()
  for spec in _RUNS.value:
    name, equals, places = spec.partition('=')
    if not (name and equals and places):
      raise ValueError(f'--runs={spec} is not of the form NAME=DIR,DIR.')
    methods[name] = [_read(place) for place in places.split(',')]
    settings |= {_length(place) for place in places.split(',')}
  if not methods:
    raise ValueError('nothing to compare; give --runs=NAME=DIR,DIR.')
  if len(settings) > 1:
    shown = ', '.join(
      f'{steps} steps and n={n}' for steps, n in sorted(settings)
    )
    print(f'WARNING: these runs are not alike: {shown}.', file=sys.stderr)
  print(table.markdown(table.compare(methods)))


def _read(workdir: str) -> table.Run:
  section = workdirs.read_config(workdir)['rollout']
  return table.read_run(
    workdir,
    split=_SPLIT.value,
    trajectories=section['questions'] * section['group'],
  )


def _length(workdir: str) -> tuple[int, int]:
  """Steps of experience, and questions of the final evaluation."""
  config = workdirs.read_config(workdir)
  return config['training']['steps'], config['evaluation']['final_questions']


if __name__ == '__main__':
  cli.run(main)
