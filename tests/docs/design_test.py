# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""docs/design.md describes the code that is there."""

import dataclasses
import importlib.util
import pathlib
import re

import pytest

from searchrl_jax import types

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / 'searchrl_jax'
TEXT = (ROOT / 'docs' / 'design.md').read_text()
FENCE = re.compile(r'^```(\w*)\n(.*?)^```$', re.MULTILINE | re.DOTALL)

NOTHING = 'nothing'
PLANNED = ' (planned)'


def section(title):
  """The text below a numbered heading that begins with these words."""
  after = re.split(rf'^## \d+\. {title}.*\n', TEXT, flags=re.MULTILINE)[1]
  return after.split('\n## ')[0]


def spans(text):
  """Spans of code, also those that run over the end of a line."""
  found = re.findall(r'`([^`]+)`', FENCE.sub('', text))
  return [' '.join(span.split()) for span in found]


def layout():
  """Names of the layout, with the folder they are indented under."""
  (tree,) = [body for kind, body in FENCE.findall(TEXT) if kind == 'layout']
  found, folder = [], ''
  for line in tree.splitlines():
    name = line.split()[0]
    if not line.startswith(' '):
      folder = name if name.endswith('/') else ''
      found.append(name)
    else:
      found.append(folder + name)
  return found


def imports_table():
  path = ROOT / 'tests' / 'imports_test.py'
  spec = importlib.util.spec_from_file_location('imports_table', path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


# --- layout ------------------------------------------------------------------


def test_everything_in_the_layout_exists_and_is_of_its_kind():
  names = layout()
  assert len(names) > 40
  assert len(names) == len(set(names))
  for name in names:
    path = ROOT / name
    assert path.is_dir() if name.endswith('/') else path.is_file(), name


def test_every_file_is_in_the_layout_or_under_a_folder_with_a_line():
  names = set(layout())
  described = {name for name in names if name.endswith('/')}
  # These are described file by file: their own lines do not cover a file.
  described -= {'searchrl_jax/', 'experiments/'}
  for top in ('searchrl_jax', 'experiments', 'benchmarks', 'docs'):
    for path in (ROOT / top).rglob('*'):
      name = path.relative_to(ROOT).as_posix()
      if path.is_dir() or '__pycache__' in name or path.stem == '__init__':
        continue
      covered = any(name.startswith(folder) for folder in described)
      assert covered or name in names, f'{name} has no line in the layout'


def test_every_folder_of_the_repository_has_a_line():
  lines = {name.split('/')[0] for name in layout()}
  folders = {path.parent.name for path in ROOT.glob('*/__init__.py')}
  assert {'searchrl_jax', 'experiments', 'benchmarks'} <= folders <= lines
  assert {'docs', 'tests', '.ci'} <= lines


# --- imports -----------------------------------------------------------------


def rows_of(text):
  """(folder, what it may import, whether it is planned) of every row."""
  for cells in re.findall(r'^\| (`\w+`[^|]*) \| ([^|]+) \|$', text, re.M):
    folder, allowed = cells
    (name,) = spans(folder)
    wanted = () if allowed == NOTHING else tuple(spans(allowed))
    yield name, wanted, folder.endswith(PLANNED)


def test_the_direction_of_imports_is_that_of_the_test():
  table = imports_table()
  inside, beside = section('Direction of imports').split('Beside the package')
  written = {name: allowed for name, allowed, _ in rows_of(inside)}
  # Files at the root, '' in the test, stand in the sentence above.
  held = {name: allowed for name, allowed in table.MAY_IMPORT.items() if name}
  assert table.MAY_IMPORT[''] == ()
  assert written == held
  assert {name: allowed for name, allowed, _ in rows_of(beside)} == table.BESIDE


def test_planned_folders_are_those_that_are_not_there():
  for name, _, planned in rows_of(section('Direction of imports')):
    there = (PACKAGE / name).is_dir() or (ROOT / name).is_dir()
    assert there != planned, name


def test_the_limits_of_files_are_those_of_the_test():
  table = imports_table()
  text = ' '.join(section('Layout').split())
  limits = re.search(r'median of (\d+) lines at most, none above (\d+)', text)
  assert limits.groups() == (str(table.MEDIAN_LINES), str(table.MOST_LINES))


# --- names -------------------------------------------------------------------


def test_paths_in_the_text_exist():
  text = TEXT.replace(section('Planned'), '')
  paths = [
    span
    for span in spans(text)
    if re.fullmatch(r'[\w./-]+/|[\w./-]*/[\w.-]+|\w+\.(py|md|html)', span)
  ]
  assert len(paths) > 10
  for path in paths:
    assert (ROOT / path).exists(), path


def test_modules_in_the_text_exist():
  named = set(re.findall(r'python -m ([\w.]+)', TEXT))
  named |= {
    f'searchrl_jax.{span}'
    for span in spans(TEXT)
    if span.split('.')[0] in imports_table().MAY_IMPORT and '.' in span
  }
  assert 'searchrl_jax.credit.spread' in named
  for name in named:
    assert (ROOT / name.replace('.', '/')).with_suffix('.py').is_file(), name


def test_what_is_planned_is_not_there():
  folders = [s for s in spans(section('Planned')) if s.endswith('/')]
  assert sorted(folders) == ['colabs/', 'launch_scripts/']
  # Of launchers and sweeps; planning a run is there.
  assert not (ROOT / 'colabs').exists(), 'colabs/ is there: describe it'
  there = {path.name for path in (ROOT / 'launch_scripts').glob('*.py')}
  assert there == {'__init__.py', 'plan.py'}, 'describe what is there'
  for method in ('soar', 'carr', 'cgrpo'):
    assert not list(PACKAGE.rglob(f'{method}*.py')), f'{method} is there'
    assert not (ROOT / 'experiments' / f'{method}.py').exists()


def test_extras_of_plans_are_declared():
  extras = re.findall(r'the extra `(\w+)`', TEXT)
  assert extras == ['serve']
  for name in extras:
    assert f"'{name}': [" in (ROOT / 'setup.py').read_text()


# --- nouns and letters -------------------------------------------------------


def nouns():
  """Name -> fields, of the entries that begin with their fields."""
  entries = re.findall(
    r'^\* \*\*(\w+)\*\*: `([^`]+)`\.', section('The nouns'), re.M
  )
  return {
    name: tuple(field.strip() for field in fields.split(','))
    for name, fields in entries
  }


@pytest.mark.parametrize('name', sorted(nouns()))
def test_a_noun_has_the_fields_it_is_said_to_have(name):
  fields = dataclasses.fields(getattr(types, name))
  assert nouns()[name] == tuple(field.name for field in fields)


def test_no_noun_of_importance_is_missing():
  # Requests, replies and sampling are told of with the environment.
  small = {'Sampling', 'Search', 'Open', 'Find', 'Generate', 'Failed'}
  small |= {'Append', 'Rebuild', 'Stop'}
  records = {
    name
    for name, value in vars(types).items()
    if dataclasses.is_dataclass(value) and value.__module__ == types.__name__
  }
  assert set(nouns()) == records - small


def test_environment_has_the_functions_it_is_said_to_have():
  entry = section('The nouns').split('* **Environment**')[1].split('\n* ')[0]
  named = {m[1] for s in spans(entry) if (m := re.match(r'(\w+)\(', s))}
  functions = {
    name
    for name, value in vars(types.Environment).items()
    if callable(value) and not name.startswith('_')
  }
  assert named == functions


def test_letters_are_those_of_types():
  written = re.findall(r'`([A-Z])` \| ([^|,]+)', section('The legend'))
  (legend,) = re.findall(
    r'remarks on fields.*?\n\n(.*?)\n\n', types.__doc__, re.DOTALL
  )
  # Two columns; "Q / K  query / key-value heads" tells two letters at once.
  letters = set(re.findall(r'(?:^|\s)([A-Z])(?=\s)', legend))
  assert {letter for letter, _ in written} == letters
  for letter, meaning in written:
    if letter not in 'QK':
      told = re.search(rf'(?:^|\s){letter}  ([^,\n]+?)(?:  |,|\n|$)', legend)
      assert told[1].split('(')[0].strip() == meaning.strip(), letter
