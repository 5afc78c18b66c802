# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Byte-level tokenizers: bytes, control tokens, what is refused.

Three small ones are trained here, put together as those of SmolLM2, Qwen and
Llama 3 are.
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

from searchrl_jax import byte_level
from searchrl_jax.chat import ChatTemplate
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


def fast(backend):
  return transformers.PreTrainedTokenizerFast(tokenizer_object=backend)


def wrapped(backend, *, vocabulary=0):
  return byte_level.wrap(
    fast(backend),
    name='tiny',
    eos_ids=frozenset({2}),
    vocabulary=vocabulary,
  )


@functools.cache
def small(kind):
  return wrapped(backend_of(kind))


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
  padded = wrapped(backend_of('qwen'), vocabulary=tokens + 7)
  assert padded.token_bytes == (*small('qwen').token_bytes, *[b''] * 7)
  assert padded.decode([tokens, tokens + 6]) == ''


def test_more_ids_than_rows_are_refused():
  tokens = len(small('qwen').token_bytes)
  with pytest.raises(ValueError, match=f'up to {tokens - 1} and the model 300'):
    wrapped(backend_of('qwen'), vocabulary=300)


def test_a_byte_without_a_token_does_not_become_a_control_token():
  state = json.loads(backend_of('smollm').to_str())
  words = state['model']['vocab']
  words['ĄĄ'] = words.pop('Ą')  # byte 4 has no token, two of them do
  state['model']['unk_token'] = '<|end|>'
  holed = tokenizers.Tokenizer.from_str(json.dumps(state))
  tokenizer = wrapped(holed)
  assert holed.encode('a\x04b').ids[1] == 0
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


# --- what is refused ---------------------------------------------------------


def lower_case():
  return train(normalizers.Lowercase(), _split_then_bytes())


def spaced():
  return train(None, [pre_tokenizers.ByteLevel(add_prefix_space=True)])


@pytest.mark.parametrize('changing', [lower_case, spaced])
def test_a_tokenizer_that_changes_texts_is_refused(changing):
  with pytest.raises(ValueError, match='of tiny changes texts') as error:
    wrapped(changing())
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
def test_other_kinds_of_tokenizers_are_refused(other):
  with pytest.raises(ValueError, match='of tiny is not byte-level BPE'):
    wrapped(other())
