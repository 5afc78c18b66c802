# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Both published forms of rotary positions, and the defaults between them."""

import math

import pytest

from searchrl_jax.models import hf_rope
from searchrl_jax.models.config import LinearScaling, Llama3Scaling, YarnScaling

YARN = {'rope_type': 'yarn', 'factor': 4.0}
WARM = 1 + 0.1 * math.log(4)  # 1.1386


def read(scaling, **raw):
  return hf_rope.read({'rope_scaling': scaling, **raw})


def refusal(raw):
  with pytest.raises(ValueError) as error:
    hf_rope.read(raw)
  assert '\n' not in str(error.value)
  return str(error.value)


def test_without_a_word_the_base_is_ten_thousand():
  assert hf_rope.read({}) == (1e4, None)
  assert hf_rope.read({'rope_scaling': None}) == (1e4, None)


@pytest.mark.parametrize('key', ['rope_type', 'type'])
def test_scalings_have_an_older_name(key):
  scaling = {key: 'linear', 'factor': 3}
  assert read(scaling, rope_theta=500) == (500.0, LinearScaling(3.0))


def test_the_later_form_holds_the_base_too():
  raw = {'rope_parameters': {'rope_type': 'default', 'rope_theta': 5e5}}
  assert hf_rope.read(raw) == (5e5, None)


def test_qwen_with_yarn_as_its_readme_shows():
  scaling = {
    'factor': 4.0,
    'original_max_position_embeddings': 32768,
    'type': 'yarn',
  }
  base, yarn = read(scaling, rope_theta=1e6)
  assert base == 1e6
  assert yarn == YarnScaling(4.0, 32768, pytest.approx(WARM), 32.0, 1.0, True)


def test_the_original_context_falls_back_on_the_whole_one():
  _, yarn = read(YARN, max_position_embeddings=4096)
  assert yarn.original_context == 4096
  llama3 = {
    'rope_type': 'llama3',
    'factor': 8.0,
    'low_freq_factor': 1.0,
    'high_freq_factor': 4.0,
  }
  _, scaling = read(llama3, max_position_embeddings=4096)
  assert scaling == Llama3Scaling(8.0, 1.0, 4.0, 4096)


def test_the_original_context_may_stand_outside():
  inside = YARN | {'original_max_position_embeddings': 7}
  _, yarn = read(inside, original_max_position_embeddings=5)
  assert yarn.original_context == 5


@pytest.mark.parametrize(
  ('said', 'expected'),
  [
    ({}, WARM),
    ({'attention_factor': 0.7}, 0.7),
    # mscale counts only with mscale_all_dim beside it.
    ({'mscale': 2.0}, WARM),
    ({'mscale': 2.0, 'mscale_all_dim': 0.0}, WARM),
    # (1 + .2 ln 4) / (1 + .1 ln 4) = 1.2773 / 1.1386
    ({'mscale': 2.0, 'mscale_all_dim': 1.0}, 1.12175),
    ({'attention_factor': 0.7, 'mscale': 2.0, 'mscale_all_dim': 1.0}, 0.7),
    ({'factor': 0.5}, 1.0),  # nothing is stretched
  ],
)
def test_the_warmth_of_yarn(said, expected):
  _, yarn = read(YARN | said, max_position_embeddings=64)
  assert yarn.attention_factor == pytest.approx(expected, abs=1e-5)


def test_a_null_factor_is_the_ratio_of_contexts():
  scaling = YARN | {'factor': None, 'original_max_position_embeddings': 16}
  _, yarn = read(scaling, max_position_embeddings=64)
  assert yarn.factor == 4.0


def test_ends_of_the_ramp_are_taken_over():
  scaling = YARN | {'beta_fast': 16, 'beta_slow': 2, 'truncate': False}
  _, yarn = read(scaling, max_position_embeddings=64)
  assert (yarn.beta_fast, yarn.beta_slow, yarn.truncate) == (16.0, 2.0, False)


@pytest.mark.parametrize('kind', ['dynamic', 'longrope', 'su', 'mrope'])
def test_other_scalings_are_refused(kind):
  message = refusal({'rope_scaling': {'rope_type': kind, 'factor': 2.0}})
  assert repr(kind) in message and 'rope_scaling' in message


@pytest.mark.parametrize(
  ('raw', 'named'),
  [
    ({'rope_scaling': {'type': 'linear'}}, 'rope_scaling has no factor'),
    ({'rope_scaling': YARN}, 'max_position_embeddings'),
    ({'rope_scaling': {'type': 'linear', 'factor': 'two'}}, "'two'"),
    ({'rope_scaling': {'type': 'linear', 'factor': -1}}, 'factor'),
    ({'rope_scaling': 'linear'}, 'rope_scaling'),
    ({'rope_theta': '10000'}, 'rope_theta'),
    ({'rope_parameters': {'partial_rotary_factor': 0.5}}, 'partial_rotary'),
    ({'rope_parameters': {'full_attention': {}}}, 'full_attention'),
  ],
)
def test_faults_are_named(raw, named):
  assert named in refusal(raw)


def test_two_bases_contradict_each_other():
  form = {'rope_type': 'default', 'rope_theta': 1e6}
  message = refusal({'rope_theta': 1e4, 'rope_parameters': form})
  assert '10000.0 and 1000000.0' in message


def test_a_scaling_added_beside_the_later_form_is_not_lost():
  # transformers would take the scaling and forget the base.
  form = {'rope_type': 'default', 'rope_theta': 1e6}
  scaling = YARN | {'original_max_position_embeddings': 8}
  message = refusal({'rope_scaling': scaling, 'rope_parameters': form})
  assert 'contradict' in message
