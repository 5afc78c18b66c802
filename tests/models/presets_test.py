# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Presets are the published models: their parameters add up."""

import math

import pytest

from searchrl_jax.models import hf_config, hf_names, presets

# As published with the weights, a tied head counted once.
PARAMETERS = {
  'qwen2.5-0.5b': 494_032_768,
  'qwen2.5-1.5b': 1_543_714_304,
  'qwen2.5-3b': 3_085_938_688,
  'qwen2.5-7b': 7_615_616_512,
  'qwen3-0.6b': 596_049_920,
  'qwen3-1.7b': 1_720_574_976,
  'qwen3-4b': 4_022_468_096,
  'qwen3-8b': 8_190_735_360,
  'llama-3.2-1b': 1_235_814_400,
  'llama-3.2-3b': 3_212_749_824,
  'llama-3.1-8b': 8_030_261_248,
  'smollm2-135m': 134_515_008,
  'smollm2-360m': 361_821_120,
  'smollm2-1.7b': 1_711_376_384,
}


def test_every_preset_is_counted():
  assert list(PARAMETERS) == list(presets.PRESETS)


@pytest.mark.parametrize('name', PARAMETERS)
def test_parameters_add_up_to_the_published_number(name):
  places = hf_names.places(presets.PRESETS[name].config).values()
  assert sum(math.prod(place.shape) for place in places) == PARAMETERS[name]


@pytest.mark.parametrize('name', PARAMETERS)
def test_presets_are_of_a_published_family(name):
  preset = presets.PRESETS[name]
  raw = hf_config.to_hf(preset.config)
  assert hf_config.from_hf(raw) == preset.config
  family = {'qwen2.5': 'qwen2', 'qwen3': 'qwen3'}.get(name.split('-')[0])
  assert raw['model_type'] == (family or 'llama')
  assert name.split('-')[-1] in preset.hub_id.lower()
