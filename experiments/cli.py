# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Flags of every entry point, and errors that end in one line."""

import functools
import pathlib
import re
import sys
from collections.abc import Callable

import ml_collections
from absl import app, flags, logging
from ml_collections import config_flags

from searchrl_jax.training.sources import TrainingStoppedError

_CONFIGS = pathlib.Path(__file__).parent / 'configs'

# Its default is added in `_parse`: a default given here would be read while
# this module is imported, and bad flags would end in a stack of calls.
CONFIG = config_flags.DEFINE_config_file(
  'config',
  None,
  'Configuration, a file; that of the experiment by default. '
  '--config.a.b=c changes a value.',
)
WORKDIR = flags.DEFINE_string(
  'workdir', None, 'Where checkpoints, logs and the report of the run live.'
)
SEED = flags.DEFINE_integer(
  'seed',
  0,
  'Everything random follows from it.',
  lower_bound=0,
  upper_bound=2**32 - 1,  # keys have no room for more
)


def workdir_of_a_run() -> str:
  """The workdir that was named, where one must be.

  Raises:
    ValueError: none was.
  """
  if not WORKDIR.value:
    raise ValueError('--workdir is missing; give the workdir of a run.')
  return WORKDIR.value


# What a person can mend: shown in one line, without a stack of calls.
_FOR_PEOPLE = (ValueError, TrainingStoppedError, OSError)


def run(
  main: Callable[[ml_collections.ConfigDict], int | None],
  *,
  config: str = 'tiny',
) -> None:
  """Parses the flags and runs `main(config)`; never returns.

  Where no config is named, it is the file of this name in `configs/`.

  Bad flags and bad input end with exit code 2 and one line that says what
  was wrong; Ctrl-C with 130.
  """

  # Listed by --help of every entry point, not only by --helpfull.
  for holder in (CONFIG, WORKDIR, SEED):
    flags.FLAGS.register_key_flag_for_module(
      sys.argv[0], flags.FLAGS[holder.name]
    )

  def guarded(_):
    logging.set_verbosity(logging.WARNING)
    try:
      code = main(CONFIG.value)
    except _FOR_PEOPLE as error:
      print(f'error: {" ".join(str(error).split())}', file=sys.stderr)
      sys.exit(2)
    except KeyboardInterrupt:
      print('stopped.', file=sys.stderr)
      sys.exit(130)
    sys.exit(code or 0)

  app.run(guarded, flags_parser=functools.partial(_parse, default=config))


def _parse(argv: list[str], default: str) -> list[str]:
  """absl's parser, with every complaint in one line."""
  if not any(re.match(r'--?config(=|$)', arg) for arg in argv):
    argv.insert(1, f'--config={_CONFIGS / default}.py')
  try:
    rest = flags.FLAGS(argv)
    _ = CONFIG.value.is_locked  # a file that is missing is missed here
  except (
    *(flags.Error, LookupError, AttributeError),
    *(OSError, TypeError, ValueError, SyntaxError, ImportError, NameError),
  ) as error:
    print(f'error: {_in_one_line(error)}', file=sys.stderr)
    sys.exit(2)
  if len(rest) > 1:
    print(
      f'error: unknown argument {rest[1]!r}; flags begin with --.',
      file=sys.stderr,
    )
    sys.exit(2)
  return rest


def _in_one_line(error: Exception) -> str:
  """What went wrong; a misspelt key with the nearest one."""
  text = error
  while isinstance(text, Exception):  # one may be wrapped in another
    text = text.args[0] if text.args else type(text).__name__
  text = str(text)
  missing = re.search(r'No such file or directory: (\S+)', text)
  if missing:
    return f'there is no config file {missing[1]}.'
  text = re.sub(r"^'(\w+)'", r'the config has no key "\1".', text)
  text = re.sub(r'Other fields present: ".*"', '', text)
  return ' '.join(text.split())
