# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Attention of one token a row on CPU, by a kernel of our own.

The kernel (`cpu_attention.cc`) is compiled when first needed, if there is a
C++ compiler, and kept in a cache directory. Without one, decoding takes XLA's
own attention, which is slower; everything else is the same.

  SEARCHRL_JAX_KERNELS=0    decode without it
  SEARCHRL_JAX_CACHE=DIR    where compiled kernels are kept
  CXX=COMPILER              which compiler to take
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import pathlib
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading

import chex
import jax
import jaxlib

_SOURCE = pathlib.Path(__file__).with_suffix('.cc')
_TARGET = 'searchrl_attend_append'
_SYMBOL = 'SearchrlAttendAppend'
_COMPILERS = (('c++',), ('g++',), ('clang++',))
_FLAGS = (
  *('-std=c++17', '-O3', '-shared', '-fPIC', '-w'),
  # Products are added in one rounding. No sum may be reordered: its bits
  # would depend on where an array begins.
  *('-fno-math-errno', '-fno-trapping-math', '-ffp-contract=fast'),
)
# Tried in this order: for this very processor, or for any of its kind.
_NATIVE = (
  ('-march=native', '-mprefer-vector-width=512'),
  ('-march=native',),
  ('-mcpu=native',),
  (),
)
_SECONDS = 300  # for a compiler that hangs
_once = threading.Lock()


def available() -> bool:
  """Whether the kernel can be used here; compiles it where it is missing.

  Says in one line on stderr, once, why it cannot.
  """
  with _once:  # a cache alone lets two threads in
    return _registered()


@functools.cache
def _registered() -> bool:
  try:
    library = _library()
  except (OSError, _NoKernelError) as error:
    why = ' '.join(str(error).split())
    print(
      f"Decoding takes XLA's attention, which is slower on CPU: {why}",
      file=sys.stderr,
    )
    return False
  handler = jax.ffi.pycapsule(getattr(library, _SYMBOL))
  jax.ffi.register_ffi_target(_TARGET, handler, platform='cpu')
  return True


def attend_append(
  q, new_k, new_v, k, v, length_R, count_W, rows_W, *, rounded: bool = False
):
  """Appends one token to some cache rows and attends to each of them.

  Softmax of the products in float32, query head j with key-value head
  j // (Q / K). What a lane gets depends on its own row alone, bit for bit:
  not on other lanes, the capacity or the number of threads.

  Args:
    q: `[W, Q, H]` float32, divided by sqrt(H).
    new_k, new_v: `[W, K, H]` float32.
    k, v: `[R, 1, K, C, H]` float32, written in place.
    length_R: int32, columns of each row that are filled.
    count_W: int32; 1 where a lane appends, 0 where it rests: nothing of its
      row is read or written, and zeros come back.
    rows_W: int32, the row of each lane. Lanes that append have rows of their
      own; where a lane rests any number may stand.
    rounded: rounds weights to bfloat16 before they mix values, as a product
      in bfloat16 would; sums stay float32.

  Returns:
    mixed `[W, Q, H]`, k and v. Where a row is full the new column is dropped.
  """
  lanes, heads, width = q.shape
  rows, _, kv_heads, capacity, _ = k.shape
  chex.assert_shape([k, v], (rows, 1, kv_heads, capacity, width))
  chex.assert_shape([new_k, new_v], (lanes, kv_heads, width))
  chex.assert_shape([count_W, rows_W], (lanes,))
  chex.assert_shape(length_R, (rows,))
  if heads % kv_heads:
    raise ValueError(f'{heads} query heads do not share {kv_heads} key heads')
  results = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (q, k, v))
  call = jax.ffi.ffi_call(_TARGET, results, input_output_aliases={3: 1, 4: 2})
  return call(q, new_k, new_v, k, v, length_R, count_W, rows_W, rounded=rounded)


class _NoKernelError(Exception):
  """Why there is no kernel."""


def _library() -> ctypes.CDLL:
  """The compiled kernel, made now if there is none yet."""
  if os.environ.get('SEARCHRL_JAX_KERNELS') == '0':
    raise _NoKernelError('SEARCHRL_JAX_KERNELS is 0.')
  compiler = _compiler()
  name = f'cpu_attention-{_fingerprint(compiler)}.so'
  kept = _cache_directory()
  if kept is not None:
    if not (kept / name).exists():
      _compile(compiler, kept / name)
    return ctypes.CDLL(str(kept / name))
  # A library that is loaded needs its file no longer.
  with tempfile.TemporaryDirectory(prefix='searchrl_jax-') as directory:
    _compile(compiler, pathlib.Path(directory) / name)
    return ctypes.CDLL(str(pathlib.Path(directory) / name))


def _compiler() -> tuple[str, ...]:
  """The compiler and what always stands behind it, as in CXX='ccache g++'."""
  named = tuple(shlex.split(os.environ.get('CXX', '')))
  for command in (named,) if named else _COMPILERS:
    if shutil.which(command[0]):
      return command
  if named:
    raise _NoKernelError(f'CXX names {named[0]!r}, which was not found.')
  tried = ', '.join(command[0] for command in _COMPILERS)
  raise _NoKernelError(f'no C++ compiler was found ({tried}); install one.')


def _cache_directory() -> pathlib.Path | None:
  """Where compiled kernels are kept; None where nothing can be written."""
  caches = os.environ.get('XDG_CACHE_HOME') or '~/.cache'
  named = os.environ.get('SEARCHRL_JAX_CACHE') or f'{caches}/searchrl_jax'
  try:
    directory = pathlib.Path(named).expanduser()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory):
      return directory
  except (OSError, RuntimeError):  # RuntimeError: nobody's home
    return None


def _fingerprint(compiler: tuple[str, ...]) -> str:
  """Changes with whatever changes the compiled kernel. A home directory may
  be shared by machines with different processors."""
  version = subprocess.run(
    [*compiler, '--version'], capture_output=True, text=True, check=False
  ).stdout
  parts = (
    _SOURCE.read_text(),
    repr((_FLAGS, _NATIVE)),
    *compiler,
    version,
    jaxlib.__version__,
    _processor(),
  )
  return hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:16]


def _processor() -> str:
  """What this processor can do, as far as the system says."""
  try:
    lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
  except OSError:
    lines = []
  kinds = ('model name', 'flags', 'Features')
  told = sorted({line for line in lines if line.startswith(kinds)})
  return '\n'.join((platform.machine(), platform.processor(), *told))


def _compile(compiler: tuple[str, ...], target: pathlib.Path) -> None:
  """Compiles beside the target and moves it there in one step: processes that
  compile at the same time do not see each other's halves."""
  include = f'-I{jax.ffi.include_dir()}'
  handle, made = tempfile.mkstemp(suffix='.so', dir=target.parent)
  os.close(handle)
  command = (*compiler, *_FLAGS, include, str(_SOURCE), '-o', made)
  try:
    for native in _NATIVE:
      ended = subprocess.run(
        [*command, *native],
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
      )
      if ended.returncode == 0:
        os.replace(made, target)
        return
  except subprocess.TimeoutExpired as error:
    raise _NoKernelError(
      f'{compiler[0]} was not done after {_SECONDS} s.'
    ) from error
  finally:
    pathlib.Path(made).unlink(missing_ok=True)
  said = [line for line in ended.stderr.splitlines() if 'error' in line]
  why = (said or [ended.stderr])[0][:200]
  raise _NoKernelError(f'{compiler[0]} could not compile it: {why}')
