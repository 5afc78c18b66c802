# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Text to ids and back: word-list and byte-level tokenizers.

Whatever the kind, the text of ids is the concatenation of their token bytes;
stop strings are compiled from these bytes (`rollout/stops.py`). Tokenizers of
published models are in `pretrained_tokenizer.py`.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Protocol

PAD = '<pad>'
END = '<eos>'


class Tokenizer(Protocol):
  """What the package asks of a tokenizer.

  Control tokens, such as `<|im_end|>`, have an id and no text. Where their
  names are written in a text, they are read as control tokens only on demand:
  what a person asks or a search engine brings must never end a turn.
  """

  token_bytes: tuple[bytes, ...]  # of every id; empty where it has no text
  eos_ids: frozenset[int]
  special_texts: tuple[str, ...]  # how control tokens are written

  def encode(self, text: str, *, markup: bool = False) -> list[int]:
    """Ids of `text`; with `markup`, `special_texts` become their one id."""

  def decode(self, ids: Sequence[int]) -> str: ...


def decode_bytes(token_bytes: Sequence[bytes], ids: Sequence[int]) -> str:
  """The text of ids; bytes that are no character become U+FFFD."""
  return b''.join(token_bytes[i] for i in ids).decode('utf-8', 'replace')


@dataclasses.dataclass(frozen=True)
class WordTokenizer:
  """One id per white-space separated word of a closed list.

  Ids 0 and 1 are `<pad>` and `<eos>`. A token's bytes are a space and the
  word, so white space other than single spaces does not survive a round trip.
  """

  words: tuple[str, ...]
  special_texts = ()

  def __post_init__(self):
    if len(set(self.words)) != len(self.words):
      raise ValueError('the word list repeats a word; remove duplicates.')

  @functools.cached_property
  def _ids(self) -> dict[str, int]:
    return {word: i for i, word in enumerate((PAD, END, *self.words))}

  @functools.cached_property
  def token_bytes(self) -> tuple[bytes, ...]:
    return (b'', b'', *(b' ' + word.encode() for word in self.words))

  @property
  def eos_ids(self) -> frozenset[int]:
    return frozenset({1})

  def encode(self, text: str, *, markup: bool = False) -> list[int]:
    """Ids of the words of `text`. Raises ValueError at an unknown word."""
    try:
      return [self._ids[word] for word in text.split()]
    except KeyError as error:
      raise ValueError(
        f'{error.args[0]!r} is not among the {len(self.words)} words of the '
        'tokenizer; use the words of its world, or the byte tokenizer.'
      ) from None

  def decode(self, ids: Sequence[int]) -> str:
    return decode_bytes(self.token_bytes, ids)


@dataclasses.dataclass(frozen=True)
class ByteTokenizer:
  """One id per UTF-8 byte (ids 2 to 257); 0 is `<pad>`, 1 is `<eos>`."""

  special_texts = ()

  @functools.cached_property
  def token_bytes(self) -> tuple[bytes, ...]:
    return (b'', b'', *(bytes([byte]) for byte in range(256)))

  @property
  def eos_ids(self) -> frozenset[int]:
    return frozenset({1})

  def encode(self, text: str, *, markup: bool = False) -> list[int]:
    return [byte + 2 for byte in text.encode()]

  def decode(self, ids: Sequence[int]) -> str:
    return decode_bytes(self.token_bytes, ids)


def shorten(tokenizer: Tokenizer, text: str, tokens: int) -> str:
  """The longest prefix of `text`, cut between ids, of at most `tokens` ids.

  Control tokens written in `text` count as the plain text they are. A
  character cut in the middle of its bytes is dropped, not replaced.
  """
  ids = tokenizer.encode(text)
  if len(ids) <= tokens:
    return text
  for kept in range(tokens, 0, -1):
    data = b''.join(tokenizer.token_bytes[i] for i in ids[:kept])
    short = data.decode('utf-8', 'ignore')
    # Without its cut character the text may be spelled with more ids.
    if len(tokenizer.encode(short)) <= tokens:
      return short
  return ''
