# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A published config means here what it means to transformers."""

import dataclasses
import json

import jax.numpy as jnp
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from searchrl_jax.models import config as configs
from searchrl_jax.models import hf_config

# As published with Qwen2.5-0.5B-Instruct, Qwen3-0.6B and Llama-3.2-1B.
QWEN2 = {
  'architectures': ['Qwen2ForCausalLM'],
  'attention_dropout': 0.0,
  'bos_token_id': 151643,
  'eos_token_id': 151645,
  'hidden_act': 'silu',
  'hidden_size': 896,
  'initializer_range': 0.02,
  'intermediate_size': 4864,
  'max_position_embeddings': 32768,
  'max_window_layers': 21,
  'model_type': 'qwen2',
  'num_attention_heads': 14,
  'num_hidden_layers': 24,
  'num_key_value_heads': 2,
  'rms_norm_eps': 1e-06,
  'rope_theta': 1000000.0,
  'sliding_window': 32768,
  'tie_word_embeddings': True,
  'torch_dtype': 'bfloat16',
  'use_cache': True,
  'use_sliding_window': False,
  'vocab_size': 151936,
}
QWEN3 = {
  'attention_bias': False,
  'head_dim': 128,
  'hidden_act': 'silu',
  'hidden_size': 1024,
  'intermediate_size': 3072,
  'max_position_embeddings': 40960,
  'max_window_layers': 28,
  'model_type': 'qwen3',
  'num_attention_heads': 16,
  'num_hidden_layers': 28,
  'num_key_value_heads': 8,
  'rms_norm_eps': 1e-06,
  'rope_scaling': None,
  'rope_theta': 1000000,
  'sliding_window': None,
  'tie_word_embeddings': True,
  'use_sliding_window': False,
  'vocab_size': 151936,
}
LLAMA = {
  'attention_bias': False,
  'hidden_act': 'silu',
  'hidden_size': 2048,
  'intermediate_size': 8192,
  'max_position_embeddings': 131072,
  'mlp_bias': False,
  'model_type': 'llama',
  'num_attention_heads': 32,
  'num_hidden_layers': 16,
  'num_key_value_heads': 8,
  'pretraining_tp': 1,
  'rms_norm_eps': 1e-05,
  'rope_scaling': {
    'factor': 32.0,
    'high_freq_factor': 4.0,
    'low_freq_factor': 1.0,
    'original_max_position_embeddings': 8192,
    'rope_type': 'llama3',
  },
  'rope_theta': 500000.0,
  'tie_word_embeddings': True,
  'vocab_size': 128256,
}
PUBLISHED = {'qwen2': QWEN2, 'qwen3': QWEN3, 'llama': LLAMA}


def refusal(raw):
  with pytest.raises(ValueError) as error:
    hf_config.from_hf(raw)
  assert '\n' not in str(error.value)
  return str(error.value)


# --- reading -----------------------------------------------------------------


def test_qwen2_has_biases_whatever_its_file_says():
  config = hf_config.from_hf(QWEN2)
  assert config == configs.DecoderConfig(
    vocabulary=151_936,
    width=896,
    layers=24,
    heads=14,
    kv_heads=2,
    head_width=64,  # 896 / 14
    mlp_width=4864,
    rope_base=1e6,
    context=32_768,
    attention_bias=True,
    output_bias=False,
    tied=True,
  )


def test_qwen3_has_norms_and_a_head_width_of_its_own():
  config = hf_config.from_hf(QWEN3)
  assert config.qk_norm and not config.attention_bias
  assert config.head_width == 128 != config.width // config.heads
  both = hf_config.from_hf(QWEN3 | {'attention_bias': True})
  assert both.attention_bias and both.output_bias


def test_llama_has_biases_everywhere_or_nowhere():
  config = hf_config.from_hf(LLAMA)
  assert not (config.attention_bias or config.output_bias or config.mlp_bias)
  assert config.rope_scaling == configs.Llama3Scaling(32.0, 1.0, 4.0, 8192)
  config = hf_config.from_hf(LLAMA | {'attention_bias': True, 'mlp_bias': True})
  assert config.attention_bias and config.output_bias and config.mlp_bias


@pytest.mark.parametrize('raw', PUBLISHED.values(), ids=PUBLISHED.keys())
def test_a_head_is_its_own_where_nothing_is_said(raw):
  raw = {k: v for k, v in raw.items() if k != 'tie_word_embeddings'}
  assert not hf_config.from_hf(raw).tied


def test_key_value_heads_default_to_the_query_heads():
  silent = {k: v for k, v in LLAMA.items() if k != 'num_key_value_heads'}
  assert hf_config.from_hf(silent).kv_heads == 32
  assert hf_config.from_hf(QWEN2 | {'num_key_value_heads': None}).kv_heads == 14


@pytest.mark.parametrize('raw', PUBLISHED.values(), ids=PUBLISHED.keys())
def test_transformers_writes_what_we_read_alike(raw):
  config_class = type(transformers.AutoConfig.for_model(raw['model_type']))
  rewritten = config_class.from_dict(raw).to_dict()
  assert 'rope_scaling' not in rewritten  # the form of version 5
  assert hf_config.from_hf(rewritten) == hf_config.from_hf(raw)


# --- writing -----------------------------------------------------------------

counts = st.integers(1, 9)
positive = st.floats(1e-3, 1e3)
scalings = st.one_of(
  st.none(),
  st.builds(configs.LinearScaling, positive),
  st.builds(configs.Llama3Scaling, positive, positive, positive, counts),
  st.builds(
    configs.YarnScaling,
    factor=positive,
    original_context=counts,
    attention_factor=positive,
    beta_fast=positive,
    beta_slow=positive,
    truncate=st.booleans(),
  ),
)
# (qk_norm, attention_bias, output_bias, mlp_bias) of the three families.
OPTIONS = [
  (False, False, False, False),
  (False, False, False, True),
  (False, True, True, False),
  (False, True, True, True),
  (False, True, False, False),
  (True, False, False, False),
  (True, True, True, False),
]


@st.composite
def decoder_configs(draw):
  kv_heads, heads = draw(counts), draw(counts)
  heads *= kv_heads
  qk_norm, attention_bias, output_bias, mlp_bias = draw(
    st.sampled_from(OPTIONS)
  )
  return configs.DecoderConfig(
    vocabulary=draw(counts),
    width=heads * draw(counts),
    layers=draw(counts),
    heads=heads,
    kv_heads=kv_heads,
    head_width=2 * draw(counts),
    mlp_width=draw(counts),
    rope_base=draw(positive),
    norm_eps=draw(positive),
    rope_scaling=draw(scalings),
    context=draw(counts),
    qk_norm=qk_norm,
    attention_bias=attention_bias,
    output_bias=output_bias,
    mlp_bias=mlp_bias,
    tied=draw(st.booleans()),
    embedding_std=draw(st.floats(1e-3, 1)),
  )


@given(decoder_configs())
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_back(config):
  raw = json.loads(json.dumps(hf_config.to_hf(config)))
  assert hf_config.from_hf(raw) == config
  old = {k: v for k, v in raw.items() if k != 'rope_parameters'}
  new = {
    k: v for k, v in raw.items() if k not in ('rope_scaling', 'rope_theta')
  }
  assert hf_config.from_hf(old) == hf_config.from_hf(new) == config


@given(decoder_configs())
@settings(max_examples=50, deadline=None)
def test_transformers_reads_what_is_written(config):
  raw = hf_config.to_hf(config)
  config_class = type(transformers.AutoConfig.for_model(raw['model_type']))
  read = config_class.from_dict(json.loads(json.dumps(raw)))
  assert hf_config.from_hf(read.to_dict()) == config
  assert (read.bos_token_id, read.eos_token_id) == (None, None)


def test_the_dtype_of_the_weights_is_written_and_not_taken_over():
  config = hf_config.from_hf(LLAMA)
  raw = hf_config.to_hf(dataclasses.replace(config, param_dtype=jnp.bfloat16))
  assert raw['dtype'] == raw['torch_dtype'] == 'bfloat16'
  assert hf_config.from_hf(raw).param_dtype == jnp.float32


@pytest.mark.parametrize(
  'change',
  [
    {'qk_norm': True, 'attention_bias': True},
    {'qk_norm': True, 'mlp_bias': True},
    {'attention_bias': True, 'mlp_bias': True},
    {'output_bias': True},
    {'heads': 24, 'head_width': 64},  # 2048 / 24 is not whole
  ],
)
def test_what_no_family_has_cannot_be_written(change):
  config = dataclasses.replace(hf_config.from_hf(LLAMA), **change)
  with pytest.raises(ValueError, match='cannot be exported') as error:
    hf_config.to_hf(config)
  assert '\n' not in str(error.value)


# --- refusals ----------------------------------------------------------------


@pytest.mark.parametrize(
  'change',
  [
    {'model_type': 'mistral'},
    {'model_type': None},
    {'hidden_act': 'gelu'},
    {'partial_rotary_factor': 0.5},
    {'pretraining_tp': 2},
    {'is_causal': False},
    {'quantization_config': {'quant_method': 'gptq'}},
    {'per_layer_config': {'0': {'intermediate_size': 7}}},
    {'use_sliding_window': True},
    {'layer_types': ['full_attention'] * 27 + ['sliding_attention']},
    {'hidden_size': '1024'},
    {'num_hidden_layers': 0},
    {'num_hidden_layers': 28.0},
    {'rms_norm_eps': 'small'},
    {'attention_bias': 'false'},
    {'tie_word_embeddings': 'no'},
  ],
)
def test_what_the_decoder_does_not_do_is_named(change):
  raw = QWEN3 | {'max_window_layers': 21, 'sliding_window': 4096} | change
  (key,) = change
  assert key in refusal(raw)


def test_other_families_are_told_which_are_done():
  assert 'llama, qwen2, qwen3' in refusal(LLAMA | {'model_type': 'gemma3'})


@pytest.mark.parametrize(
  'change',
  [
    {},  # from layer 28 of 28 on
    {'use_sliding_window': False, 'max_window_layers': 0},
    {'sliding_window': None, 'max_window_layers': 0},
    {'layer_types': ['full_attention'] * 28, 'max_window_layers': 0},
  ],
)
def test_a_window_that_no_layer_uses_is_passed_over(change):
  raw = QWEN3 | {'use_sliding_window': True, 'sliding_window': 4096}
  assert hf_config.from_hf(raw | change) == hf_config.from_hf(QWEN3)


@pytest.mark.parametrize(
  'key',
  [
    'vocab_size',
    'hidden_size',
    'intermediate_size',
    'num_hidden_layers',
    'num_attention_heads',
    'num_key_value_heads',
    'head_dim',
  ],
)
def test_a_missing_size_is_named(key):
  assert f'no {key}' in refusal({k: v for k, v in QWEN3.items() if k != key})
