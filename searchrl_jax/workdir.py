# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Whose workdir is it: the config a run was begun with, in `config.json`."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any


def write_config(workdir: str | os.PathLike, config: Mapping[str, Any]) -> None:
  """Writes `config.json`, whole or not at all."""
  workdir = pathlib.Path(workdir)
  workdir.mkdir(parents=True, exist_ok=True)
  write_json(workdir / 'config.json', config)


def write_json(path: pathlib.Path, value: Any) -> None:
  """Writes a value as JSON, whole or not at all."""
  beside = path.with_name(f'{path.name}.new')
  text = json.dumps(as_json(value), indent=2, sort_keys=True)
  beside.write_text(text + '\n')
  os.replace(beside, path)


def read_config(workdir: str | os.PathLike) -> dict:
  """Reads `config.json`.

  Raises:
    ValueError: there is none, or it is not JSON.
  """
  path = pathlib.Path(workdir) / 'config.json'
  try:
    return json.loads(path.read_text())
  except FileNotFoundError:
    raise ValueError(
      f'{path} does not exist; choose the workdir of a run.'
    ) from None
  except ValueError as error:
    raise ValueError(f'{path} is not JSON ({error}); repair it.') from None


def require_same_config(
  workdir: str | os.PathLike,
  config: Mapping[str, Any],
  *,
  may_differ: Sequence[str] = (),
) -> None:
  """Refuses a workdir that was begun with another config.

  A workdir without `config.json` passes: nothing was begun there.

  Args:
    workdir: of the run.
    config: of this start.
    may_differ: dotted keys that do not change what is learned; a key allows
      everything below it.

  Raises:
    ValueError: naming the keys that differ.
  """
  if not (pathlib.Path(workdir) / 'config.json').exists():
    return
  there, here = _flat(read_config(workdir)), _flat(as_json(config))
  missing = object()
  different = [
    key
    for key in sorted(there.keys() | here.keys())
    if there.get(key, missing) != here.get(key, missing)
    and not any(f'{key}.'.startswith(f'{allowed}.') for allowed in may_differ)
  ]
  if different:
    shown = [
      f'{key} ({_word(there, key)} there, {_word(here, key)} now)'
      for key in different[:5]
    ]
    more = f' and {len(different) - 5} more' if len(different) > 5 else ''
    raise ValueError(
      f'{workdir} was begun with another config: {", ".join(shown)}{more}; '
      'choose another workdir, or the settings of this one.'
    )


def _flat(tree, prefix=''):
  """{'a': {'b': 1}} -> {'a.b': 1}; an empty dict is a value."""
  flat = {}
  for key, value in tree.items():
    if isinstance(value, dict) and value:
      flat |= _flat(value, f'{prefix}{key}.')
    else:
      flat[f'{prefix}{key}'] = value
  return flat


def _word(flat, key):
  return json.dumps(flat[key]) if key in flat else 'absent'


def as_json(value: Any) -> Any:
  """A value as JSON gives it back: tuples as lists, keys as strings."""
  return json.loads(json.dumps(value))
