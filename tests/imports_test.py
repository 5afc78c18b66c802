# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Imports go down, files stay small, every file says whose it is.

The table of `docs/design.md`, section 4, as data; sources are parsed, never
imported.
"""

import ast
import dataclasses
import pathlib
import statistics

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = 'searchrl_jax'

# Folder -> what it may import besides itself and the files at the package's
# root, which import only each other. A dotted name is a single module.
MAY_IMPORT = {
  '': (),
  'models': (),
  'retrieval': ('models',),  # for the encoder
  'environments': (),
  'rewards': (),
  'credit': (),
  'data': (),
  'rollout': ('models',),
  'training': ('models', 'rollout', 'credit.spread'),
  'evaluation': ('rollout', 'rewards', 'credit'),
  'diagnostics': (),
}
# Folders beside the package -> which of each other they may import; all of
# them may import the whole package. Tests and colabs import anything.
BESIDE = {
  'experiments': (),
  'launch_scripts': ('experiments',),
  'benchmarks': ('experiments',),
}
# Libraries that only one folder may know.
KNOWN_TO = {'flax': 'models'}

HEADER = (
  '# Copyright 2026 The searchrl_jax Authors',
  '# SPDX-License-Identifier: Apache-2.0',
)
MOST_LINES, MEDIAN_LINES = 400, 180
# A longer file says why in its docstring, beginning with this.
EXCUSE = f'Longer than {MOST_LINES} lines'
BANNED_NAMES = {'util', 'utils', 'common', 'misc', 'helper', 'helpers'}
NOT_OURS = {'build', 'dist'}


@dataclasses.dataclass(frozen=True)
class Import:
  """One imported name, absolute: `a.b` of `from a import b`."""

  name: str
  line: int


def sources(root):
  """Python files of the repository, as paths relative to it."""
  found = []
  for path in sorted(root.rglob('*.py')):
    relative = path.relative_to(root)
    hidden = any(part.startswith('.') for part in relative.parts)
    if not hidden and relative.parts[0] not in NOT_OURS:
      found.append(relative)
  return found


def imports_of(root, path):
  """Every import of a file, wherever in it, relative ones resolved."""
  package = path.with_suffix('').parts[:-1]
  found = []
  for node in ast.walk(ast.parse((root / path).read_text(), str(path))):
    if isinstance(node, ast.Import):
      found += [Import(alias.name, node.lineno) for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      base = package[: len(package) - node.level + 1] if node.level else ()
      module = '.'.join([*base, *([node.module] if node.module else [])])
      found += [
        Import(f'{module}.{alias.name}', node.lineno) for alias in node.names
      ]
  return found


def _under(name, prefix):
  return name == prefix or name.startswith(prefix + '.')


def _complaint(path, name):
  """Why a file may not import a name, or None where it may."""
  inside = path.parts[0] == PACKAGE
  folder = path.parts[1] if inside and len(path.parts) > 2 else ''
  for library, owner in KNOWN_TO.items():
    if _under(name, library) and (inside and folder != owner):
      return f'only {PACKAGE}/{owner} knows {library}'
  if not inside:
    beside = path.parts[0]
    others = set(BESIDE) - {beside, *BESIDE.get(beside, BESIDE)}
    if any(_under(name, other) for other in {*others, 'tests'}):
      return f'{beside} may not import it'
    return None
  if any(_under(name, other) for other in (*BESIDE, 'tests', 'colabs')):
    return 'the package may not import what is beside it'
  if not _under(name, PACKAGE):
    return None
  if name.endswith('.*'):
    return 'a star hides what is imported'
  if folder not in MAY_IMPORT:
    return f'{folder} has no line in the table of tests/imports_test.py'
  rest = name.removeprefix(PACKAGE).lstrip('.')
  target = rest.split('.')[0]
  if target not in MAY_IMPORT or target == folder:
    return None  # a file at the root, or the folder itself
  if any(_under(rest, allowed) for allowed in MAY_IMPORT[folder]):
    return None
  return f'{folder or "a root file"} may not import {target}'


def complaints(root):
  """All imports against the table, as `file:line: import: why`."""
  found = []
  for path in sources(root):
    if path.parts[0] not in (PACKAGE, *BESIDE):
      continue
    for item in imports_of(root, path):
      why = _complaint(path, item.name)
      if why:
        found.append(f'{path}:{item.line}: {item.name}: {why}')
  return found


def bad_sizes(root):
  """Files that are too long and do not say why."""
  found = []
  for path in sources(root):
    text = (root / path).read_text()
    lines = len(text.splitlines())
    excuse = ' '.join((ast.get_docstring(ast.parse(text)) or '').split())
    if lines > MOST_LINES and EXCUSE not in excuse:
      found.append(f'{path}: {lines} lines; split it, or say "{EXCUSE}: ..."')
  return found


# --- the repository ----------------------------------------------------------


def test_imports_go_down():
  assert complaints(ROOT) == []


def test_every_folder_of_the_package_has_a_line_in_the_table():
  folders = {
    path.name
    for path in (ROOT / PACKAGE).iterdir()
    if path.is_dir() and any(path.glob('*.py'))
  }
  assert folders <= set(MAY_IMPORT)


def test_every_folder_says_what_it_is_for():
  for init in [path for path in sources(ROOT) if path.name == '__init__.py']:
    tree = ast.parse((ROOT / init).read_text())
    assert ast.get_docstring(tree), f'{init} has no docstring'
    assert len(tree.body) == 1, f'{init} holds more than a docstring'


def test_files_stay_small():
  assert bad_sizes(ROOT) == []
  lengths = [
    len((ROOT / path).read_text().splitlines())
    for path in sources(ROOT)
    if path.parts[0] == PACKAGE and path.name != '__init__.py'
  ]
  assert statistics.median(lengths) <= MEDIAN_LINES


def test_no_module_is_a_junk_drawer():
  for path in sources(ROOT):
    names = {part.lower() for part in path.with_suffix('').parts}
    assert not names & BANNED_NAMES, f'{path}: name it after what it does'


def test_every_file_begins_with_the_header():
  for path in sources(ROOT):
    lines = (ROOT / path).read_text().splitlines()[:2]
    assert tuple(lines) == HEADER, f'{path} lacks the two-line header'


# --- the checker -------------------------------------------------------------


@pytest.fixture
def tree(tmp_path):
  """Writes a repository of `{path: source}`."""

  def write(files):
    for name, source in files.items():
      path = tmp_path / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text(source)
    return tmp_path

  return write


@pytest.mark.parametrize(
  'path, source',
  [
    ('searchrl_jax/credit/x.py', 'from searchrl_jax.rewards import answers'),
    ('searchrl_jax/credit/x.py', 'from searchrl_jax import rewards'),
    ('searchrl_jax/credit/x.py', 'import searchrl_jax.rewards.answers as a'),
    ('searchrl_jax/credit/x.py', 'from ..rewards.answers import f1'),
    ('searchrl_jax/credit/x.py', 'from .. import rewards'),
    ('searchrl_jax/credit/x.py', 'def f():\n  import searchrl_jax.rollout'),
    ('searchrl_jax/credit/x.py', 'from searchrl_jax import *'),
    ('searchrl_jax/models/x.py', 'import searchrl_jax.retrieval'),
    ('searchrl_jax/training/x.py', 'from searchrl_jax.credit import grpo'),
    ('searchrl_jax/training/x.py', 'from searchrl_jax import credit'),
    ('searchrl_jax/rollout/x.py', 'from searchrl_jax.training import loop'),
    ('searchrl_jax/diagnostics/x.py', 'from searchrl_jax.rewards import a'),
    ('searchrl_jax/packing.py', 'from searchrl_jax.rollout import engine'),
    ('searchrl_jax/packing.py', 'from .rollout import engine'),
    ('searchrl_jax/data/x.py', 'from experiments import run'),
    ('searchrl_jax/data/x.py', 'import tests.conftest'),
    ('searchrl_jax/training/x.py', 'from flax import nnx'),
    ('searchrl_jax/novelty/x.py', 'from searchrl_jax import types'),
    ('experiments/x.py', 'import launch_scripts.sweep'),
    ('benchmarks/x.py', 'from tests import conftest'),
  ],
)
def test_a_bad_arrow_is_named_with_its_line(tree, path, source):
  root = tree({path: f'"""Doc."""\n\n{source}\n'})
  (complaint,) = complaints(root)
  line = 4 if source.startswith('def') else 3
  assert complaint.startswith(f'{path}:{line}: ')


@pytest.mark.parametrize(
  'path, source',
  [
    ('searchrl_jax/credit/x.py', 'from searchrl_jax import types'),
    ('searchrl_jax/credit/x.py', 'from searchrl_jax.credit import grpo'),
    ('searchrl_jax/credit/x.py', 'from . import grpo'),
    ('searchrl_jax/credit/x.py', 'from ..types import Scores'),
    ('searchrl_jax/credit/x.py', 'import jax.numpy as jnp'),
    ('searchrl_jax/credit/x.py', 'import searchrl_jax_friends.rewards'),
    ('searchrl_jax/retrieval/x.py', 'from searchrl_jax.models import encoder'),
    ('searchrl_jax/models/x.py', 'from flax import nnx'),
    ('searchrl_jax/training/x.py', 'from searchrl_jax.credit import spread'),
    ('searchrl_jax/training/x.py', 'import searchrl_jax.credit.spread'),
    ('searchrl_jax/evaluation/x.py', 'from searchrl_jax.credit import grpo'),
    ('searchrl_jax/packing.py', 'from searchrl_jax import types'),
    ('experiments/x.py', 'from searchrl_jax.rewards import judge'),
    ('benchmarks/x.py', 'from experiments import run'),
    ('tests/x.py', 'import experiments, benchmarks, searchrl_jax.credit'),
  ],
)
def test_a_good_arrow_passes(tree, path, source):
  assert complaints(tree({path: source})) == []


def test_a_long_file_needs_a_reason(tree):
  body = 'x = 1\n' * MOST_LINES
  root = tree(
    {
      'a/long.py': '"""Doc."""\n' + body,
      'a/excused.py': f'"""Doc.\n\n{EXCUSE}: a table.\n"""\n' + body,
      'a/short.py': body,
      '.venv/other.py': body * 2,
    }
  )
  (complaint,) = bad_sizes(root)
  assert complaint.startswith('a/long.py: 401 lines')
