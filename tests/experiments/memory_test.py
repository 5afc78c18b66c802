# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A run that cannot fit is told what would, and that does."""

import dataclasses
import functools
import re

import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import memory
from experiments import policy as policies
from experiments.configs import base
from searchrl_jax.models import presets
from searchrl_jax.models.config import Lora, Remat
from searchrl_jax.tokenizer import ByteTokenizer
from searchrl_jax.training.weigh import Backend, Devices


def make_config(**changes):
  """The base config of bytes, with changes by key."""
  config = base.get_config()
  with config.unlocked():
    config.tokenizer = 'bytes'
    config.update_from_flattened_dict(changes)
  return config


def decoder_of(config):
  return policies.make_decoder(
    config, policies.read_name(config), ByteTokenizer()
  )


def plan_of(config, count=8):
  """The plan of a config over accelerators."""
  fsdp, tensor = config.mesh.fsdp, config.mesh.tensor
  devices = Devices(count // fsdp // tensor, fsdp, tensor, Backend.ACCELERATOR)
  return memory.make_plan(config, decoder_of(config), devices)


# Every knob has somewhere to go.
LAVISH = {
  'model.remat': 'nothing',
  'model.sizes.width': 512,
  'model.sizes.layers': 6,
  'model.sizes.mlp_width': 1024,
  'training.microbatch': 64,
  'training.packed_length': 512,
  'training.logps_chunk': 16384,
  'rollout.questions': 32,
  'rollout.context': 512,
}


def proposal_for(limit, **changes):
  return memory.propose(plan_of(make_config(**LAVISH, **changes)), limit)


@functools.cache
def least():
  return proposal_for(0).plan.need.total


# --- what is proposed --------------------------------------------------------


def test_a_plan_that_fits_is_left_alone():
  plan = plan_of(make_config(**LAVISH))
  assert memory.propose(plan, plan.need.total).changes == {}


def test_the_first_byte_too_much_costs_time_only():
  plan = plan_of(make_config(**LAVISH))
  made = memory.propose(plan, plan.need.total - 1)
  assert made.changes == {'model.remat': 'layer'}


def test_what_would_not_help_is_not_proposed():
  # Without remat to change, and with nothing to gain from smaller chunks:
  # activations of a micro-batch are the most there is, and rows are halved.
  config = make_config(
    **LAVISH | {'model.remat': 'layer', 'training.packed_length': 4096}
  )
  plan = plan_of(config)
  assert plan.need.fullest == 'update'
  made = memory.propose(plan, plan.need.total - 1)
  assert made.changes == {'training.microbatch': 32}


def test_what_is_learned_changes_only_where_nothing_else_suffices():
  harmful = {'lora.rank', 'model.param_dtype'}
  plan = plan_of(make_config(**LAVISH))
  seen = []
  for percent in (*range(100, 5, -5), *range(5, 0, -1)):
    made = memory.propose(plan, plan.need.total * percent / 100)
    seen.append(bool(harmful & set(made.changes)))
  # Once it begins it goes on: no smaller limit is met with less harm.
  assert seen == sorted(seen)
  assert not seen[4] and seen[-1]


@settings(max_examples=8, deadline=None)
@given(share=st.floats(0.0, 1.0))
def test_a_proposal_fits_once_its_keys_are_set(share):
  plan = plan_of(make_config(**LAVISH))
  smallest = least()
  limit = smallest + share * (plan.need.total - smallest)
  made = memory.propose(plan, limit)
  assert made.plan.need.total <= limit
  # The other road: the changed config, read as any other.
  again = plan_of(make_config(**LAVISH | made.changes))
  assert again.need == made.plan.need


def test_a_proposal_is_of_the_least_harm():
  # Taking back any one of its changes no longer fits.
  plan = plan_of(make_config(**LAVISH))
  limit = 1.1 * least()
  made = memory.propose(plan, limit)
  assert len(made.changes) > 1
  for key in made.changes:
    fewer = {k: v for k, v in made.changes.items() if k != key}
    assert plan_of(make_config(**LAVISH | fewer)).need.total > limit


def test_where_nothing_fits_the_least_is_told():
  plan = plan_of(make_config(**LAVISH))
  told = memory.refusal(plan, 1024)
  assert '\n' not in told
  assert 'nothing fits' in told and memory.amount(least()) in told
  assert '--config.lora.rank=16' in told and 'has 1 KiB' in told


def test_a_large_model_is_sharded_before_it_is_adapted():
  decoder = dataclasses.replace(
    presets.PRESETS['qwen2.5-7b'].config,
    compute_dtype=jnp.dtype(jnp.bfloat16),
    remat=Remat.LAYER,
  )
  config = make_config(
    **{
      'rollout.context': 4096,
      'training.packed_length': 4096,
      'training.microbatch': 16,
    }
  )
  whole = memory.make_plan(
    config, decoder, Devices(8, 1, 1, Backend.ACCELERATOR)
  )
  # 7.6e9 numbers with two moments and two gradients: 142 GiB.
  assert whole.need.total > 142 * memory.GIB
  made = memory.propose(whole, 80 * memory.GIB)
  assert list(made.changes) == ['mesh.fsdp']
  # One device of 80 GiB holds its weights once, and learns by adapters.
  alone = memory.make_plan(
    config, decoder, Devices(1, 1, 1, Backend.ACCELERATOR)
  )
  made = memory.propose(alone, 80 * memory.GIB)
  assert made.changes['lora.rank'] == Lora().rank
  assert made.plan.need.total <= 80 * memory.GIB


# --- what is refused ---------------------------------------------------------


def test_the_default_run_fits_this_machine():
  config = make_config()
  mesh = {'data': 1, 'fsdp': 1, 'tensor': 1}
  memory.require_fitting(config, decoder_of(config), mesh)


def test_a_run_that_cannot_fit_is_refused_in_one_line():
  config = make_config(
    **{
      'memory.limit_gib': 0.02,
      'training.microbatch': 64,
      'training.packed_length': 512,
      'model.remat': 'nothing',
    }
  )
  mesh = {'data': 1, 'fsdp': 1, 'tensor': 1}
  with pytest.raises(ValueError) as refused:
    memory.require_fitting(config, decoder_of(config), mesh)
  (line,) = str(refused.value).splitlines()
  assert re.match(r'each device needs \S+ GiB \(.*\) and has 20.5 MiB', line)
  assert '--config.' in line


@pytest.mark.parametrize(
  'changes, keys',
  [
    ({}, ['rollout.rows']),
    ({'rollout.decode_rows': 64}, ['rollout.rows']),
    ({'rollout.decode_rows': 2048}, ['rollout.rows', 'rollout.decode_rows']),
    # Rows that are kept for other questions stay.
    ({'rollout.generate_rows': 192}, ['rollout.rows']),
  ],
  ids=str,
)
def test_too_many_rows_are_refused_with_a_number_that_fits(changes, keys):
  """The same rollouts, fewer at a time: nothing that is learned changes."""
  changes |= {'rollout.questions': 512, 'rollout.context': 2048}
  changes |= {'training.packed_length': 2048, 'training.microbatch': 1}
  changes |= {'memory.limit_gib': 2.0}
  mesh = {'data': 1, 'fsdp': 1, 'tensor': 1}
  # 4,096 rows of 2,048 tokens: 12 GiB of cache beside a policy of kilobytes.
  config = make_config(**changes)
  with pytest.raises(ValueError) as refused:
    memory.require_fitting(config, decoder_of(config), mesh)
  (line,) = str(refused.value).splitlines()
  proposed = dict(re.findall(r'--config\.(\S+)=(\d+)', line))
  assert list(proposed) == keys
  numbers = {key: int(number) for key, number in proposed.items()}
  assert all(64 <= number < 2048 for number in numbers.values())
  fitting = make_config(**changes | numbers)
  memory.require_fitting(fitting, decoder_of(fitting), mesh)
  # It is the largest that does.
  twice = make_config(**changes | {key: 2 * numbers[key] for key in numbers})
  with pytest.raises(ValueError, match=r'--config\.rollout\.rows='):
    memory.require_fitting(twice, decoder_of(twice), mesh)


def test_rows_are_halved_as_far_as_devices_divide_them():
  steps = list(memory._rows(plan_of(make_config(**{'rollout.questions': 24}))))
  # 24 x 8 rollouts over 8 devices: 24, 12, 6, 3 of each.
  assert [changes for changes, _ in steps] == [
    {'rollout.rows': rows} for rows in (96, 48, 24)
  ]


def test_reading_less_at_a_time_is_proposed_where_reading_is_the_most():
  plan = plan_of(make_config(**{'rollout.append_tokens': 2048}))
  assert plan.need.fullest == 'extend'
  made = memory.propose(plan, plan.need.total - 1)
  assert made.changes == {'rollout.append_tokens': 1024}


def test_devices_of_a_cpu_share_its_memory():
  config = make_config()
  one, four = memory.limit_bytes(config, 1), memory.limit_bytes(config, 4)
  assert one == pytest.approx(4 * four, rel=0.2)  # it is read anew each time
  set_by_hand = make_config(**{'memory.limit_gib': 1.5})
  assert memory.limit_bytes(set_by_hand, 4) == 1.5 * 2**30


@pytest.mark.parametrize(
  'size, shown',
  [
    (0, '0 bytes'),
    (1023, '1023 bytes'),
    (1024, '1 KiB'),
    (1024 * 562.4, '562 KiB'),
    (28.44 * 2**30, '28.4 GiB'),
    (1.5 * 2**40, '1536 GiB'),
  ],
)
def test_amounts_are_for_people(size, shown):
  assert memory.amount(size) == shown
