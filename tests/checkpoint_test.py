# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints come back bit for bit, elsewhere, and after accidents.

Longer than 400 lines: all accidents share one run and the ways to break it.
"""

import dataclasses
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import checkpoint, sharding
from searchrl_jax.data import pipeline
from searchrl_jax.training import state
from searchrl_jax.training.optimizer import OptimizerConfig, make_optimizer
from searchrl_jax.types import Question

CONFIG = {'seed': 3, 'model': {'width': 4}}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
  """The least a state can be."""

  params: typing.Any
  rest: typing.Any


class Pair(typing.NamedTuple):
  first: typing.Any
  second: typing.Any


def opened(workdir, keep=2):
  return checkpoint.Checkpoints(workdir, CONFIG, keep=keep, best_metric='em')


def numbered(step, size=2000):
  """A state that says which step it belongs to, in every leaf."""
  noise = np.random.default_rng(step).normal(size=size).astype(np.float32)
  return State({'w': noise}, (np.int32(step), -noise))


def save(checkpoints, step, state=None, **metrics):
  checkpoints.save(
    step,
    numbered(step) if state is None else state,
    rng=jax.random.key(step),
    data={'position': step},
    progress={'tokens': step * 7, 'phase': 'rl'},
    metrics=metrics,
  )


def bits(tree):
  return [
    (np.asarray(x).dtype, np.shape(x), np.asarray(x).tobytes())
    for x in jax.tree.leaves(tree)
  ]


def steps_in(workdir):
  return checkpoint.saved_steps(workdir)


# --- what comes back ---------------------------------------------------------


def test_any_pytree_comes_back_bit_for_bit(tmp_path):
  params = {
    'layers': {'q': jnp.arange(24, dtype=jnp.bfloat16).reshape(2, 3, 4)},
    'nan': np.array([np.nan, -0.0, np.inf], np.float32),
  }
  rest = [
    Pair(jnp.uint8(7), None),
    {'empty': {}, 'flag': np.array(True), 'half': np.ones(3, np.float16)},
    (np.arange(5, dtype=np.int64), -np.ones((1, 4), np.float32)),
  ]
  wanted = State(params, rest)
  checkpoints = opened(tmp_path)
  save(checkpoints, 12, wanted)
  got = checkpoints.restore(wanted)
  assert jax.tree.structure(got.state) == jax.tree.structure(wanted)
  assert bits(got.state) == bits(wanted)
  assert isinstance(got.state.rest[0], Pair)
  assert isinstance(got.state.params['nan'], np.ndarray)
  assert isinstance(got.state.params['layers']['q'], jax.Array)


def test_everything_else_comes_back_too(tmp_path):
  checkpoints = opened(tmp_path)
  save(checkpoints, 5, em=0.5)
  got = checkpoints.restore(numbered(0))
  assert got.step == 5
  assert got.data == {'position': 5}
  assert got.progress == {'tokens': 35, 'phase': 'rl'}
  assert got.config == CONFIG
  # The key is as good as the one saved, not merely equal in its words.
  np.testing.assert_array_equal(
    jax.random.normal(got.rng, 3), jax.random.normal(jax.random.key(5), 3)
  )
  place = tmp_path / 'checkpoints' / '5'
  for item in ('meta', 'config', 'metrics'):
    [text] = [
      path.read_text()
      for path in (place / item).iterdir()
      if path.name in ('metadata', 'metrics')
    ]
    assert json.loads(text)


def trained_state(mesh, steps=2):
  """A state with moments, laid out on a mesh."""
  params = {
    'embed': jax.random.normal(jax.random.key(0), (8, 4)),
    'layers': {'up': jax.random.normal(jax.random.key(1), (2, 4, 8))},
    'norm': jnp.ones(4),
  }
  axes = {
    'embed': ('vocabulary', 'embed'),
    'layers': {'up': ('layers', 'embed', 'mlp')},
    'norm': ('norm',),
  }
  optimizer = make_optimizer(OptimizerConfig(), 10)
  shardings = state.state_shardings(
    mesh, optimizer, params, sharding.param_shardings(mesh, params, axes)
  )
  current = state.init_state(params, optimizer, shardings)
  for _ in range(steps):
    _, moments = optimizer.update(
      current.params, current.opt_state, current.params
    )
    current = dataclasses.replace(
      current, opt_state=sharding.reshard(moments, shardings.opt_state)
    )
  return current


@pytest.mark.parametrize('sizes', [{}, {'fsdp': 2, 'tensor': 4}, {'fsdp': 4}])
def test_another_mesh_reads_the_same_bits(tmp_path, sizes):
  saved = trained_state(sharding.make_mesh(fsdp=2, tensor=2))
  checkpoints = opened(tmp_path)
  save(checkpoints, 1, saved)
  count = 1 if not sizes else 8
  mesh = sharding.make_mesh(devices=jax.devices()[:count], **sizes)
  template = trained_state(mesh, steps=0)
  got = checkpoints.restore(template).state
  assert bits(got) == bits(saved) != bits(template)
  assert jax.tree.map(lambda x: x.sharding, got) == jax.tree.map(
    lambda x: x.sharding, template
  )
  # Shapes serve as well as arrays.
  shapes = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding),
    template,
  )
  assert bits(checkpoints.restore(shapes).state) == bits(saved)
  step, params = checkpoint.restore_params(tmp_path, template.params)
  assert step == 1 and bits(params) == bits(saved.params)


def test_parameters_alone_need_nothing_else(tmp_path):
  checkpoints = opened(tmp_path, keep=3)
  for step in (1, 2, 3):
    save(checkpoints, step)
  template = jax.eval_shape(lambda: {'w': jnp.zeros(2000)})
  step, params = checkpoint.restore_params(tmp_path, template)
  assert step == 3 and bits(params) == bits(numbered(3).params)
  step, params = checkpoint.restore_params(tmp_path, template, step=2)
  assert step == 2 and bits(params) == bits(numbered(2).params)


def test_stop_and_resume_equals_one_run(tmp_path):
  """3 + 4 steps, data of 5 questions in batches of 2: the stop lies in the
  middle of the second epoch, and the run crosses a third."""
  optimizer = make_optimizer(OptimizerConfig(learning_rate=0.1), 10)
  questions = [Question(id=str(i), text='?', answers=('a',)) for i in range(5)]

  @jax.jit
  def step_of(current, key, number):
    grads = jax.tree.map(
      lambda p: p + jax.random.normal(key, p.shape) * number, current.params
    )
    updates, moments = optimizer.update(grads, current.rest, current.params)
    return State(jax.tree.map(jnp.add, current.params, updates), moments)

  def begin():
    params = {'w': jnp.ones((3, 2))}
    return State(params, optimizer.init(params)), jax.random.key(9)

  def iterator():
    return pipeline.question_iterator(questions, batch=2, seed=4, shuffle=True)

  def run(current, key, data, count):
    asked = []
    for _ in range(count):
      batch = [question.id for question in next(data)]
      asked += batch
      key, used = jax.random.split(key)
      current = step_of(current, used, float(batch[0]))
    return current, key, asked

  whole, whole_key, whole_asked = run(*begin(), iterator(), 7)

  data = iterator()
  current, key, asked = run(*begin(), data, 3)
  opened(tmp_path).save(
    3, current, rng=key, data=data.get_state(), progress={}, metrics={}
  )
  fresh, _ = begin()
  got = opened(tmp_path).restore(fresh)
  data = iterator()
  data.set_state(got.data)
  current, key, rest = run(got.state, got.rng, data, 4)
  assert asked + rest == whole_asked
  assert bits(current) == bits(whole)
  assert bits(jax.random.key_data(key)) == bits(jax.random.key_data(whole_key))


# --- which are kept ----------------------------------------------------------


def test_the_newest_and_the_best_are_kept(tmp_path):
  checkpoints = opened(tmp_path)
  assert checkpoints.latest() is None and checkpoints.best() is None
  save(checkpoints, 1)
  assert checkpoints.best() is None
  save(checkpoints, 2, em=0.4)
  save(checkpoints, 3, em=0.7)
  save(checkpoints, 4, em=math.nan)  # a failed evaluation is never the best
  save(checkpoints, 5, f1=0.9)
  save(checkpoints, 6, em=0.6)
  assert steps_in(tmp_path) == [3, 5, 6]
  assert (checkpoints.latest(), checkpoints.best()) == (6, 3)
  # Also in a process that did not see them being saved; of equals, the newer.
  checkpoints = opened(tmp_path)
  assert (checkpoints.latest(), checkpoints.best()) == (6, 3)
  save(checkpoints, 7, em=0.7)
  save(checkpoints, 8)
  save(checkpoints, 9)
  assert steps_in(tmp_path) == [7, 8, 9] and checkpoints.best() == 7


def test_a_step_is_never_saved_twice_and_never_silently_skipped(tmp_path):
  checkpoints = opened(tmp_path)
  save(checkpoints, 4)
  for again in (4, 3):
    with pytest.raises(ValueError, match='holds step 4, so step') as error:
      save(checkpoints, again, numbered(99))
    assert '\n' not in str(error.value)
  with pytest.raises(ValueError, match='holds step 4'):
    save(opened(tmp_path), 4)
  assert bits(checkpoints.restore(numbered(0)).state) == bits(numbered(4))


def test_fewer_than_two_is_refused(tmp_path):
  with pytest.raises(ValueError, match='keep at least 2'):
    opened(tmp_path, keep=1)


# --- messages ----------------------------------------------------------------


def test_no_checkpoint_here(tmp_path):
  template = {'w': np.zeros(3, np.float32)}
  with pytest.raises(ValueError, match='holds no checkpoint') as error:
    checkpoint.restore_params(tmp_path / 'nowhere', template)
  assert '\n' not in str(error.value)
  assert not (tmp_path / 'nowhere').exists()  # looking makes nothing
  with pytest.raises(ValueError, match='holds no checkpoint'):
    opened(tmp_path).restore(numbered(0))
  with pytest.raises(ValueError, match='no step 7; it holds: none'):
    checkpoint.restore_params(tmp_path, template, step=7)


@pytest.mark.parametrize(
  'template, message',
  [
    (
      {'a': {'q': np.zeros((2, 4), np.float32)}},
      r'a/q is float32\[2, 3\] there',
    ),
    ({'a': {'q': np.zeros((2, 3), np.float16)}}, r'and float16\[2, 3\] here'),
    ({'a': {'k': np.zeros((2, 3), np.float32)}}, r'a/k is absent there'),
  ],
)
def test_wrong_shapes_name_the_parameter(tmp_path, template, message):
  checkpoints = opened(tmp_path)
  save(checkpoints, 1, State({'a': {'q': np.ones((2, 3), np.float32)}}, ()))
  for read in (
    lambda: checkpoint.restore_params(tmp_path, template),
    lambda: checkpoints.restore(State(template, ())),
  ):
    with pytest.raises(ValueError, match=message) as error:
      read()
    assert '\n' not in str(error.value)
  # A healthy checkpoint asked for wrongly is not taken for a broken one.
  assert steps_in(tmp_path) == [1]


# --- accidents ---------------------------------------------------------------


def files_of(place):
  """Files below a folder, the largest last."""
  files = [path for path in place.rglob('*') if path.is_file()]
  return sorted(files, key=lambda path: path.stat().st_size)


def cut(place):
  largest = files_of(place / 'params')[-1]
  os.truncate(largest, largest.stat().st_size // 2)


def flip(place):
  largest = files_of(place / 'params')[-1]
  data = bytearray(largest.read_bytes())
  data[len(data) // 2] ^= 0x40
  largest.write_bytes(data)


def lose(place):
  files_of(place / 'params')[-1].unlink()


def blank_meta(place):
  (place / 'meta' / 'metadata').write_text('')


def lose_all(place):
  for path in files_of(place):
    path.unlink()


@pytest.mark.parametrize('damage', [cut, flip, lose, blank_meta, lose_all])
def test_a_broken_newest_checkpoint_does_not_lose_the_previous(
  tmp_path, damage
):
  checkpoints = opened(tmp_path)
  for step in (1, 2):
    save(checkpoints, step)
  checkpoints.close()
  damage(tmp_path / 'checkpoints' / '2')

  template = numbered(0)
  step, params = checkpoint.restore_params(tmp_path, template.params)
  assert step == 1 and bits(params) == bits(numbered(1).params)
  with pytest.raises(ValueError, match='cannot be read'):
    checkpoint.restore_params(tmp_path, template.params, step=2)
  assert (tmp_path / 'checkpoints' / '2').exists()  # readers touch nothing

  checkpoints = opened(tmp_path)
  got = checkpoints.restore(template)
  assert got.step == 1 and bits(got.state) == bits(numbered(1))
  assert checkpoints.latest() == 1
  # The run comes by step 2 again and saves it.
  save(checkpoints, 2)
  assert bits(checkpoints.restore(template).state) == bits(numbered(2))
  assert (tmp_path / 'checkpoints' / 'unreadable-2').exists()


def test_if_none_can_be_read_the_run_says_so(tmp_path):
  checkpoints = opened(tmp_path)
  for step in (1, 2):
    save(checkpoints, step)
    cut(tmp_path / 'checkpoints' / str(step))
  with pytest.raises(ValueError, match=r'none of the checkpoints \[1, 2\]'):
    checkpoints.restore(numbered(0))
  # Nothing is renamed then: a second start must not find an empty workdir.
  assert steps_in(tmp_path) == [1, 2]


def test_an_interrupted_deletion_does_no_harm(tmp_path):
  checkpoints = opened(tmp_path, keep=3)
  for step in (1, 2, 3):
    save(checkpoints, step, em=0.1 * step)
  for path in files_of(tmp_path / 'checkpoints' / '1')[1:]:
    path.unlink()
  checkpoints = opened(tmp_path, keep=2)
  assert checkpoints.restore(numbered(0)).step == 3
  assert checkpoints.best() == 3
  save(checkpoints, 4)
  assert steps_in(tmp_path) == [3, 4]


# Each try is a process of its own that saves without pause and is killed in
# the middle of its third save, a little later every time. One script forks
# them all, since the imports take longer than the saves.
KILLED = r"""
import os, pathlib, signal, sys, time
import numpy as np
sys.path[:0] = sys.argv[1:3]
import checkpoint_test as here

workdir = pathlib.Path(sys.argv[3])

def child(tell):
  import jax
  checkpoints = here.opened(workdir)
  done = checkpoints.latest() or 0
  if done:
    done = checkpoints.restore(here.numbered(0)).step
  for step in range(done + 1, done + 1000):
    os.write(tell, b'%d\n' % step)  # step - 1 is saved, step begins
    here.save(checkpoints, step)

for attempt in range(6):
  listen, tell = os.pipe()
  pid = os.fork()
  if not pid:
    child(tell)
  with os.fdopen(listen) as lines:
    begun = [int(lines.readline()) for _ in range(3)][-1]
    time.sleep(0.012 * attempt)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(tell)
    begun = max([begun, *map(int, lines)])
  left = [*(workdir / 'checkpoints').glob('*tmp*')]
  print(begun, len(left), flush=True)
"""


def test_killed_while_saving(tmp_path):
  here = pathlib.Path(__file__).parent
  run = subprocess.run(
    [sys.executable, '-c', KILLED, str(here.parent), str(here), str(tmp_path)],
    capture_output=True,
    text=True,
    timeout=300,
    env=os.environ | {'XLA_FLAGS': ''},
  )
  assert run.returncode == 0, run.stderr
  tries = [tuple(map(int, line.split())) for line in run.stdout.splitlines()]
  begun = [try_[0] for try_ in tries]
  # Every try resumed what was whole: it lost the interrupted step at most.
  assert len(begun) == 6
  for before, after in itertools.pairwise(begun):
    assert after >= before + 2
  # The kills did hit saves; what they left is cleared away.
  assert sum(left for _, left in tries) >= 1
  checkpoints = opened(tmp_path)
  got = checkpoints.restore(numbered(0))
  assert begun[-1] - 1 <= got.step <= begun[-1]
  assert bits(got.state) == bits(numbered(got.step))
  assert got.data == {'position': got.step}
  save(checkpoints, got.step + 1)
  left = {path.name for path in (tmp_path / 'checkpoints').iterdir()}
  assert left == {str(got.step), str(got.step + 1)}
