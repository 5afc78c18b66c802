# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The safetensors files of a model, one or many with an index.

model.safetensors                     or   model.safetensors.index.json
                                             {"weight_map": {name: file}}
                                           model-00001-of-00002.safetensors
                                           model-00002-of-00002.safetensors
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable

import numpy as np

from searchrl_jax.models import safetensors_format

SINGLE = 'model.safetensors'
INDEX = 'model.safetensors.index.json'


class SafetensorsFiles:
  """A `loading.WeightSource` over a directory.

  Only headers are read here. Weights come in the order of their files, so
  that one file is in use at a time.
  """

  def __init__(self, directory: str | pathlib.Path):
    """Reads the headers of all files.

    Args:
      directory: where they are.

    Raises:
      ValueError: there are no weights, files are missing, broken or hold
        quantised weights, or the index and the files disagree.
    """
    self._directory = pathlib.Path(directory)
    if (self._directory / SINGLE).exists():
      stored = safetensors_format.contents(self._directory / SINGLE)
    elif (self._directory / INDEX).exists():
      stored = _indexed(self._directory)
    else:
      raise ValueError(_nothing(self._directory))
    self._stored = {weight.name: weight for weight in stored}
    self.shapes = {weight.name: weight.shape for weight in stored}

  def __str__(self):
    return str(self._directory)

  def names_in_order(self) -> Iterable[str]:
    """Names file by file, in the order of their bytes."""
    return list(self._stored)

  def read(self, name: str) -> np.ndarray:
    """One weight as a read-only view of its file."""
    return self._stored[name].map()


def _indexed(directory):
  """The weights of all shards, after comparing them with the index."""
  index = directory / INDEX
  file_of = _weight_map(index)
  files = sorted(set(file_of.values()))
  for file in files:
    # An index comes from elsewhere: it must not open what is elsewhere.
    if pathlib.PurePath(file).name != file or '\\' in file or file == '..':
      raise ValueError(
        f'{index} names the file {file!r}: files must lie beside the index'
      )
  missing = [file for file in files if not (directory / file).exists()]
  if missing:
    raise ValueError(
      f'{len(missing)} of the {len(files)} files that {index} names are '
      f'missing: {", ".join(missing[:3])}; get them, or the model again'
    )
  found, stored = {}, []
  for file in files:
    for weight in safetensors_format.contents(directory / file):
      if weight.name in found:
        raise ValueError(
          f'{weight.name} is repeated: {found[weight.name]} and {file} of '
          f'{directory} both hold it; get the model again'
        )
      found[weight.name] = file
      stored.append(weight)
  for name in [*file_of, *found]:
    if file_of.get(name) != found.get(name):
      raise ValueError(
        f'{index} has {name} in {file_of.get(name, "no file")}, but it is in '
        f'{found.get(name, "no file")}; get the model again'
      )
  return stored


def _weight_map(index):
  try:
    file_of = json.loads(index.read_text(encoding='utf-8'))['weight_map']
    names = all(isinstance(file, str) and file for file in file_of.values())
  except (ValueError, KeyError, TypeError, AttributeError):
    names = False
  if not names:
    raise ValueError(
      f'{index} is no index: it needs a weight_map from names to files'
    )
  return file_of


def _nothing(directory):
  if not directory.is_dir():
    return f'{directory} is no directory; give the one that holds the model'
  others = sorted(path.name for path in directory.glob('*.safetensors'))
  beside = f' (there is {", ".join(others[:3])})' if others else ''
  return (
    f'{directory} has neither {SINGLE} nor {INDEX}{beside}; put the weights of '
    'the model there'
  )
