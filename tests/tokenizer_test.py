# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Text to ids and back, and texts cut to a number of ids."""

import hypothesis
import hypothesis.strategies as st
import pytest

from searchrl_jax.testing import ToyTokenizer
from searchrl_jax.tokenizer import (
  ByteTokenizer,
  WordTokenizer,
  shorten,
)

WORDS = WordTokenizer(('ada', 'bob', '<search>', 'who'))
BYTES = ByteTokenizer()


# --- tokenizers --------------------------------------------------------------


@hypothesis.given(st.lists(st.sampled_from(WORDS.words), max_size=9))
def test_words_round_trip(words):
  ids = WORDS.encode(' '.join(words))
  assert len(ids) == len(words)
  assert WORDS.decode(ids) == ''.join(' ' + word for word in words)
  assert WORDS.encode(WORDS.decode(ids)) == ids


def test_words_are_split_at_any_white_space():
  assert WORDS.encode(' ada\n  bob\twho') == WORDS.encode('ada bob who')


def test_an_unknown_word_is_named_in_one_line():
  with pytest.raises(ValueError, match="'eve' is not among the 4") as error:
    WORDS.encode('ada eve')
  assert '\n' not in str(error.value)


def test_a_repeated_word_is_refused():
  with pytest.raises(ValueError, match='repeats'):
    WordTokenizer(('ada', 'bob', 'ada'))


@hypothesis.given(st.text(max_size=20))
def test_bytes_round_trip(text):
  ids = BYTES.encode(text)
  assert BYTES.decode(ids) == text
  assert all(2 <= i <= 257 for i in ids)
  assert len(ids) == len(text.encode())


def test_half_a_character_is_shown_as_missing_and_never_raises():
  ids = BYTES.encode('é')
  assert BYTES.decode(ids[:1]) == '\ufffd'


@pytest.mark.parametrize('tokenizer', [WORDS, BYTES])
def test_special_ids_have_no_text(tokenizer):
  assert tokenizer.eos_ids == {1}
  assert tokenizer.decode([0, 1, 0]) == ''
  assert tokenizer.token_bytes[:2] == (b'', b'')
  assert all(tokenizer.token_bytes[2:])


@hypothesis.given(st.text('aé東🗼\n', max_size=12), st.integers(0, 30))
def test_shortening_never_splits_a_character(text, tokens):
  short = shorten(BYTES, text, tokens)
  assert text.startswith(short)  # no replacement character either
  assert len(BYTES.encode(short)) <= tokens
  # The longest such prefix: one character more would not fit.
  longer = text[: len(short) + 1]
  assert short == text or len(BYTES.encode(longer)) > tokens


def test_shortening_leaves_what_fits_as_it_is():
  """White space included, though words would not bring it back."""
  assert shorten(WORDS, 'ada\n\nbob', 2) == 'ada\n\nbob'
  assert shorten(WORDS, 'ada\n\nbob who', 2) == ' ada bob'


class Torn(ToyTokenizer):
  """Has one id for "é" and the first byte of "東", and none for "é"."""

  token_bytes = (b'', b'', 'é東'.encode()[:3], *map(bytes, zip(range(256))))


def test_a_character_that_is_dropped_may_cost_an_id():
  tokenizer = Torn()
  assert len(tokenizer.encode('é東')) == 3
  # One id is "é" and a byte too many; "é" alone takes two.
  assert shorten(tokenizer, 'é東', 1) == ''
  assert shorten(tokenizer, 'é東', 2) == 'é'


# --- control tokens ----------------------------------------------------------


def test_control_tokens_are_text_unless_markup_is_read():
  toy = ToyTokenizer(special_texts=('<|end|>',))
  text = 'a<|end|>b<|end'
  assert toy.decode(toy.encode(text)) == text
  end = toy.control_id('<|end|>')
  ids = toy.encode(text, markup=True)
  assert ids == [*toy.encode('a'), end, *toy.encode('b<|end')]
  assert toy.token_bytes[end] == b''
  # Shortened, they count as the text they are.
  assert shorten(toy, text, 4) == 'a<|e'


@pytest.mark.parametrize('tokenizer', [WORDS, BYTES])
def test_words_and_bytes_have_no_control_tokens_to_write(tokenizer):
  assert tokenizer.special_texts == ()
  assert tokenizer.encode('ada who', markup=True) == tokenizer.encode('ada who')
