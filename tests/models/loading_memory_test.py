# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Loading takes the memory of the parameters and little more.

Measured in a process of its own, since the peak of a process never falls; the
peak is read where Linux keeps it.
"""

import json
import math
import os
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from searchrl_jax.models import config as configs
from searchrl_jax.models import hf_names, safetensors_files

# A layer has 4 * 512^2 + 3 * 512 * 2048 = 4.2M numbers, 16.8 MB in float32.
CONFIG = configs.DecoderConfig(
  vocabulary=2048,
  width=512,
  layers=12,
  heads=8,
  kv_heads=8,
  head_width=64,
  mlp_width=2048,
  rope_base=1e4,
)
MB = 1_000_000
PARAMS = 4 * sum(
  math.prod(place.shape) for place in hf_names.places(CONFIG).values()
)
# Stacking one kind of matrix on the host would take 12 * 4.2 = 50 MB, a second
# copy 206 MB, a whole stack on each of 8 devices 403 MB.
ALLOWED = 35 * MB

SCRIPT = """
import dataclasses, pathlib, sys
import jax
import numpy as np
from searchrl_jax import sharding
from searchrl_jax.models import decoder, hf_names, loading
from searchrl_jax.models.safetensors_files import SafetensorsFiles
from tests.models.loading_memory_test import CONFIG

class Ones:
  def __init__(self, config):
    places = hf_names.places(config)
    self.shapes = {name: place.shape for name, place in places.items()}
  def names_in_order(self):
    return list(self.shapes)
  def read(self, name):
    return np.ones(self.shapes[name], np.float32)

def shardings_of(config):
  if devices == 1:
    return None
  model = decoder.make_model(config)
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  mesh = sharding.make_mesh(1, devices, 1)
  return sharding.param_shardings(mesh, shapes, model.axes(shapes))

def peak():
  # Not ru_maxrss, which a process inherits from the one that started it.
  status = pathlib.Path('/proc/self/status').read_text()
  return int(status.split('VmHWM:')[1].split()[0]) * 1024

directory, devices = sys.argv[1], int(sys.argv[2])
# The compiler takes 60 MB, once: not what is measured.
small = dataclasses.replace(CONFIG, width=8, mlp_width=8, vocabulary=8)
loading.load(Ones(small), small, shardings_of(small))
shardings = shardings_of(CONFIG)
before = peak()
params = loading.load(SafetensorsFiles(directory), CONFIG, shardings)
jax.block_until_ready(params)
print(peak() - before)
"""


@pytest.fixture(scope='module')
def shards(tmp_path_factory):
  """A bfloat16 model with a file for each layer and one for the rest."""
  directory = tmp_path_factory.mktemp('model')
  file_of = {}
  for name, place in hf_names.places(CONFIG).items():
    part = 'rest' if place.layer is None else place.layer
    file_of[name] = f'model-{part}.safetensors'
  for file in set(file_of.values()):
    weights = {
      name: np.full(place.shape, 0.5, ml_dtypes.bfloat16)
      for name, place in hf_names.places(CONFIG).items()
      if file_of[name] == file
    }
    safetensors_numpy.save_file(weights, directory / file)
  index = directory / safetensors_files.INDEX
  index.write_text(json.dumps({'weight_map': file_of}))
  return directory


@pytest.mark.parametrize('devices', [1, 8])
def test_loading_holds_about_one_weight_beside_the_parameters(shards, devices):
  run = subprocess.run(
    [sys.executable, '-c', SCRIPT, str(shards), str(devices)],
    capture_output=True,
    # Freed memory goes back at once, not when the allocator thinks fit.
    env=os.environ
    | {'MALLOC_MMAP_THRESHOLD_': '65536', 'MALLOC_ARENA_MAX': '1'},
    cwd=pathlib.Path(__file__).parents[2],
    text=True,
    check=True,
  )
  grown = int(run.stdout)
  assert grown > 0.9 * PARAMS  # they were there when it was measured
  assert grown - PARAMS < ALLOWED, f'{(grown - PARAMS) / MB:.0f} MB beside'
