# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Flags of every entry point, and errors that end in one line."""

import pathlib
import sys
from collections.abc import Callable

import ml_collections
from absl import app, flags, logging
from ml_collections import config_flags

from searchrl_jax.training.sources import TrainingStoppedError

_DEFAULT = pathlib.Path(__file__).parent / 'configs' / 'tiny.py'

CONFIG = config_flags.DEFINE_config_file(
  'config', str(_DEFAULT), 'Configuration; --config.a.b=c changes a value.'
)
WORKDIR = flags.DEFINE_string(
  'workdir', None, 'Where checkpoints, logs and the report of the run live.'
)
SEED = flags.DEFINE_integer('seed', 0, 'Everything random follows from it.')

# What a person can mend: shown in one line, without a stack of calls.
_FOR_PEOPLE = (ValueError, TrainingStoppedError, FileNotFoundError)


def run(main: Callable[[ml_collections.ConfigDict], int | None]) -> None:
  """Parses the flags and runs `main(config)`; never returns.

  Bad flags and bad input end with exit code 2 and one line that says what
  was wrong; Ctrl-C with 130.
  """

  def guarded(_):
    logging.set_verbosity(logging.WARNING)
    try:
      code = main(CONFIG.value)
    except _FOR_PEOPLE as error:
      print(f'error: {error}', file=sys.stderr)
      sys.exit(2)
    except KeyboardInterrupt:
      print('stopped; the same command goes on from here.', file=sys.stderr)
      sys.exit(130)
    sys.exit(code or 0)

  app.run(guarded, flags_parser=_parse)


def _parse(argv: list[str]) -> list[str]:
  """absl's parser, with every complaint in one line."""
  try:
    rest = flags.FLAGS(argv)
    _ = CONFIG.value  # loads the file
  except (flags.Error, KeyError, AttributeError, OSError, TypeError) as error:
    text = error.args[0] if error.args else error
    line = ' '.join(str(text).replace("'\\'", "'").replace("\\''", "'").split())
    print(f'error: {line}', file=sys.stderr)
    sys.exit(2)
  if len(rest) > 1:
    print(f'error: unknown argument {rest[1]!r}; flags begin with --.')
    sys.exit(2)
  return rest
