# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of published models, over `transformers`: byte-level BPE only.

That of Qwen, Llama 3, SmolLM2 and others. Every id stands for fixed bytes,
whatever its neighbours, so that stop strings can be compiled. The vocabulary
writes a byte as a printable character:

  bytes   e3 81 82          vocabulary   ãģĤ
  bytes   20 63 61 74       vocabulary   Ġcat
"""

from __future__ import annotations

import dataclasses
import json
import os
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers

from searchrl_jax.tokenizer import decode_bytes

if typing.TYPE_CHECKING:  # a second that `--help` shall not take
  import transformers

# What a tokenizer must give back as it was: accents composed, as NFC has them.
_PROBE = 'Ünï codé  東京 🗼\n\n <search>It\'s 1,024\t"x"</search>'


def _characters() -> dict[str, int]:
  """The character that stands for each byte, from it to the byte.

  Bytes that are visible characters of Latin-1 stand for themselves; the
  others are counted upward from U+0100.
  """
  visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
  others = sorted(set(range(256)) - set(visible))
  table = {chr(byte): byte for byte in visible}
  return table | {chr(256 + n): byte for n, byte in enumerate(others)}


@dataclasses.dataclass(frozen=True, eq=False)
class PretrainedTokenizer:
  """A byte-level tokenizer, as wide as the model it speaks for.

  Attributes:
    token_bytes: [V]; empty for control tokens and for rows of the model that
      have no token.
    eos_ids: the tokens that end a turn.
    special_texts: how control tokens are written, in the order of their ids.
    plain: reads their names as text.
    markup: reads them as control tokens.
    published: what both were made from.
  """

  token_bytes: tuple[bytes, ...]
  eos_ids: frozenset[int]
  special_texts: tuple[str, ...]
  plain: tokenizers.Tokenizer
  markup: tokenizers.Tokenizer
  published: transformers.PreTrainedTokenizerFast

  def encode(self, text: str, *, markup: bool = False) -> list[int]:
    """Ids of `text`, without a beginning of sequence of its own.

    Bytes that have no token are left out.
    """
    backend = self.markup if markup else self.plain
    return backend.encode(text, add_special_tokens=False).ids

  def decode(self, ids: Sequence[int]) -> str:
    return decode_bytes(self.token_bytes, ids)

  def save(self, directory: str | os.PathLike[str]) -> None:
    """Writes it, with its chat template, for `transformers` to load."""
    self.published.save_pretrained(directory)


def wrap(
  tokenizer: transformers.PreTrainedTokenizerFast,
  *,
  name: str,
  eos_ids: frozenset[int],
  vocabulary: int,
) -> PretrainedTokenizer:
  """A tokenizer of `transformers` under the protocol of this package.

  Args:
    tokenizer: a byte-level one.
    name: whose it is, for errors.
    eos_ids: ids that end a turn; control tokens even where not declared so.
    vocabulary: V, rows of the model, which may have more than there are
      tokens; 0 for as many as tokens.

  Raises:
    ValueError: it is not byte-level, does not give texts back, or has more
      ids than the model has rows.
  """
  state = json.loads(tokenizer.backend_tokenizer.to_str())
  _require_byte_level(state, name)
  # Texts are neither cut nor filled up, and a byte without a token (SmolLM2
  # has none for some control characters) does not become a control token.
  state['truncation'] = state['padding'] = state['model']['unk_token'] = None
  plain, markup = (
    tokenizers.Tokenizer.from_str(json.dumps(state)) for _ in range(2)
  )
  most = max([*plain.get_vocab(with_added_tokens=True).values(), *eos_ids])
  rows = vocabulary or most + 1
  if most >= rows:
    raise ValueError(
      f'the tokenizer of {name} has ids up to {most} and the model {rows} '
      'rows; they do not belong together, choose another of the two.'
    )
  for backend in (plain, markup):
    added = backend.get_added_tokens_decoder()
    backend.add_special_tokens([added[i] for i in eos_ids if i in added])
  plain.encode_special_tokens = True
  added = plain.get_added_tokens_decoder()
  special = {i: token.content for i, token in added.items() if token.special}
  wrapped = PretrainedTokenizer(
    _token_bytes(plain, rows),
    eos_ids,
    tuple(special[i] for i in sorted(special)),
    plain,
    markup,
    tokenizer,
  )
  _require_faithful(wrapped, name, [token.content for token in added.values()])
  return wrapped


def _require_byte_level(state: Mapping[str, Any], name: str) -> None:
  added = {token['content'] for token in state['added_tokens']}
  kind, vocabulary = state['model']['type'], state['model']['vocab']
  if (
    kind != 'BPE'
    or 'ByteLevel' not in str(state['decoder'])
    or not set().union(*(set(vocabulary) - added)) <= _characters().keys()
  ):
    raise ValueError(
      f'the tokenizer of {name} is not byte-level BPE; choose a model that has '
      'such a tokenizer: Qwen, Llama 3, SmolLM2.'
    )


def _token_bytes(backend, rows) -> tuple[bytes, ...]:
  added = backend.get_added_tokens_decoder()
  table = _characters()
  token_bytes = [b''] * rows
  for text, i in backend.get_vocab(with_added_tokens=True).items():
    if i not in added:
      token_bytes[i] = bytes(table[character] for character in text)
    elif not added[i].special:
      token_bytes[i] = text.encode()
  return tuple(token_bytes)


def _require_faithful(wrapped, name, added) -> None:
  """Texts survive, and a written control token is a text like any other."""
  text = ' '.join((_PROBE, *added))
  ids = wrapped.encode(text)
  given = b''.join(wrapped.token_bytes[i] for i in ids)
  if given != text.encode():
    raise ValueError(
      f'the tokenizer of {name} changes texts: {text!r} comes back as '
      f'{given.decode("utf-8", "replace")!r}; choose another model.'
    )
