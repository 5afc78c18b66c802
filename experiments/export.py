# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the weights of a workdir as a directory that transformers loads.

  python -m experiments.export --workdir=runs/grpo --out=exported

Adapters are merged into their matrices. The tokenizer comes along where it is
a published one.
"""

import pathlib

import jax
import ml_collections
from absl import flags

from experiments import cli, saved
from searchrl_jax.byte_level import PretrainedTokenizer
from searchrl_jax.models import export, lora

_OUT = flags.DEFINE_string('out', None, 'The directory to write; a new one.')
_STEP = flags.DEFINE_string(
  'step',
  saved.NEWEST,
  'A number, "newest", "best" (by the em of quick evaluations) or '
  '"warm_start".',
)
_DTYPE = flags.DEFINE_enum(
  'dtype', None, ['float32', 'bfloat16'], 'As they are where not given.'
)


def main(config: ml_collections.ConfigDict) -> None:
  """Reads, merges, writes."""
  del config  # that of the workdir counts
  workdir = cli.workdir_of_a_run()
  if not _OUT.value:
    raise ValueError('--out is missing; give the directory to write.')
  run = saved.restore(workdir, step=_STEP.value, changes={})
  decoder = run.policy.model.config
  params = run.policy.complete(run.params)
  if decoder.lora is not None:
    params = lora.merge(params, decoder.lora)
  if _DTYPE.value:
    params = jax.tree.map(lambda x: x.astype(_DTYPE.value), params)
  out = pathlib.Path(_OUT.value)
  ends = {'eos_token_id': sorted(run.tokenizer.eos_ids)}
  written, beside = 'the weights', _nothing
  if isinstance(run.tokenizer, PretrainedTokenizer):
    written, beside = f'{written} and the tokenizer', run.tokenizer.save
  export.export(
    out, params, run.policy.base.config, token_ids=ends, beside=beside
  )
  print(f'{written} of step {run.step} are in {out}.')


def _nothing(directory: pathlib.Path) -> None:
  """Other tokenizers are made from the config, not read from files."""


if __name__ == '__main__':
  cli.run(main)
