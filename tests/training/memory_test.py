# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of memory beforehand is what XLA says of the programs."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding

from searchrl_jax import sharding
from searchrl_jax.models import cpu_attention, lora
from searchrl_jax.models import decoder as decoders
from searchrl_jax.models.config import DecoderConfig, Lora, Remat
from searchrl_jax.rollout import device
from searchrl_jax.rollout.sampling import Draws
from searchrl_jax.training import losses, state, step
from searchrl_jax.training.memory import Need, Work, need
from searchrl_jax.training.optimizer import OptimizerConfig, make_optimizer
from searchrl_jax.training.weigh import Backend, Devices, weigh
from searchrl_jax.types import Batch, Targets

ONE = Devices(1, 1, 1, Backend.CPU)
OPTIMIZER = make_optimizer(OptimizerConfig(), 1)
PLAIN = DecoderConfig(
  vocabulary=2048,
  width=256,
  layers=4,
  heads=8,
  kv_heads=2,
  head_width=32,
  mlp_width=704,
  rope_base=1e4,
)
WORK = Work(
  micro_rows=4,
  length=256,
  chunk=256,
  rows=16,
  width=12,
  capacity=512,
  append_rows=4,
  append_tokens=256,
  reference=False,
)
BFLOAT16 = jnp.dtype(jnp.bfloat16)


def nbytes(tree):
  return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def during(found: Need, program):
  return sum(found.passing[program].values())


def assert_close(estimated, measured, *, above=1.25):
  assert 0.8 <= estimated / measured <= above, (estimated, measured)


# --- the real programs, compiled and never run -------------------------------


class Learner:
  """Programs of updates over shapes."""

  def __init__(self, decoder, devices=ONE, work=WORK):
    self.mesh = sharding.make_mesh(
      devices.data,
      devices.fsdp,
      devices.tensor,
      devices=jax.devices()[: devices.row_parts * devices.tensor],
    )
    model = decoders.build_model(decoder, unrolled=True)
    params = jax.eval_shape(model.init, jax.random.key(0))
    placed = sharding.param_shardings(self.mesh, params, model.axes(params))
    places, frozen_places, self.params, self.frozen = placed, {}, params, {}
    join = step.all_learn
    if decoder.lora:
      self.params, self.frozen = lora.split(params)
      places, frozen_places = lora.split(placed)
      join = lora.join
    self.shardings = state.state_shardings(
      self.mesh, OPTIMIZER, self.params, places
    )
    self.params = self._place(self.params, places)
    self.frozen = self._place(self.frozen, frozen_places)
    scores = step.make_token_scores(
      model.apply,
      model.unembedding,
      join=join,
      chunk=work.chunk,
      temperature=1.0,
    )
    self._gradients = step.make_gradients(
      scores,
      losses.make_loss(losses.LossConfig(kl='none')),
      self.mesh,
      self.shardings,
      micro_rows=work.micro_rows,
      frozen=self.frozen,
    )
    self._update = step.make_update(
      self._gradients, OPTIMIZER, self.mesh, self.shardings
    )
    rows = NamedSharding(self.mesh, sharding.ROWS)
    shape = work.micro_rows, work.length
    ids, floats, flags = (
      jax.ShapeDtypeStruct(shape, dtype, sharding=rows)
      for dtype in (jnp.int32, jnp.float32, jnp.bool_)
    )
    self._batch = Batch(ids, ids, ids, flags, ids, ids, floats)
    self._targets = Targets(*[floats] * 4)
    self.grads, self.sums, self._counts = jax.eval_shape(
      self._gradients._begin._jitted,
      self.params,
      self.frozen,
      self._batch,
      self._targets,
    )
    self.grads = self._place(self.grads, places)

  def _place(self, shapes, places):
    return jax.tree.map(
      lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
      shapes,
      places,
    )

  def accumulate(self):
    return self._gradients._accumulate._jitted.lower(
      self.params,
      self.frozen,
      self.grads,
      self.sums,
      self._batch,
      self._targets,
      self._counts,
    )

  def apply(self):
    counter = jax.ShapeDtypeStruct((), jnp.int32)
    moments = self._place(
      jax.eval_shape(OPTIMIZER.init, self.params), self.shardings.opt_state
    )
    before = state.TrainState(self.params, moments, counter, counter, counter)
    return self._update._apply._jitted.lower(before, self.grads, self.sums)


def used(lowered, also=()) -> tuple[int, int]:
  """(bytes of arguments and of `also`, bytes beside them)."""
  # Instructions of the processor need not be good ones, and come sooner.
  options = {'xla_backend_optimization_level': 0}
  stats = lowered.compile(compiler_options=options).memory_analysis()
  beside = stats.output_size_in_bytes - stats.alias_size_in_bytes
  arguments = stats.argument_size_in_bytes + nbytes(also)
  return arguments, stats.temp_size_in_bytes + beside


def rollout(decoder, work, name) -> tuple[int, int]:
  """The same of a program of rollouts, as CPU lays them out."""
  model = decoders.build_model(decoder, unrolled=True)
  shaped = jax.ShapeDtypeStruct
  params = jax.eval_shape(lambda key: model.unstack(model.init(key)), KEY)
  rows = jax.eval_shape(
    lambda: device.empty(model, work.rows + work.append_rows, work.capacity)
  )

  def numbers(count, dtype=jnp.int32):
    return shaped((count,), dtype)

  some = numbers(work.append_rows)
  if name == 'copy':
    program = jax.jit(device.copy, donate_argnums=0)
    return used(program.lower(rows, some, some), also=params)
  static, donated = {}, (1,)
  if name == 'extend':
    # Fewer rows of more tokens need as much, more rows of fewer less.
    width = work.append_tokens // work.append_rows
    tokens = shaped((work.append_rows, width), jnp.int32)
    arguments = params, rows, some, tokens, some, some
  else:
    lane, word = numbers(work.width), numbers(work.width, jnp.uint32)
    floats = numbers(work.width, jnp.float32)
    lanes = device.Lanes(
      lane, word, word, word, lane, lane, lane, Draws(floats, lane, floats)
    )
    table = shaped((20, decoder.vocabulary), jnp.int32)
    scalar = shaped((), jnp.int32)
    arguments = params, rows, KEY, lanes, scalar, scalar, table
    static = {'steps': 32, 'truncated': False}
  program = functools.partial(getattr(device, name), model, **static)
  return used(jax.jit(program, donate_argnums=donated).lower(*arguments))


KEY = jax.eval_shape(lambda: jax.random.key(0))


# --- estimates against XLA ---------------------------------------------------


@pytest.mark.parametrize(
  'changes, work',
  [
    ({}, {}),
    ({'compute_dtype': BFLOAT16, 'remat': Remat.PRODUCTS, 'tied': False}, {}),
    ({'remat': Remat.NOTHING, 'attention_bias': True}, {}),
    ({'lora': Lora(rank=8), 'param_dtype': BFLOAT16}, {}),
    # Scores of attention, then logits of a chunk, are the most there is.
    ({'qk_norm': True}, {'micro_rows': 1, 'length': 2048}),
    ({'vocabulary': 16384}, {'chunk': 1024}),
  ],
  ids=str,
)
def test_an_update_needs_what_was_said(changes, work):
  decoder = dataclasses.replace(PLAIN, **changes)
  work = dataclasses.replace(WORK, **work)
  found, weights = need(decoder, ONE, work), weigh(decoder, ONE)
  arguments, beside = used(Learner(decoder, work=work).accumulate())
  held = weights.learned + weights.frozen + weights.gradients
  # The sums and the batch, a few numbers a token, are left out.
  assert held <= arguments <= held + 40 * work.micro_rows * work.length
  assert_close(during(found, 'update') - weights.gradients, beside, above=1.4)
  assert_close(
    held + weights.optimizer + during(found, 'update') - weights.gradients,
    arguments + weights.optimizer + beside,
  )


@pytest.mark.parametrize('changes', [{}, {'tied': False}], ids=str)
def test_adam_needs_what_was_said(changes):
  decoder = dataclasses.replace(PLAIN, **changes)
  weights = weigh(decoder, ONE)
  arguments, beside = used(Learner(decoder).apply())
  assert_close(
    weights.learned
    + weights.optimizer
    + during(need(decoder, ONE, WORK), 'apply'),
    arguments + beside,
  )


@pytest.mark.parametrize(
  'name, kernel',
  [('extend', True), ('copy', True), ('decode', True), ('decode', False)],
)
@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_a_rollout_needs_what_was_said(name, kernel, dtype, monkeypatch):
  if not kernel:  # as where there is no compiler: rows are gathered
    monkeypatch.setattr(cpu_attention, 'available', lambda: False)
  elif not cpu_attention.available():
    pytest.skip('the kernel needs a compiler')
  decoder = dataclasses.replace(PLAIN, compute_dtype=jnp.dtype(dtype))
  found = need(decoder, ONE, WORK)
  arguments, beside = rollout(decoder, WORK, name)
  # All of them write into the cache they are given.
  held = found.held['sampler copy'] + found.held['KV cache']
  assert_close(during(found, name), beside, above=1.4)
  assert_close(held + during(found, name), arguments + beside, above=1.1)


# --- what is exact -----------------------------------------------------------


def test_what_adam_is_given_is_exact_on_a_mesh():
  decoder = dataclasses.replace(PLAIN, width=32, mlp_width=48, vocabulary=64)
  devices = Devices(1, 4, 2, Backend.CPU)
  work = dataclasses.replace(WORK, micro_rows=8)
  learner, weights = Learner(decoder, devices, work), weigh(decoder, devices)
  arguments, _ = used(learner.apply())
  told = weights.learned + weights.optimizer + weights.gradients
  counters = 3 * 4
  assert arguments == told + counters + nbytes(learner.sums)


@pytest.mark.parametrize('unit, size', [(jnp.float32, 4), (jnp.bfloat16, 2)])
def test_sampler_and_cache_are_those_that_are_made(unit, size):
  decoder = dataclasses.replace(
    PLAIN,
    vocabulary=64,
    width=32,
    layers=3,
    mlp_width=48,
    compute_dtype=jnp.dtype(unit),
  )
  held = need(decoder, ONE, WORK).held
  model = decoders.build_model(decoder, unrolled=True)
  cache = model.empty_cache(WORK.rows + WORK.append_rows, WORK.capacity)
  assert held['KV cache'] == nbytes(cache)
  # Q H = 256, K H = 64; norms stay float32.
  matrices = 64 * 32 + 3 * (2 * 32 * 256 + 2 * 32 * 64 + 3 * 32 * 48)
  norms = 32 + 3 * 2 * 32
  assert held['sampler copy'] == matrices * size + norms * 4
  # 4 devices decode a quarter of the rows each, with all of the weights; two
  # along the tensor axis decode the same rows.
  parted = need(decoder, Devices(2, 2, 2, Backend.CPU), WORK).held
  # Each has slots of its own for prompts: 4 + 4 rows instead of 16 + 4.
  assert parted['KV cache'] * 20 == held['KV cache'] * 8
  assert parted['sampler copy'] == held['sampler copy']


# --- what follows from what --------------------------------------------------


def test_a_full_reference_is_held_and_that_of_adapters_is_the_base():
  asked = dataclasses.replace(WORK, reference=True)
  held = need(PLAIN, ONE, asked).held
  assert held['KL reference'] == held['parameters']
  adapted = dataclasses.replace(PLAIN, lora=Lora(rank=4))
  assert need(adapted, ONE, asked).held['KL reference'] == 0


def test_less_work_never_needs_more():
  for key in (
    *('micro_rows', 'length', 'chunk', 'rows', 'width', 'capacity'),
    *('append_rows', 'append_tokens'),
  ):
    half = dataclasses.replace(WORK, **{key: getattr(WORK, key) // 2})
    for backend in Backend:
      devices = dataclasses.replace(ONE, backend=backend)
      less, more = (need(PLAIN, devices, work) for work in (half, WORK))
      assert less.held['KV cache'] <= more.held['KV cache']
      for program in less.passing:
        assert during(less, program) <= during(more, program), (key, program)
