# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Text to ids and back: word-list and byte-level tokenizers, chat templates.

Whatever the kind, the text of ids is the concatenation of their token bytes;
stop strings are compiled from these bytes (`rollout/stops.py`).
"""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Protocol

import jinja2
import jinja2.sandbox

PAD = '<pad>'
END = '<eos>'


class Tokenizer(Protocol):
  """What the package asks of a tokenizer."""

  token_bytes: tuple[bytes, ...]  # of every id; empty where it has no text
  eos_ids: frozenset[int]

  def encode(self, text: str) -> list[int]: ...

  def decode(self, ids: Sequence[int]) -> str: ...


def _decode(token_bytes, ids) -> str:
  return b''.join(token_bytes[i] for i in ids).decode('utf-8', 'replace')


@dataclasses.dataclass(frozen=True)
class WordTokenizer:
  """One id per white-space separated word of a closed list.

  Ids 0 and 1 are `<pad>` and `<eos>`. A token's bytes are a space and the
  word, so white space other than single spaces does not survive a round trip.
  """

  words: tuple[str, ...]

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

  def encode(self, text: str) -> list[int]:
    """Ids of the words of `text`. Raises ValueError at an unknown word."""
    try:
      return [self._ids[word] for word in text.split()]
    except KeyError as error:
      raise ValueError(
        f'{error.args[0]!r} is not among the {len(self.words)} words of the '
        'tokenizer; use the words of its world, or the byte tokenizer.'
      ) from None

  def decode(self, ids: Sequence[int]) -> str:
    return _decode(self.token_bytes, ids)


@dataclasses.dataclass(frozen=True)
class ByteTokenizer:
  """One id per UTF-8 byte (ids 2 to 257); 0 is `<pad>`, 1 is `<eos>`."""

  @functools.cached_property
  def token_bytes(self) -> tuple[bytes, ...]:
    return (b'', b'', *(bytes([byte]) for byte in range(256)))

  @property
  def eos_ids(self) -> frozenset[int]:
    return frozenset({1})

  def encode(self, text: str) -> list[int]:
    return [byte + 2 for byte in text.encode()]

  def decode(self, ids: Sequence[int]) -> str:
    return _decode(self.token_bytes, ids)


def shorten(tokenizer: Tokenizer, text: str, tokens: int) -> str:
  """The longest prefix of `text` of at most `tokens` ids, as text.

  A character cut in the middle of its bytes is dropped, not replaced.
  """
  ids = tokenizer.encode(text)
  if len(ids) <= tokens:
    return text
  data = b''.join(tokenizer.token_bytes[i] for i in ids[:tokens])
  return data.decode('utf-8', 'ignore')


# --- chat templates ----------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ChatTemplate:
  """A jinja2 chat template, as published beside instruction-tuned models."""

  source: str

  @classmethod
  def from_file(cls, path: str) -> 'ChatTemplate':
    file = pathlib.Path(path)
    if not file.is_file():
      raise ValueError(f'no chat template at {path}; give a jinja file.')
    return cls(file.read_text())

  @functools.cached_property
  def _template(self) -> jinja2.Template:
    # Templates come with downloaded models: sandboxed, never trusted.
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
      trim_blocks=True, lstrip_blocks=True
    )

    def raise_exception(message):
      raise ValueError(f'the chat template refuses these messages: {message}')

    environment.globals['raise_exception'] = raise_exception
    try:
      return environment.from_string(self.source)
    except jinja2.TemplateSyntaxError as error:
      raise ValueError(
        f'the chat template is not jinja, line {error.lineno}: {error.message}'
      ) from None

  def render(
    self,
    messages: Sequence[dict[str, str]],
    *,
    add_generation_prompt: bool = False,
    tools: Sequence[dict] | None = None,
  ) -> str:
    """The conversation as one string, optionally opening the next answer."""
    return self._template.render(
      messages=list(messages),
      add_generation_prompt=add_generation_prompt,
      tools=tools,
      bos_token='',
      eos_token=END,
    )

  def prompt(self, text: str) -> str:
    """A first user message, up to where the assistant begins to write."""
    return self.render(
      [{'role': 'user', 'content': text}], add_generation_prompt=True
    )

  @functools.cached_property
  def prefix_preserving(self) -> bool:
    """True where a longer conversation only ever appends to a shorter one.

    Some templates drop earlier `<think>` blocks when a turn is added. With
    such a template, history rendered anew is not what the policy saw; this
    package never renders history anew, and says so where one is loaded.
    """
    messages = []
    before = ''
    for i in range(3):
      messages.append({'role': 'user', 'content': f'question {i}'})
      asked = self.render(messages, add_generation_prompt=True)
      answer = f'<think>thought {i}</think> answer {i}'
      messages.append({'role': 'assistant', 'content': answer})
      after = self.render(messages)
      if not asked.startswith(before) or not after.startswith(asked + answer):
        return False
      before = after
    return True
