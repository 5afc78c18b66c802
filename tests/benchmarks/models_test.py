# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of real models runs, with PyTorch or without."""

import dataclasses
import importlib.util
import json
from unittest import mock

import pytest

from benchmarks import contest, models
from searchrl_jax.models.config import DecoderConfig

TINY = models.Sizes(
  DecoderConfig(
    vocabulary=61,
    width=16,
    layers=2,
    heads=2,
    kv_heads=1,
    head_width=8,
    mlp_width=24,
    rope_base=1e4,
  ),
  batch=3,
  prompt=10,
  new_tokens=5,
  capacity=32,
  rows=2,
  length=16,
  logps_chunk=8,
  decode_rounds=1,
  update_rounds=2,
)
OURS = {*models.OURS_DECODE, *models.OURS_UPDATE}


def run(capsys):
  models.main(TINY)
  return json.loads(capsys.readouterr().out)


def assert_figures(result, names):
  assert set(result['figures']) == names
  for name, figures in result['figures'].items():
    speed = f'{name.split("_")[0]}_tokens_per_s'
    assert 0 < figures[f'{speed}_min'] <= figures[speed]
    assert figures[speed] <= figures[f'{speed}_max']
    assert figures['peak_rss_mib'] > 50
  for pair, ratio in result['ratios'].items():
    above, below = pair.split('/')
    figure = f'{above.split("_")[0]}_tokens_per_s'
    wanted = result['figures'][above][figure]
    assert ratio * result['figures'][below][figure] == pytest.approx(wanted)


@pytest.mark.slow
def test_without_pytorch_it_says_so_and_measures_us(capsys):
  with mock.patch.object(models, 'pytorch_is_there', return_value=False):
    result = run(capsys)
  assert_figures(result, OURS)
  assert set(result['ratios']) == {
    'update_ours_bf16/update_ours_layers_again',
    'update_ours_lora/update_ours_layers_again',
  }
  assert 'not there' in result['pytorch']


def test_a_contestant_that_fails_says_why():
  sizes = dataclasses.replace(TINY, batch=0)
  with pytest.raises(RuntimeError, match=r'(?s)decode_ours: .*Error'):
    models.compete(models.OURS_DECODE, sizes, rounds=1)


def test_turns_alternate_and_medians_are_taken():
  order = []

  class Fake:
    def __init__(self, name, make, sizes):
      self.name, self.speeds = name, iter(make)

    def measure(self):
      order.append(self.name)
      return {'speed': next(self.speeds)}

    def end(self):
      return 7.0

  makes = {'a': (1.0, 9.0, 2.0), 'b': (3.0, 4.0, 5.0)}
  with mock.patch.object(contest, 'Contestant', Fake):
    figures = models.compete(makes, TINY, rounds=3)
  assert order == ['a', 'b', 'b', 'a', 'a', 'b']
  assert figures['a'] == {
    'peak_rss_mib': 7.0,
    'speed': 2.0,
    'speed_min': 1.0,
    'speed_max': 9.0,
  }


def test_pytorch_is_found_where_it_is():
  there = importlib.util.find_spec('torch') is not None
  assert models.pytorch_is_there() == there
