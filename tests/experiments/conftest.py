# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Entry points run whole, in this process, on the smallest policy there is.

Compiling would take nearly all of the time. Programs are kept in a folder of
the session, which processes started by tests share.
"""

import contextlib
import io
import json
import os
import pathlib
import re
import runpy
import signal
import sys
import warnings
from typing import NamedTuple
from unittest import mock

import jax
import numpy as np
import orbax.checkpoint
import pytest
from absl import flags
from jax.experimental.compilation_cache import compilation_cache

from searchrl_jax import checkpoint, metrics
from searchrl_jax.data.questions import questions
from searchrl_jax.data.world import WorldConfig, Worlds

# A policy and a world that fit any budget. Four optimizer steps would be
# over before the default warm-ups are.
MINI = (
  '--config.world.persons=6',
  '--config.world.cities=4',
  '--config.world.companies=4',
  '--config.world.films=4',
  '--config.world.countries=3',
  '--config.model.sizes.width=16',
  '--config.model.sizes.layers=1',
  '--config.model.sizes.heads=2',
  '--config.model.sizes.kv_heads=1',
  '--config.model.sizes.head_width=8',
  '--config.model.sizes.mlp_width=16',
  '--config.rollout.questions=2',
  '--config.rollout.group=2',
  '--config.rollout.append_rows=4',
  '--config.rollout.append_tokens=64',  # few widths to compile
  '--config.warm_start.drill_steps=1',
  '--config.warm_start.sft_steps=2',
  '--config.warm_start.questions=4',
  '--config.warm_start.drill_optimizer.warmup_steps=0',
  '--config.warm_start.sft_optimizer.warmup_steps=0',
  '--config.training.steps=4',
  '--config.optimizer.warmup_steps=0',
  '--config.evaluation.every=2',
  '--config.evaluation.questions=4',
  '--config.evaluation.final_questions=6',
  '--config.checkpoint.every=2',
  '--config.traces.every=1',
)

ENTRIES = (
  *('sft', 'grpo', 'cwgrpo', 'factagent', 'cwgrpo_on_facts'),
  *('factagent_on_search', 'evaluate', 'ask', 'compare', 'export'),
)


class Ended(NamedTuple):
  """How a command ended, and what it printed."""

  code: int
  out: str
  err: str


@pytest.fixture(scope='session', autouse=True)
def kept_programs(tmp_path_factory):
  """Keeps compiled programs, here and in the processes of these tests."""
  folder = tmp_path_factory.getbasetemp()
  if 'PYTEST_XDIST_WORKER' in os.environ:
    folder = folder.parent  # of all workers
  kept = {
    'jax_compilation_cache_dir': str(folder / 'programs'),
    'jax_persistent_cache_min_compile_time_secs': 0,
    'jax_persistent_cache_min_entry_size_bytes': -1,
  }
  before = {name: getattr(jax.config, name) for name in kept}
  environment = {name.upper(): str(value) for name, value in kept.items()}
  with mock.patch.dict(os.environ, environment):
    for name, value in kept.items():
      jax.config.update(name, value)
    compilation_cache.reset_cache()  # what was read before does not count
    yield
  for name, value in before.items():
    jax.config.update(name, value)
  compilation_cache.reset_cache()


@pytest.fixture(scope='session')
def start(kept_programs):
  """start('grpo', *flags): `python -m experiments.grpo` in this process."""
  from experiments import cli

  def forget():
    """Forgets the last command line, as a new process would."""
    flags.FLAGS.unparse_flags()
    for name in (cli.CONFIG.name, cli.WORKDIR.name, cli.SEED.name):
      flags.FLAGS[name].unparse()
    for name in list(flags.FLAGS):
      owner = flags.FLAGS.find_module_defining_flag(name)
      if name.startswith('config.') or owner in ENTRIES:
        delattr(flags.FLAGS, name)

  def start(name: str, *argv: str) -> Ended:
    forget()
    out, err = io.StringIO(), io.StringIO()
    with (
      mock.patch.object(sys, 'argv', [name, *argv]),
      contextlib.redirect_stdout(out),
      contextlib.redirect_stderr(err),
      pytest.raises(SystemExit) as ended,
      warnings.catch_warnings(),
    ):
      # Recipes are imported by tests, too: runpy warns of running them again.
      warnings.simplefilter('ignore', RuntimeWarning)
      runpy.run_module(f'experiments.{name}', run_name='__main__')
    return Ended(ended.value.code or 0, out.getvalue(), err.getvalue())

  return start


@pytest.fixture(scope='session')
def mini():
  """Flags of the smallest policy; later flags win."""
  return MINI


@pytest.fixture(scope='session')
def data():
  """The folder of real passages and questions."""
  default = pathlib.Path(__file__).parents[2] / '..' / 'shared' / 'data'
  place = pathlib.Path(os.environ.get('SEARCHRL_DATA', default))
  if not (place / '2wiki' / 'corpus.jsonl').is_file():
    pytest.skip(f'no real passages at {place}: set SEARCHRL_DATA')
  return place / '2wiki'


@pytest.fixture(scope='session')
def rows_of():
  """rows_of(workdir, 'metrics.jsonl'): its rows, without what a clock says.

  How many programs a process has compiled is also its own affair.
  """

  def timeless(value):
    if isinstance(value, list):
      return [timeless(item) for item in value]
    if not isinstance(value, dict):
      return value
    return {
      key: timeless(item)
      for key, item in value.items()
      if not key.startswith(('seconds', 'tokens_per_second', 'compiled'))
    }

  def rows_of(workdir, name):
    return timeless(list(metrics.read_rows(workdir / name)))

  return rows_of


@pytest.fixture(scope='session')
def saved_tree():
  """saved_tree(workdir, step, 'params'): arrays, whatever model they are of."""

  def saved_tree(workdir, step, item):
    place = workdir / 'checkpoints' / str(step) / item
    with warnings.catch_warnings():
      warnings.simplefilter('ignore', UserWarning)  # no sharding is asked for
      return orbax.checkpoint.PyTreeCheckpointer().restore(place)

  return saved_tree


@pytest.fixture(scope='session')
def end_of(rows_of, saved_tree):
  """end_of(workdir): everything a run leaves that no clock decides.

  The rows of all files, and of the last checkpoint every array, bit for bit,
  the key, the position in the questions and what else was counted.
  """

  def end_of(workdir):
    [*_, last] = checkpoint.saved_steps(workdir)
    arrays = {}
    for item in ('params', 'optimizer'):
      tree = saved_tree(workdir, last, item)
      leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
      for path, leaf in leaves:
        leaf = np.asarray(leaf)
        name = item + jax.tree_util.keystr(path)
        arrays[name] = (leaf.dtype.name, leaf.shape, leaf.tobytes())
    place = workdir / 'checkpoints' / str(last) / 'meta' / 'metadata'
    meta = json.loads(place.read_text())
    files = ('metrics.jsonl', 'evaluation.jsonl', 'traces.jsonl')
    rows = {n: rows_of(workdir, n) for n in files if (workdir / n).exists()}
    return {'arrays': arrays, 'meta': meta, **rows}

  return end_of


@pytest.fixture(scope='session')
def interrupted():
  """interrupted(step): Ctrl-C as soon as that step's row is written."""
  from experiments.records import Records

  @contextlib.contextmanager
  def interrupted(step):
    log = Records.log

    def wrapped(self, row, compiled_programs):
      shown = log(self, row, compiled_programs)
      if row['step'] == step:
        signal.raise_signal(signal.SIGINT)
      return shown

    with mock.patch.object(Records, 'log', wrapped):
      yield

  return interrupted


@pytest.fixture(scope='session')
def taught(start, mini, tmp_path_factory):
  """A workdir of warm start whose policy searches and answers, mostly wrong."""
  workdir = tmp_path_factory.mktemp('taught') / 'sft'
  ended = start(
    'sft',
    *mini,
    f'--workdir={workdir}',
    '--config.warm_start.drill_steps=0',
    '--config.warm_start.sft_steps=90',
    '--config.warm_start.questions=24',
    '--config.warm_start.sft_optimizer.learning_rate=2e-2',
    '--config.checkpoint.every=1000',
  )
  assert ended.code == 0, ended.err
  return workdir


# The longer a trajectory, the lower its outcome: groups have spread, so that
# every step of reinforcement learning moves the weights.
SPREAD = '--config.experience.overlong_margin=50'


@pytest.fixture(scope='session')
def learn(start, mini, taught):
  """learn('grpo', workdir, *flags): four steps from the taught weights."""

  def learn(name, workdir, *flags):
    init = f'--config.init_from={taught}'
    return start(name, *mini, SPREAD, init, f'--workdir={workdir}', *flags)

  return learn


@pytest.fixture(scope='session')
def learned(learn, tmp_path_factory):
  """A finished workdir of CW-GRPO, only to be looked at; what was printed."""
  workdir = tmp_path_factory.mktemp('learned') / 'cwgrpo'
  ended = learn('cwgrpo', workdir, '--config.checkpoint.every=1')
  assert ended.code == 0, ended.err
  return workdir, ended.out


@pytest.fixture(scope='session')
def written(mini, tmp_path_factory):
  """Flags of a corpus and five questions in files, in the mini world's words.

  Answers are titles, and each question mentions one.
  """
  config = WorldConfig(
    **{
      name: int(value)
      for name, value in re.findall(r'world\.(\w+)=(\d+)', ' '.join(mini))
    }
  )
  world = Worlds(config).world(5)
  folder = tmp_path_factory.mktemp('written')
  with open(folder / 'corpus.jsonl', 'w') as file:
    for page in world.documents:
      file.write(json.dumps({'id': page.id, 'contents': page.contents}) + '\n')
  with open(folder / 'questions.jsonl', 'w') as file:
    for question in questions(world, 0, 5):
      row = {
        'id': question.id,
        'question': question.text,
        'golden_answers': question.answers,
        'metadata': {'mentioned_titles': [question.hops[0].subject]},
      }
      file.write(json.dumps(row) + '\n')
  return (
    f'--config.data.corpus={folder}/corpus.jsonl',
    f'--config.data.questions={folder}/questions.jsonl',
  )
