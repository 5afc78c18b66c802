# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What README.md names exists; `readme_method_test.py` has what it adds.

Names are found by their form. A span of code in the text is a command, a key
of the config, a module or a path; where it looks like one of them it must be
one, so that a misspelt name cannot pass for something else.
"""

import ast
import contextlib
import functools
import inspect
import itertools
import pathlib
import re

from experiments import run
from experiments.configs import base
from searchrl_jax.training import losses

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / 'README.md').read_text()

FENCE = re.compile(r'^```(\w*)\n(.*?)^```$', re.MULTILINE | re.DOTALL)
ADDED = re.compile(
  r'`([\w/]+\.py)`:\n\n```python\n(.*?)^```$', re.MULTILINE | re.DOTALL
)
CODE = dict(ADDED.findall(README))
COMMANDS = ''.join(
  body for language, body in FENCE.findall(README) if language == 'bash'
).replace('\\\n', '')
SPANS = tuple(re.findall(r'`([^`\n]+)`', FENCE.sub('', README)))
# Everything that a reader might type.
TYPED = (*COMMANDS.splitlines(), *SPANS)


def table_below(heading):
  """Rows of the first table of a section, as cells."""
  section = README.split(f'\n## {heading}\n')[1].split('\n## ')[0]
  lines = section[section.index('\n|') + 1 :].splitlines()
  rows = itertools.takewhile(lambda line: line.startswith('|'), lines)
  cells = [[cell.strip() for cell in row.split('|')[1:-1]] for row in rows]
  return cells[2:]


def spans(cell):
  return re.findall(r'`([^`]+)`', cell)


@functools.cache
def config_keys():
  """Every key of the config, dotted, sections included."""
  found = set()

  def walk(tree, prefix):
    for key, value in tree.items():
      found.add(prefix + key)
      if isinstance(value, dict):
        walk(value, f'{prefix}{key}.')

  walk(base.get_config().to_dict(), '')
  return found


def module_file(name):
  """The file of a module of ours, in the repository or in the README."""
  path = pathlib.Path(*name.split('.')).with_suffix('.py')
  return path if (ROOT / path).is_file() or path.as_posix() in CODE else None


@functools.cache
def flags_of(path):
  """Flags that a file defines. Read, not run: entry points share names."""
  text = CODE.get(path.as_posix()) or (ROOT / path).read_text()
  return {
    node.args[0].value
    for node in ast.walk(ast.parse(text))
    if isinstance(node, ast.Call)
    and isinstance(node.func, ast.Attribute)
    and node.func.attr.startswith('DEFINE_')
  }


COMMON_FLAGS = flags_of(pathlib.Path('experiments/cli.py'))


def test_no_span_runs_over_the_end_of_a_line():
  for line in FENCE.sub('', README).splitlines():
    assert line.count('`') % 2 == 0, line


# --- commands ----------------------------------------------------------------


def test_make_targets_exist():
  targets = re.findall(r'^(\w+):', (ROOT / 'Makefile').read_text(), re.M)
  # In prose "make" is a verb: only what can be typed counts.
  named = {
    match[1] for line in TYPED if (match := re.match(r'make (\w+)', line))
  }
  assert {'train', 'test'} <= named <= set(targets)


def test_make_variables_exist():
  makefile = (ROOT / 'Makefile').read_text()
  named = {
    name
    for line in TYPED
    if line.startswith('make ')
    for name in re.findall(r'\b([A-Z]+)=', line)
  }
  assert 'SEED' in named
  for name in named:
    assert re.search(rf'^{name} \?=', makefile, re.M), name


def test_make_train_is_the_named_experiment():
  recipe = (ROOT / 'Makefile').read_text().split('\ntrain:')[1]
  assert '-m experiments.cwgrpo' in recipe.split('\n\n')[0]
  assert 'runs/cwgrpo-$(SEED)' in recipe.split('\n\n')[0]


def test_modules_to_run_exist():
  named = {
    name for line in TYPED for name in re.findall(r'python -m ([\w.]+)', line)
  }
  expected = {'sft', 'grpo', 'cwgrpo', 'evaluate', 'ask', 'compare', 'late'}
  expected |= {'export', 'factagent', 'cwgrpo_on_facts', 'factagent_on_search'}
  expected = {f'experiments.{name}' for name in expected}
  assert expected | {'launch_scripts.plan', 'benchmarks.rollout'} == named
  for name in named:
    assert module_file(name), f'python -m {name}'


def test_flags_exist_where_they_are_given():
  given = 0
  for line in TYPED:
    module = re.search(r'python -m ([\w.]+)', line)
    flags = set(re.findall(r'(?<![\w-])--(\w+)(?![\w.])', line))
    if module is None or not flags:
      continue
    known = COMMON_FLAGS | flags_of(module_file(module[1]))
    assert flags <= known, line
    given += len(flags)
  assert given >= 12


def test_every_other_flag_belongs_to_some_entry_point():
  known = set(COMMON_FLAGS)
  for path in (ROOT / 'experiments').glob('*.py'):
    known |= flags_of(path.relative_to(ROOT))
  for span in SPANS:
    if match := re.fullmatch(r'--(\w+)(=.*)?', span):
      assert match[1] in known, span


def test_overrides_name_a_key_and_fit_its_type():
  overrides = [
    (line, key, value)
    for line in TYPED
    for key, value in re.findall(r'--config\.([\w.]+)=(\S+)', line)
  ]
  assert len(overrides) >= 10
  for line, key, value in overrides:
    assert key in config_keys(), line
    with contextlib.suppress(ValueError, SyntaxError):  # a bare word
      value = ast.literal_eval(value)
    config = base.get_config()
    with config.unlocked():
      config.update_from_flattened_dict({key: value})  # raises on a wrong type


def test_config_files_exist():
  files = re.findall(r'--config=(\S+)', COMMANDS)
  assert files
  assert all((ROOT / file).is_file() for file in files), files


def test_extras_exist():
  named = re.findall(r"'\.\[(\w+)\]'", README)
  assert set(named) == {'gpu', 'tpu'}
  for name in named:
    assert f"'{name}': [" in (ROOT / 'setup.py').read_text()


# --- names -------------------------------------------------------------------

FILE = re.compile(r'[\w./-]+\.(py|md|txt|toml|html|jsonl|json)|[\w./-]+/')
DOTTED = re.compile(r'[a-z_][a-z0-9_]*(\.[a-z0-9_]+)+')


def workdir_names():
  """What a run leaves, by the drawing at the top of `experiments/run.py`."""
  return set(re.findall(r'([\w.]+(?:/|\.\w+)) {2,}', inspect.getdoc(run)))


def is_known_file(span):
  if span.startswith(('runs/', '2wiki/')):
    return True  # of a user
  known = workdir_names() | {'tensorboard/', 'evaluate.jsonl'}
  return span in known or span in CODE or (ROOT / span).exists()


def is_known_name(span):
  if span in config_keys() or module_file(span):
    return True
  module, _, name = span.rpartition('.')
  path = module_file(module) or module_file(f'experiments.{module}')
  return bool(path) and f'def {name}(' in (ROOT / path).read_text()


def test_spans_that_look_like_files_are_there():
  files = [span for span in SPANS if FILE.fullmatch(span)]
  assert len(files) > 40
  missing = [span for span in files if not is_known_file(span)]
  assert not missing, missing


def test_spans_that_look_like_keys_or_modules_are_there():
  table = table_below('Their knob, our knob')
  theirs = {span for row in table for span in spans(row[0])}
  named = [
    span
    for span in SPANS
    if DOTTED.fullmatch(span) and not FILE.fullmatch(span)
  ]
  assert len(named) > 30
  unknown = [s for s in named if s not in theirs and not is_known_name(s)]
  assert not unknown, unknown


def test_links_lead_to_files():
  links = re.findall(r'\[([^\]]+)\]\(([^)]+)\)', README)
  assert len(links) > 25
  for text, target in links:
    assert (ROOT / target).is_file(), target
    assert target.endswith(text)


def test_the_workdir_is_described_whole():
  section = README.split('### What appears in the workdir')[1].split('###')[0]
  rows = re.findall(r'^\| `([^`]+)`', section, re.M)
  # TensorBoard's folder stands in a remark of the drawing.
  assert sorted({*workdir_names(), 'tensorboard/'}) == sorted(rows)


def test_our_side_of_the_knob_table_is_ours():
  rows = table_below('Their knob, our knob')
  ours = [name for row in rows for name in spans(row[1])]
  assert len(ours) > 20
  for name in ours:
    assert name in config_keys() or module_file(name), name
  # Every value of the aggregation that the remark lists can be chosen.
  (remark,) = [row[2] for row in rows if '`loss.aggregation`' in row[1]]
  for value in spans(remark):
    losses.make_loss(
      losses.LossConfig(
        **base.get_config().loss.to_dict() | {'aggregation': value}
      )
    )


def test_every_package_folder_is_on_the_map():
  rows = {row[0].strip('`') for row in table_below('Map of the code')}
  folders = {
    f'searchrl_jax/{path.parent.name}/'
    for path in (ROOT / 'searchrl_jax').glob('*/__init__.py')
  }
  beside = {'experiments/', 'launch_scripts/', 'benchmarks/', 'docs/'}
  beside |= {'tests/', 'searchrl_jax/'}
  assert rows == folders | beside


def test_methods_that_run_are_those_with_an_experiment():
  for row in table_below('Methods'):
    (today,) = row[3:]
    assert today == 'planned' or module_file(
      today.strip('`').removeprefix('python -m ')
    )
  planned = {row[0] for row in table_below('Methods') if row[3] == 'planned'}
  assert planned == {'SOAR', 'CaRR / C-GRPO'}
  # Once they can be run, the table has to say so.
  there = {path.stem for path in (ROOT / 'experiments').glob('*.py')}
  assert not there & {'soar', 'cgrpo', 'carr'}


def test_results_have_their_place():
  marks = [f'<!-- results: {word} -->' for word in ('begin', 'end')]
  assert [README.count(mark) for mark in marks] == [1, 1]
  assert README.index(marks[0]) < README.index(marks[1])
