# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Meshes, the table of axes, and placing arrays."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from searchrl_jax import sharding
from searchrl_jax.models import decoder
from searchrl_jax.models.config import tiny


def test_data_axis_takes_the_devices_that_are_left():
  mesh = sharding.make_mesh(tensor=2)
  assert dict(mesh.shape) == {'data': 4, 'fsdp': 1, 'tensor': 2}
  assert mesh.axis_types == (AxisType.Auto,) * 3
  two = sharding.make_mesh(devices=jax.devices()[:2])
  assert dict(two.shape) == {'data': 2, 'fsdp': 1, 'tensor': 1}


@pytest.mark.parametrize(
  'sizes, message',
  [
    # 3 devices of 8 would leave five idle, silently.
    ({'data': 3}, 'does not fit 8 devices'),
    ({'tensor': 3}, 'does not fit 8 devices'),
    ({'tensor': 16}, 'does not fit 8 devices'),
    ({'data': 0}, 'at least 1'),
    ({'fsdp': -1}, 'at least 1'),
  ],
)
def test_impossible_mesh_is_one_line(sizes, message):
  with pytest.raises(ValueError, match=message) as error:
    sharding.make_mesh(**sizes)
  assert '\n' not in str(error.value)


def test_every_axis_of_the_decoder_is_in_the_table():
  model = decoder.make_model(tiny(vocabulary=64))
  params = model.init(jax.random.key(0))
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  shardings = sharding.param_shardings(mesh, params, model.axes(params))
  assert shardings['embed'].spec == P('tensor', 'fsdp')
  attention = shardings['layers']['attention']
  assert attention['q'].spec == P(None, 'fsdp', 'tensor')
  assert attention['o'].spec == P(None, 'tensor', 'fsdp')
  assert attention['norm'].spec == P(None, None)
  placed = sharding.reshard(params, shardings)
  # [64, 64] over tensor = 2 and fsdp = 2: a quarter on each device.
  assert placed['embed'].addressable_data(0).shape == (32, 32)
  jax.tree.map(np.testing.assert_array_equal, placed, params)


def test_parameter_errors_name_the_parameter():
  mesh = sharding.make_mesh(data=1, fsdp=8)
  params = {'mlp': {'up': np.zeros((6, 8))}}
  with pytest.raises(ValueError, match=r'mlp/up .*6 does not split.*fsdp=8'):
    sharding.param_shardings(mesh, params, {'mlp': {'up': ('embed', 'mlp')}})
  with pytest.raises(ValueError, match=r'mlp/up .*has axes \(.embd'):
    sharding.param_shardings(mesh, params, {'mlp': {'up': ('embd', 'mlp')}})
  with pytest.raises(ValueError, match=r'mlp/up .*has axes \(.embed'):
    sharding.param_shardings(mesh, params, {'mlp': {'up': ('embed',)}})


def test_rows_are_split_over_data_and_fsdp_but_not_tensor():
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  rows = sharding.put_rows(mesh, {'tokens': np.arange(24).reshape(8, 3)})
  shards = rows['tokens'].addressable_shards
  assert {shard.data.shape for shard in shards} == {(2, 3)}
  firsts = sorted(int(shard.data[0, 0]) for shard in shards)
  assert firsts == [0, 0, 6, 6, 12, 12, 18, 18]
  with pytest.raises(ValueError, match='6 does not split over data=2 x fsdp=2'):
    sharding.put_rows(mesh, np.zeros((6, 3)))


def test_impossible_batch_split_is_one_line():
  mesh = sharding.make_mesh()
  sharding.require_splittable_rows(mesh, 16, 'training.microbatch')
  for rows in (4, 12, 0):
    with pytest.raises(ValueError, match='microbatch is') as error:
      sharding.require_splittable_rows(mesh, rows, 'training.microbatch')
    assert 'multiple of 8' in str(error.value)
    assert '\n' not in str(error.value)


@pytest.mark.parametrize('devices', [1, 2, 8])
def test_donating_one_copy_leaves_the_other(devices):
  """Replicas of an array on device 0 may be that very array on device 0."""
  double = jax.jit(lambda x: x * 2, donate_argnums=0)
  mesh = sharding.make_mesh(devices=jax.devices()[:devices])
  host = np.arange(1 << 16, dtype=np.float32)
  placed = sharding.replicate(mesh, host)
  source = jax.device_put(host + 0, jax.devices()[0])
  copy = sharding.reshard(source, placed.sharding)
  again = sharding.reshard(copy, copy.sharding)
  for array in (placed, copy):
    np.testing.assert_array_equal(double(array), 2 * np.arange(1 << 16))
    assert array.is_deleted()
  for kept in (host, source, again):
    np.testing.assert_array_equal(kept, np.arange(1 << 16))
