# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One token a lane, written and attended to where its cache row lies."""

import concurrent.futures
import functools
import os
import pathlib
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from searchrl_jax.models import cpu_attention

CLOSE = {'rtol': 2e-5, 'atol': 2e-6}


@pytest.fixture(scope='module')
def append():
  """`attend_append` on numpy arrays."""
  if not cpu_attention.available():
    pytest.skip('no kernel: there is no C++ compiler here, or it is turned off')

  @jax.jit
  def run(*arrays):
    return cpu_attention.attend_append(*arrays)

  return lambda *arrays: tuple(np.asarray(x) for x in run(*arrays))


def test_where_there_is_a_compiler_there_is_a_kernel():
  """Else every test that asks for it would be left out, unnoticed."""
  named = os.environ.get('CXX', '').split()[:1] or ('c++', 'g++', 'clang++')
  if os.environ.get('SEARCHRL_JAX_KERNELS') != '0':
    assert cpu_attention.available() == any(map(shutil.which, named))


@pytest.fixture(scope='module')
def python():
  """Runs a process that says twice whether there is a kernel."""
  code = (
    'from searchrl_jax.models import cpu_attention as a\n'
    'print(a.available(), a.available())'
  )

  def start(**settings):
    own = {'JAX_PLATFORMS': 'cpu', 'SEARCHRL_JAX_KERNELS': None}
    environment = {**os.environ, **own, **settings}
    return subprocess.run(
      [sys.executable, '-c', code],
      env={k: v for k, v in environment.items() if v is not None},
      cwd=pathlib.Path(__file__).parents[2],
      capture_output=True,
      text=True,
      timeout=120,
    )

  return start


def case(rows, lanes, heads, group, width, capacity, seed=0):
  """Random arguments: lanes with rows in any order, each of some length."""
  rng = np.random.default_rng(seed)

  def draw(*shape):
    return rng.normal(size=shape).astype(np.float32)

  row = rng.permutation(rows)[:lanes]
  return {
    'q': draw(lanes, heads * group, width) / np.float32(width**0.5),
    'new_k': draw(lanes, heads, width),
    'new_v': draw(lanes, heads, width),
    'k': draw(rows, 1, heads, capacity, width),
    'v': draw(rows, 1, heads, capacity, width),
    'length': rng.integers(0, capacity, rows).astype(np.int32),
    'count': np.ones(lanes, np.int32),
    'row': row.astype(np.int32),
  }


def expected(q, new_k, new_v, k, v, length, count, row):
  """The same in float64, one lane and one query head after the other."""
  k, v = k.copy(), v.copy()
  mixed = np.zeros(q.shape)
  group = q.shape[1] // new_k.shape[1]
  for w in np.flatnonzero(count):
    r, n = row[w], length[row[w]]
    if n < k.shape[3]:
      k[r, 0, :, n], v[r, 0, :, n] = new_k[w], new_v[w]
    for j in range(q.shape[1]):
      keys, values = (
        x[r, 0, j // group, : n + 1].astype(float) for x in (k, v)
      )
      scores = keys @ q[w, j].astype(float)
      weights = np.exp(scores - scores.max())
      mixed[w, j] = weights @ values / weights.sum()
  return mixed, k, v


def check(got, arguments):
  mixed, k, v = expected(**arguments)
  np.testing.assert_allclose(got[0], mixed, **CLOSE)
  np.testing.assert_array_equal(got[1], k)  # a column moved, no other bit
  np.testing.assert_array_equal(got[2], v)


@pytest.mark.parametrize(
  'sizes',  # rows, lanes, heads, group, width, capacity
  [
    (1, 1, 1, 1, 8, 1),
    (5, 3, 3, 2, 10, 37),
    (3, 3, 2, 4, 16, 16),
    (4, 2, 3, 3, 64, 131),
    (3, 2, 1, 5, 64, 65),
    (2, 2, 2, 7, 80, 33),
    (3, 3, 1, 1, 96, 40),
    (2, 1, 2, 8, 128, 70),
    (2, 2, 1, 6, 136, 19),
  ],
)
def test_it_is_softmax_attention_to_the_rows_with_the_token(append, sizes):
  arguments = case(*sizes)
  check(append(*arguments.values()), arguments)


@pytest.mark.parametrize('width', [10, 64])
@pytest.mark.parametrize('length', [0, 1, 14, 15, 16, 31, 62, 63, 64, 65, 66])
def test_every_length_up_to_a_full_row_and_beyond(append, length, width):
  """65 columns: a row of 65 or 66 is full and drops the token."""
  arguments = case(2, 2, 3, 2, width, 65)
  arguments['length'][:] = length
  check(append(*arguments.values()), arguments)


def test_weights_are_rounded_as_a_product_in_bfloat16_rounds(append):
  """One lane, one head: exp(score - peak) to bfloat16, their sum unrounded."""
  del append
  arguments = case(1, 1, 1, 1, 16, 50, seed=3)
  run = jax.jit(functools.partial(cpu_attention.attend_append, rounded=True))
  mixed, k, v = run(*arguments.values())
  n = arguments['length'][0] + 1
  scores = np.asarray(k)[0, 0, 0, :n] @ arguments['q'][0, 0]
  weights = np.exp(scores - scores.max())
  rounded = np.asarray(jnp.asarray(weights, jnp.bfloat16), np.float32)
  assert (rounded != weights).any()
  wanted = rounded @ np.asarray(v)[0, 0, 0, :n] / weights.sum()
  np.testing.assert_allclose(np.asarray(mixed)[0, 0], wanted, **CLOSE)


def test_a_first_token_sees_itself_alone(append):
  arguments = case(3, 1, 2, 3, 64, 20)
  arguments['length'][:] = 0
  mixed, _, _ = append(*arguments.values())
  np.testing.assert_allclose(
    mixed, np.repeat(arguments['new_v'], 3, axis=1), rtol=1e-6
  )


def test_lanes_that_rest_read_and_write_nothing(append):
  arguments = case(4, 3, 2, 3, 64, 20)
  arguments['count'][:] = 0, 1, 0
  arguments['row'][:] = -7, 2, 1 << 30  # nobody looks
  arguments['length'][[0, 1, 3]] = -1
  got = append(*arguments.values())
  check(got, arguments)
  assert not got[0][[0, 2]].any()
  arguments['count'][:] = 0
  check(append(*arguments.values()), arguments)


@pytest.mark.parametrize('width', [10, 64])
def test_what_is_stale_is_never_read(append, width):
  arguments = case(3, 3, 2, 3, width, 50)
  for r, n in enumerate(arguments['length']):
    for name in 'kv':
      arguments[name][r, 0, :, n:] = np.nan
  got = append(*arguments.values())
  assert np.isfinite(got[0]).all()
  check(got, arguments)


@pytest.mark.parametrize('width', [10, 64, 96])
def test_a_lane_gets_its_bits_whatever_is_around_it(append, width):
  """Alone in a cache of its own, among others in any order, in a longer
  cache: the same bits."""
  arguments = case(5, 4, 3, 3, width, 90)
  whole, _, _ = append(*arguments.values())

  def permuted(x, order):
    return {**x, **{n: x[n][order] for n in ('q', 'new_k', 'new_v', 'row')}}

  order = np.array([2, 0, 3, 1])
  other, _, _ = append(*permuted(arguments, order).values())
  np.testing.assert_array_equal(other, whole[order])

  longer = dict(arguments)
  for name in 'kv':
    junk = np.full((5, 1, 3, 13, width), 1e30, np.float32)
    longer[name] = np.concatenate([arguments[name], junk], axis=3)
  np.testing.assert_array_equal(append(*longer.values())[0], whole)

  for w, r in enumerate(arguments['row']):
    alone = dict(arguments)
    for name in ('q', 'new_k', 'new_v', 'count'):
      alone[name] = arguments[name][w : w + 1]
    for name in ('k', 'v', 'length'):
      alone[name] = arguments[name][r : r + 1]
    alone['row'] = np.zeros(1, np.int32)
    np.testing.assert_array_equal(append(*alone.values())[0][0], whole[w])


def test_scores_far_apart_leave_the_largest(append):
  """Keys of +-1e4 times the query: scores beyond what exp can hold."""
  arguments = case(1, 1, 1, 1, 64, 40)
  arguments['length'][:] = 39
  sign = np.where(np.arange(40) == 17, 1, -1).astype(np.float32)
  arguments['k'][0, 0, 0] = sign[:, None] * arguments['q'][0] * 1e4
  arguments['new_k'][0] = -arguments['q'][0] * 1e4
  mixed, _, _ = append(*arguments.values())
  np.testing.assert_array_equal(mixed[0, 0], arguments['v'][0, 0, 0, 17])


def test_what_is_not_a_number_stays_seen(append):
  """A model that diverged is not mended by a comparison that NaN loses."""
  arguments = case(2, 2, 1, 2, 64, 40)
  arguments['row'][:] = 0, 1
  arguments['length'][:] = 30
  arguments['k'][0, 0, 0, 5, 3] = np.nan
  mixed, _, _ = append(*arguments.values())
  assert np.isnan(mixed[0]).all()
  assert np.isfinite(mixed[1]).all()


def test_a_row_that_is_not_there_is_an_error(append):
  arguments = case(3, 2, 1, 1, 16, 8)
  arguments['row'][:] = 1, 3
  with pytest.raises(jax.errors.JaxRuntimeError, match='lane 1 names row 3 of'):
    append(*arguments.values())


def test_arrays_that_do_not_fit_each_other_are_refused():
  arguments = case(3, 2, 2, 1, 16, 8)
  short = {**arguments, 'new_k': arguments['new_k'][:1]}
  with pytest.raises(AssertionError):
    cpu_attention.attend_append(*short.values())
  arguments['q'] = np.zeros((2, 3, 16), np.float32)
  with pytest.raises(ValueError, match='3 query heads do not share 2'):
    cpu_attention.attend_append(*arguments.values())


def test_a_loop_writes_donated_rows_where_they_lie(append):
  """Five tokens in a loop; the cache that comes back is the one given."""
  arguments = case(4, 2, 3, 2, 64, 30)
  arguments['length'][:] = 3, 27, 0, 11  # one of them fills up on the way

  @functools.partial(jax.jit, donate_argnames=('k', 'v'))
  def run(q, new_k, new_v, k, v, length, count, row):
    def step(state):
      i, q, k, v, length = state
      mixed, k, v = cpu_attention.attend_append(
        q, new_k, new_v, k, v, length, count, row
      )
      return i + 1, q + mixed, k, v, length.at[row].add(1)

    state = lax.while_loop(lambda s: s[0] < 5, step, (0, q, k, v, length))
    return state[1:4]

  given = {name: jnp.array(x) for name, x in arguments.items()}
  places = [given[name].unsafe_buffer_pointer() for name in 'kv']
  q, k, v = run(**given)
  assert [x.unsafe_buffer_pointer() for x in (k, v)] == places
  for _ in range(5):
    mixed, arguments['k'], arguments['v'] = append(*arguments.values())
    arguments['q'] = arguments['q'] + mixed
    arguments['length'][arguments['row']] += 1
  for got, want in zip((q, k, v), (arguments[x] for x in 'qkv'), strict=True):
    np.testing.assert_array_equal(got, want)


def test_what_is_still_needed_is_copied_first(append):
  """Without donation the cache given stays as it was."""
  arguments = case(3, 2, 2, 2, 16, 9)
  k = jnp.array(arguments['k'])
  run = jax.jit(cpu_attention.attend_append)
  check(run(*{**arguments, 'k': k}.values()), arguments)
  np.testing.assert_array_equal(k, arguments['k'])


def test_devices_have_rows_of_their_own(append):
  """Four devices at once, rows numbered within each."""
  mesh = jax.make_mesh((4,), ('d',))
  parts = [case(3, 2, 3, 2, 64, 40, seed=i) for i in range(4)]
  joined = jax.device_put(
    [np.concatenate([p[name] for p in parts]) for name in parts[0]],
    NamedSharding(mesh, P('d')),
  )
  run = jax.jit(
    jax.shard_map(
      cpu_attention.attend_append,
      mesh=mesh,
      in_specs=P('d'),
      out_specs=P('d'),
      check_vma=False,
    )
  )
  got = [np.split(np.asarray(x), 4) for x in run(*joined)]
  for part, *results in zip(parts, *got, strict=True):
    for result, alone in zip(results, append(*part.values()), strict=True):
      np.testing.assert_array_equal(result, alone)


# --- with and without a compiler ---------------------------------------------


def no_kernel(ended):
  """What was said by a process without one: a single line, once."""
  assert ended.stdout.split() == ['False', 'False'], ended.stderr
  (line,) = ended.stderr.splitlines()
  assert line.startswith("Decoding takes XLA's attention, which is slower")
  return line


def test_kernels_can_be_turned_off(python):
  line = no_kernel(python(SEARCHRL_JAX_KERNELS='0'))
  assert line.endswith('SEARCHRL_JAX_KERNELS is 0.')


def test_without_a_compiler_it_says_so(python, tmp_path):
  kept = str(tmp_path / 'kept')
  line = no_kernel(python(PATH='', CXX=None, SEARCHRL_JAX_CACHE=kept))
  assert 'no C++ compiler was found' in line
  line = no_kernel(python(CXX='no-such-c++', SEARCHRL_JAX_CACHE=kept))
  assert "CXX names 'no-such-c++'" in line


def test_a_compiler_that_fails_is_quoted(python, tmp_path):
  failing = tmp_path / 'c++'
  failing.write_text('#!/bin/sh\necho "x.cc:1: error: cannot" >&2\nexit 1\n')
  failing.chmod(0o755)
  kept = tmp_path / 'kept'
  line = no_kernel(python(CXX=str(failing), SEARCHRL_JAX_CACHE=str(kept)))
  assert line.endswith('could not compile it: x.cc:1: error: cannot')
  assert not list(kept.iterdir())


def test_where_nothing_can_be_kept_it_is_compiled_anyway(
  append, python, tmp_path
):
  del append  # skips without a compiler
  occupied = tmp_path / 'file'
  occupied.write_text('')
  ended = python(SEARCHRL_JAX_CACHE=str(occupied / 'kept'))
  assert (ended.stdout.split(), ended.stderr) == (['True', 'True'], '')


def test_two_processes_compile_into_one_empty_cache(append, python, tmp_path):
  del append
  with concurrent.futures.ThreadPoolExecutor() as pool:
    both = [
      pool.submit(python, SEARCHRL_JAX_CACHE=str(tmp_path)) for _ in range(2)
    ]
    for future in both:
      ended = future.result()
      assert (ended.stdout.split(), ended.stderr) == (['True', 'True'], '')
  (kept,) = tmp_path.iterdir()  # one library and no halves
  made = kept.stat().st_mtime_ns
  assert python(SEARCHRL_JAX_CACHE=str(tmp_path)).stdout.startswith('True')
  assert kept.stat().st_mtime_ns == made  # the third took what was there
