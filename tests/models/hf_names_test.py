# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Every parameter has exactly one published name, of the right shape."""

import dataclasses

import jax
import pytest

from searchrl_jax.models import config as configs
from searchrl_jax.models import decoder, hf_names

ALL_BIASES = configs.DecoderConfig(
  vocabulary=23,
  width=12,
  layers=2,
  heads=6,
  kv_heads=3,
  head_width=10,
  mlp_width=13,
  rope_base=100.0,
  attention_bias=True,
  output_bias=True,
  mlp_bias=True,
  tied=False,
)


def held_shapes(config):
  """Path -> shape of the stacked parameter, as the names have it."""
  shapes = {}
  for place in hf_names.places(config).values():
    stack = () if place.layer is None else (config.layers,)
    shape = (*stack, *place.held_shape)
    assert shapes.setdefault(place.path, shape) == shape
  return shapes


def shapes_of_parameters(config):
  params = jax.eval_shape(decoder.make_model(config).init, jax.random.key(0))
  return {
    tuple(key.key for key in path): leaf.shape
    for path, leaf in jax.tree_util.tree_leaves_with_path(params)
  }


def test_names_and_parameters_are_the_same_set(variant):
  # Adapters are parameters, too, but nobody publishes them within a model.
  bare = dataclasses.replace(variant, lora=None)
  assert held_shapes(variant) == shapes_of_parameters(bare)


def test_biases_of_every_projection_have_names():
  assert held_shapes(ALL_BIASES) == shapes_of_parameters(ALL_BIASES)


def test_no_two_names_share_a_place(variant):
  places = hf_names.places(variant).values()
  assert len({(place.path, place.layer) for place in places}) == len(places)


def test_matrices_are_published_with_their_outputs_first():
  # 6 query heads of width 10 from a stream of width 12.
  place = hf_names.places(ALL_BIASES)['model.layers.1.self_attn.q_proj.weight']
  assert place == hf_names.Place(
    ('layers', 'attention', 'q'), 1, True, (60, 12)
  )
  assert place.held_shape == (12, 60)
  bias = hf_names.places(ALL_BIASES)['model.layers.0.mlp.down_proj.bias']
  assert bias == hf_names.Place(('layers', 'mlp', 'down_bias'), 0, False, (12,))


@pytest.mark.parametrize('tied', [True, False])
def test_only_a_head_of_its_own_has_a_name(tied):
  config = dataclasses.replace(ALL_BIASES, tied=tied)
  assert (hf_names.HEAD in hf_names.places(config)) is not tied
