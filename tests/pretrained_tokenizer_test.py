# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of published models: bytes, control tokens, ends of turns.

Three small ones are trained here, put together as those of SmolLM2, Qwen and
Llama 3 are; the real one of SmolLM2 comes from an installed package.
"""

import functools
import json
import unicodedata

import hypothesis
import hypothesis.strategies as st
import pytest
import tokenizers
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from searchrl_jax import model_files, pretrained_tokenizer
from searchrl_jax.chat import ChatTemplate
from searchrl_jax.model_files import Kind, ModelFiles
from searchrl_jax.rollout.stops import STOPPED, compile_stops
from searchrl_jax.tokenizer import shorten

SAID = [
  'the cat sat on the mat and asked who wrote the book',
  '<search> who wrote the book </search> <answer> Ada Lovelace </answer>',
  "it's the year 1843, isn't it?\n\n  She'll answer.\n",
  'Où est la tour? 東京タワーはどこですか 🗼',
]
CONTROL = ('<|end|>', '<|start|>', '<|stop|>')
WORDS = (
  r"""'\w+|[^\r\n\w]?[^\W\d_]+|\d{1,3}| ?[^\s\w]+[\r\n]*|\s+(?!\S)|\s+|\w"""
)
CHATML = (
  '{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|stop|>\n'
  '{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}'
)


def train(normalizer, splitting, **options):
  """A byte-level tokenizer; ids 0, 1, 2 are control tokens."""
  backend = tokenizers.Tokenizer(models.BPE(**options))
  backend.normalizer = normalizer
  backend.pre_tokenizer = pre_tokenizers.Sequence(splitting)
  backend.decoder = decoders.ByteLevel()
  trainer = trainers.BpeTrainer(
    vocab_size=400,
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    special_tokens=list(CONTROL),
    show_progress=False,
  )
  backend.train_from_iterator(SAID * 4, trainer)
  backend.add_tokens(['<think>', '</think>'])  # text that has an id
  return backend


def like_smollm():
  byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
  digits = pre_tokenizers.Digits(individual_digits=True)
  return train(None, [digits, byte_level])


def _split_then_bytes():
  return [
    pre_tokenizers.Split(tokenizers.Regex(WORDS), 'isolated'),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
  ]


def like_qwen():
  return train(normalizers.NFC(), _split_then_bytes())


def like_llama():
  backend = train(None, _split_then_bytes(), ignore_merges=True)
  backend.post_processor = tokenizers.processors.TemplateProcessing(
    single='<|start|> $A', special_tokens=[('<|start|>', 1)]
  )
  return backend


KINDS = {'smollm': like_smollm, 'qwen': like_qwen, 'llama': like_llama}


@functools.cache
def backend_of(kind):
  return KINDS[kind]()


def fast(backend, **named):
  return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **named)


@functools.cache
def small(kind, vocabulary=0):
  return pretrained_tokenizer.wrap(
    fast(backend_of(kind), eos_token='<|stop|>'),
    name=kind,
    eos_ids=frozenset({2}),
    vocabulary=vocabulary,
  )


def saved(folder, tokenizer, **files):
  """A model directory without weights; `a__json` is written as a.json."""
  tokenizer.save_pretrained(folder)
  (folder / 'config.json').write_text('{}')
  for name, value in files.items():
    name = name.replace('__', '.')
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text)
  return ModelFiles('ours/tiny', folder, Kind.DIRECTORY, 'test')


@pytest.fixture(scope='module')
def smollm_files():
  return model_files.find(
    'HuggingFaceTB/SmolLM2-135M-Instruct', model_files.TOKENIZER
  )


@pytest.fixture(scope='module')
def smollm(smollm_files):
  return pretrained_tokenizer.load(smollm_files, vocabulary=49152)


def spelled(tokenizer, ids):
  return b''.join(tokenizer.token_bytes[i] for i in ids)


# --- bytes -------------------------------------------------------------------

# Control tokens, added tokens, their halves, white space, digits, characters
# of one to four bytes, composed and not.
PIECES = (*CONTROL, '<think>', '<|', 'stop', '|>', ' ', '\n', '\t', "'s", '12')
PIECES += ('the', '<search>', 'é', 'e\u0301', '東', '🗼', '\U00050000', '\x04')
texts = st.lists(st.sampled_from(PIECES), max_size=12).map(''.join) | st.text()


@pytest.mark.parametrize('kind', KINDS)
@hypothesis.settings(deadline=None)
@hypothesis.given(text=texts)
def test_the_bytes_of_ids_are_the_text(kind, text):
  tokenizer = small(kind)
  if kind == 'qwen':
    text = unicodedata.normalize('NFC', text)  # all that is lost
  ids = tokenizer.encode(text)
  assert spelled(tokenizer, ids) == text.encode()
  assert tokenizer.decode(ids) == text
  # What is plain text holds no control token, so it can end no turn.
  assert not set(ids) & {0, 1, 2}


@pytest.mark.parametrize('kind', KINDS)
@hypothesis.given(text=texts)
def test_published_ids_are_kept(kind, text):
  """Ids are those of `transformers`, both as plain text and as markup."""
  theirs = fast(backend_of(kind))
  ours = small(kind)
  assert ours.encode(text, markup=True) == theirs.encode(
    text, add_special_tokens=False
  )
  assert ours.encode(text) == theirs.encode(
    text, add_special_tokens=False, split_special_tokens=True
  )


@pytest.mark.parametrize('kind', KINDS)
def test_every_id_has_the_bytes_its_decoder_gives_it(kind):
  tokenizer, backend = small(kind), backend_of(kind)
  for i, data in enumerate(tokenizer.token_bytes):
    if i > 2:
      assert data.decode('utf-8', 'replace') == backend.decode([i])
  assert tokenizer.token_bytes[:3] == (b'', b'', b'')
  think = backend.token_to_id('<think>')
  assert tokenizer.token_bytes[think] == b'<think>'


def test_a_character_of_two_ids_is_put_together():
  tokenizer = small('smollm')
  ids = tokenizer.encode('\U00050000')
  assert len(ids) == 4 and tokenizer.decode(ids) == '\U00050000'
  assert tokenizer.decode(ids[:3]) == '\ufffd'


def test_rows_without_a_token_have_no_text():
  tokens = len(small('qwen').token_bytes)
  padded = small('qwen', tokens + 7)
  assert padded.token_bytes == (*small('qwen').token_bytes, *[b''] * 7)
  assert padded.decode([tokens, tokens + 6]) == ''


def test_more_ids_than_rows_are_refused():
  tokens = len(small('qwen').token_bytes)
  with pytest.raises(ValueError, match=f'up to {tokens - 1} and the model 300'):
    small('qwen', 300)


def test_a_byte_without_a_token_does_not_become_a_control_token():
  state = json.loads(backend_of('smollm').to_str())
  del state['model']['vocab']['Ą']  # byte 4
  state['model']['unk_token'] = '<|end|>'
  holed = fast(tokenizers.Tokenizer.from_str(json.dumps(state)))
  tokenizer = pretrained_tokenizer.wrap(
    holed, name='x', eos_ids=frozenset(), vocabulary=0
  )
  assert holed.encode('a\x04b')[1] == 0
  assert tokenizer.encode('a\x04b') == tokenizer.encode('ab')


@pytest.mark.parametrize('kind', KINDS)
@hypothesis.given(text=texts, tokens=st.integers(0, 20))
def test_a_shortened_text_fits_and_no_character_is_cut(kind, text, tokens):
  tokenizer = small(kind)
  text = unicodedata.normalize('NFC', text)
  short = shorten(tokenizer, text, tokens)
  assert text.startswith(short)
  assert len(tokenizer.encode(short)) <= tokens or short == text == ''
  if len(tokenizer.encode(text)) <= tokens:
    assert short == text


STOPS = ('</search>', '</answer>', '\n\n', '東京')


@functools.cache
def stop_table(kind):
  tokenizer = small(kind)
  return compile_stops(STOPS, tokenizer.token_bytes, tokenizer.eos_ids)


@pytest.mark.parametrize('kind', KINDS)
@hypothesis.given(
  text=st.lists(
    st.sampled_from((*PIECES, '</search', '>', '</', 'answer>', '東', '京')),
    max_size=12,
  ).map(''.join)
)
def test_a_turn_stops_where_a_search_of_its_text_finds_a_stop(kind, text):
  tokenizer, table = small(kind), stop_table(kind)
  ids = tokenizer.encode(text)
  state, stopped = 1, []
  for i in ids:
    state = table[state, i]
    stopped.append(state == STOPPED)
  assert stopped == [
    any(stop.encode() in spelled(tokenizer, ids[: n + 1]) for stop in STOPS)
    for n in range(len(ids))
  ]


def test_an_end_of_turn_stops_and_its_name_does_not():
  tokenizer, table = small('llama'), stop_table('llama')
  (end,) = tokenizer.encode('<|stop|>', markup=True)
  assert table[1, end] == STOPPED
  named = tokenizer.encode('<|stop|>')
  assert len(named) > 1 and STOPPED not in table[1, named]


# --- which files -------------------------------------------------------------


def test_a_directory_gives_the_same_tokenizer(tmp_path):
  files = saved(tmp_path, fast(backend_of('llama'), eos_token='<|stop|>'))
  loaded = pretrained_tokenizer.load(files, vocabulary=500)
  assert loaded.token_bytes == small('llama', 500).token_bytes
  assert loaded.special_texts == CONTROL
  assert loaded.eos_ids == {2}
  # No <|start|> of its own, though the file would put one before every text.
  assert loaded.encode(SAID[1]) == small('llama').encode(SAID[1])


def test_older_directories_list_words_and_merges(tmp_path):
  backend_of('qwen').model.save(str(tmp_path))
  (tmp_path / 'tokenizer_config.json').write_text(
    json.dumps({'tokenizer_class': 'Qwen2Tokenizer', 'eos_token': '<|stop|>'})
  )
  (tmp_path / 'config.json').write_text(json.dumps({'model_type': 'qwen2'}))
  files = ModelFiles('ours/old', tmp_path, Kind.DIRECTORY, 'test')
  tokenizer = pretrained_tokenizer.load(files, vocabulary=0)
  assert spelled(tokenizer, tokenizer.encode(SAID[3])) == SAID[3].encode()
  assert tokenizer.eos_ids == {2}
  assert '<|stop|>' in tokenizer.special_texts


def test_texts_are_neither_cut_nor_filled_up(tmp_path):
  backend = tokenizers.Tokenizer.from_str(backend_of('qwen').to_str())
  backend.enable_truncation(4)
  backend.enable_padding(length=9)
  files = saved(tmp_path, fast(backend))
  tokenizer = pretrained_tokenizer.load(files, vocabulary=0)
  assert tokenizer.decode(tokenizer.encode('a')) == 'a'
  assert tokenizer.decode(tokenizer.encode(SAID[0])) == SAID[0]


@pytest.mark.parametrize(
  'named, files, ends',
  [
    ({}, {}, set()),
    ({'eos_token': '<|end|>'}, {}, {0}),
    ({}, {'config__json': {'eos_token_id': 1}}, {1}),
    ({}, {'generation_config__json': {'eos_token_id': [0, 2]}}, {0, 2}),
    # A base model ends texts; its chat template ends turns.
    ({'eos_token': '<|end|>'}, {'chat_template__jinja': CHATML}, {0, 2}),
    # What follows an answer is text here, and text ends nothing.
    ({}, {'chat_template__jinja': CHATML.replace('<|stop|>', '')}, set()),
    (
      {'eos_token': '<|end|>'},
      {
        'config__json': {'eos_token_id': 0},
        'generation_config__json': {'eos_token_id': [1]},
        'chat_template__jinja': CHATML,
      },
      {0, 1, 2},
    ),
  ],
)
def test_a_turn_ends_at_all_that_is_declared_an_end(
  tmp_path, named, files, ends
):
  files = saved(tmp_path, fast(backend_of('qwen'), **named), **files)
  assert pretrained_tokenizer.load(files, vocabulary=0).eos_ids == ends


def test_what_ends_a_turn_is_a_control_token_whatever_the_file_says(tmp_path):
  backend = tokenizers.Tokenizer.from_str(backend_of('qwen').to_str())
  backend.add_tokens(['<turn>'])
  end = backend.token_to_id('<turn>')
  files = saved(
    tmp_path, fast(backend), generation_config__json={'eos_token_id': end}
  )
  tokenizer = pretrained_tokenizer.load(files, vocabulary=0)
  assert tokenizer.token_bytes[end] == b''
  assert end not in tokenizer.encode('<turn>')
  assert tokenizer.encode('<turn>', markup=True) == [end]


def lower_case():
  return train(normalizers.Lowercase(), _split_then_bytes())


def spaced():
  return train(None, [pre_tokenizers.ByteLevel(add_prefix_space=True)])


@pytest.mark.parametrize('changing', [lower_case, spaced])
def test_a_tokenizer_that_changes_texts_is_refused(tmp_path, changing):
  files = saved(tmp_path, fast(changing()))
  with pytest.raises(ValueError, match='of ours/tiny changes texts') as error:
    pretrained_tokenizer.load(files, vocabulary=0)
  assert '\n' not in str(error.value)


def sentence_pieces():
  backend = tokenizers.Tokenizer(models.BPE(byte_fallback=True))
  backend.pre_tokenizer = pre_tokenizers.Metaspace()
  backend.decoder = decoders.Metaspace()
  backend.train_from_iterator(SAID, trainers.BpeTrainer(show_progress=False))
  return backend


def word_pieces():
  backend = tokenizers.Tokenizer(models.WordPiece(unk_token='[UNK]'))
  backend.pre_tokenizer = pre_tokenizers.Whitespace()
  backend.decoder = decoders.WordPiece()
  trainer = trainers.WordPieceTrainer(
    special_tokens=['[UNK]'], show_progress=False
  )
  backend.train_from_iterator(SAID, trainer)
  return backend


@pytest.mark.parametrize('other', [sentence_pieces, word_pieces])
def test_other_kinds_of_tokenizers_are_refused(tmp_path, other):
  files = saved(tmp_path, fast(other()))
  with pytest.raises(ValueError, match='of ours/tiny is not byte-level BPE'):
    pretrained_tokenizer.load(files, vocabulary=0)


def test_a_directory_without_a_tokenizer_is_one_line(tmp_path):
  (tmp_path / 'config.json').write_text('{}')
  files = ModelFiles('ours/bare', tmp_path, Kind.DIRECTORY, 'test')
  with pytest.raises(ValueError, match='can be read from') as error:
    pretrained_tokenizer.load(files, vocabulary=0)
  assert '\n' not in str(error.value)


@pytest.mark.parametrize('broken', ['tokenizer.json', 'generation_config.json'])
def test_a_broken_file_is_named(tmp_path, broken):
  files = saved(tmp_path, fast(backend_of('qwen')))
  (tmp_path / broken).write_text('{"cut off')
  with pytest.raises(ValueError, match=str(tmp_path)) as error:
    pretrained_tokenizer.load(files, vocabulary=0)
  assert '\n' not in str(error.value)


# --- templates that come with models -----------------------------------------


def test_a_template_is_found_where_transformers_finds_it(tmp_path):
  tokenizer = fast(
    backend_of('qwen'), bos_token='<|start|>', eos_token='<|end|>'
  )
  files = saved(tmp_path, tokenizer)
  with pytest.raises(ValueError, match='ours/tiny has no chat template'):
    pretrained_tokenizer.chat_template(files)

  config = json.loads((tmp_path / 'tokenizer_config.json').read_text())
  path = tmp_path / 'tokenizer_config.json'
  source = '{{ bos_token }}{{ messages[0].content }}{{ eos_token }}'
  path.write_text(json.dumps(config | {'chat_template': source}))
  template = pretrained_tokenizer.chat_template(files)
  assert template.prompt('hi') == '<|start|>hi<|end|>'

  several = [
    {'name': 'tool_use', 'template': 'tools'},
    {'name': 'default', 'template': source + '!'},
  ]
  path.write_text(json.dumps(config | {'chat_template': several}))
  template = pretrained_tokenizer.chat_template(files)
  assert template.prompt('hi') == '<|start|>hi<|end|>!'

  (tmp_path / 'chat_template.jinja').write_text(source + '?')
  template = pretrained_tokenizer.chat_template(files)
  assert template.prompt('hi') == '<|start|>hi<|end|>?'
  theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
  assert template.source == theirs.chat_template


@pytest.mark.parametrize('kind', KINDS)
def test_a_conversation_turn_by_turn_is_the_whole_token_for_token(kind):
  template, tokenizer = ChatTemplate(CHATML), small(kind)
  assert template.prefix_preserving
  messages = []
  ids, text = [], ''
  for question, answer in zip(SAID[::2], SAID[1::2], strict=True):
    messages.append({'role': 'user', 'content': question})
    asked = template.render(messages, add_generation_prompt=True)
    messages.append({'role': 'assistant', 'content': answer})
    whole = template.render(messages)
    # The template's part up to the answer, the answer, the end of the turn.
    ids += tokenizer.encode(asked.removeprefix(text), markup=True)
    ids += tokenizer.encode(answer)
    ids += tokenizer.encode(whole.removeprefix(asked + answer), markup=True)
    text = whole
  assert ids == tokenizer.encode(text, markup=True)


@pytest.mark.parametrize('kind', KINDS)
@hypothesis.given(text=texts.filter(lambda text: '\ue000' not in text))
def test_a_prompt_has_the_control_tokens_of_the_template_only(kind, text):
  template, tokenizer = ChatTemplate(CHATML), small(kind)
  ids = template.encode_prompt(tokenizer, text)
  assert [i for i in ids if i < 3] == [1, 2, 1]  # start, stop, start
  if kind == 'qwen':
    text = unicodedata.normalize('NFC', text)
  first, second = ids.index(2), len(ids) - 1 - ids[::-1].index(1)
  assert tokenizer.decode(ids[1:first]) == 'user\n' + text
  assert tokenizer.decode(ids[second:]) == 'assistant\n'


# --- SmolLM2 -----------------------------------------------------------------

# Bytes that no token of SmolLM2 has.
_LOST = {4, 6, 19, 20, 22, 29, 241, 242}


@hypothesis.settings(deadline=None)
@hypothesis.given(text=texts)
def test_smollm2_spells_what_it_was_given(smollm, text):
  ids = smollm.encode(text)
  assert not set(ids) & set(range(17))
  kept = bytes(byte for byte in text.encode() if byte not in _LOST)
  assert spelled(smollm, ids) == kept


def test_smollm2_splits_numbers_and_ends_turns(smollm):
  pieces = [smollm.token_bytes[i] for i in smollm.encode('in 1843 Ada')]
  assert pieces == [b'in', b' ', b'1', b'8', b'4', b'3', b' Ada']
  assert smollm.eos_ids == {2}
  assert smollm.special_texts[:3] == (
    '<|endoftext|>',
    '<|im_start|>',
    '<|im_end|>',
  )
  assert len(smollm.token_bytes) == 49152


def test_smollm2_is_asked_in_its_own_words(smollm, smollm_files):
  template = pretrained_tokenizer.chat_template(smollm_files)
  assert template.prefix_preserving
  ids = template.encode_prompt(smollm, 'What does <|im_end|> mean?')
  # system, its end, user, its end, assistant; the question ends nothing.
  assert [i for i in ids if i < 17] == [1, 2, 1, 2, 1]
  assert smollm.decode(ids).endswith('What does <|im_end|> mean?\nassistant\n')
