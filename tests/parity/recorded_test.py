# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The recorded files are what PyTorch gives now; SmolLM2 in both programs."""

import json

import numpy as np
import pytest

from searchrl_jax import model_files
from searchrl_jax.models import loading, pretrained
from tests.parity import ours, record


@pytest.fixture(scope='module')
def files():
  return model_files.find(record.SMOLLM2, ())


@pytest.fixture(scope='module')
def smollm2(files):
  return record.load_smollm2(files.path)


def test_models_and_references_are_up_to_date(tmp_path):
  made = record.references(tmp_path)
  recorded = {path.name for path in record.RECORDED.iterdir() if path.is_dir()}
  assert recorded == set(made)
  for name, arrays in made.items():
    for file in ('config.json', 'model.safetensors'):
      kept = (record.RECORDED / name / file).read_bytes()
      assert kept == (tmp_path / name / file).read_bytes(), (name, file)
    with np.load(record.RECORDED / name / 'reference.npz') as kept:
      assert set(kept) == set(arrays)
      for key, array in arrays.items():
        # The last bits depend on the machine.
        np.testing.assert_allclose(
          kept[key], array, rtol=1e-5, atol=1e-5, err_msg=f'{name} {key}'
        )


def test_answers_are_up_to_date(smollm2, files):
  kept = json.loads((record.RECORDED / record.GREEDY).read_text())
  assert record.greedy(smollm2, files) == kept


def test_both_read_the_same_weights_of_a_gguf_file(smollm2, files):
  config = pretrained.read_config(files)
  params = loading.load(pretrained.open_weights(files), config, None)
  theirs = {name: w.detach() for name, w in smollm2.named_parameters()}
  for name, weight in ours.published(config, params).items():
    np.testing.assert_array_equal(
      weight, theirs.pop(name).numpy(), err_msg=name
    )
  assert not theirs
