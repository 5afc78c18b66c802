# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of published models, over `transformers`.

Byte-level BPE only: there every id stands for fixed bytes, so that the text of
ids is the concatenation of their bytes whatever their neighbours, and stop
strings can be compiled. Its vocabulary writes a byte as a printable character:

  bytes   e3 81 82          vocabulary   ãģĤ
  bytes   20 63 61 74       vocabulary   Ġcat
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers

from searchrl_jax.chat import ChatTemplate
from searchrl_jax.gguf_file import GgufFile
from searchrl_jax.model_files import CONFIG, Kind, ModelFiles
from searchrl_jax.tokenizer import decode_bytes

# Imported where it is used: a second that `--help` shall not take, and three
# more for `AutoTokenizer`, which few models need.
if typing.TYPE_CHECKING:
  import transformers

# What a tokenizer must give back as it was: accents composed, as NFC has them.
_PROBE = 'Ünï codé  東京 🗼\n\n <search>It\'s 1,024\t"x"</search>'
# Where a GGUF file names ids that end a turn: of a text, a turn, a message.
_GGUF_ENDS = ('eos', 'eot', 'eom')


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
  """

  token_bytes: tuple[bytes, ...]
  eos_ids: frozenset[int]
  special_texts: tuple[str, ...]
  plain: tokenizers.Tokenizer
  markup: tokenizers.Tokenizer

  def encode(self, text: str, *, markup: bool = False) -> list[int]:
    """Ids of `text`, without a beginning of sequence of its own.

    Bytes that have no token are left out.
    """
    backend = self.markup if markup else self.plain
    return backend.encode(text, add_special_tokens=False).ids

  def decode(self, ids: Sequence[int]) -> str:
    return decode_bytes(self.token_bytes, ids)


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


# --- from files --------------------------------------------------------------


def load(files: ModelFiles, *, vocabulary: int) -> PretrainedTokenizer:
  """The tokenizer of a model.

  A turn ends at any id that the model's files declare an end, and at the
  control token its chat template writes after an answer.

  Args:
    files: of the model; nothing is fetched, no code of theirs is run.
    vocabulary: V, rows of the model; 0 for as many as tokens.

  Raises:
    ValueError: there is no tokenizer, or it is not byte-level, or has more ids
      than the model has rows.
  """
  if files.kind is Kind.GGUF:
    from searchrl_jax import gguf_tokenizer  # which imports transformers

    file = GgufFile(files.path)
    tokenizer = gguf_tokenizer.build(file)
    ends = _gguf_ends(file.metadata)
    template = _gguf_template(file.metadata)
  else:
    tokenizer = _read_tokenizer(files)
    ends = _declared_ends(files.path)
    template = _template(files.path)
  if tokenizer.eos_token_id is not None:
    ends.add(tokenizer.eos_token_id)
  if template is not None:
    added = tokenizer.added_tokens_decoder
    end = template.end_of_turn([token.content for token in added.values()])
    ends |= {i for i, token in added.items() if token.content == end}
  return wrap(
    tokenizer,
    name=files.name,
    eos_ids=frozenset(ends),
    vocabulary=vocabulary,
  )


def chat_template(files: ModelFiles) -> ChatTemplate:
  """The chat template of a model, with the control tokens it may write.

  Raises:
    ValueError: the model has none.
  """
  if files.kind is Kind.GGUF:
    template = _gguf_template(GgufFile(files.path).metadata)
  else:
    template = _template(files.path)
  if template is None:
    raise ValueError(
      f'{files.name} has no chat template: it was not tuned to converse; leave '
      'chat_template empty, or give a jinja file.'
    )
  return template


def _read_tokenizer(files) -> transformers.PreTrainedTokenizerFast:
  import transformers

  kind = transformers.PreTrainedTokenizerFast
  if not (files.path / 'tokenizer.json').is_file():
    kind = transformers.AutoTokenizer  # knows which lists it is made from
  try:
    return kind.from_pretrained(
      str(files.path), local_files_only=True, trust_remote_code=False
    )
  except Exception as error:  # of whatever reads this model's kind of file
    lines = str(error).strip().splitlines() or [type(error).__name__]
    raise ValueError(
      f'no tokenizer can be read from {files.path}: {lines[0]}; it needs '
      'tokenizer.json, or vocab.json and merges.txt.'
    ) from None


def _declared_ends(folder: pathlib.Path) -> set[int]:
  ends = set()
  for name in ('generation_config.json', CONFIG):
    declared = _json(folder / name).get('eos_token_id')
    if declared is not None:
      ends |= {declared} if isinstance(declared, int) else set(declared)
  return ends


def _template(folder: pathlib.Path) -> ChatTemplate | None:
  """The template as `transformers` would find it."""
  config = _json(folder / 'tokenizer_config.json')
  source = config.get('chat_template')
  if isinstance(source, list):  # several, with names
    source = {entry['name']: entry['template'] for entry in source}
    source = source.get('default')
  if (folder / 'chat_template.jinja').is_file():
    source = (folder / 'chat_template.jinja').read_text(encoding='utf-8')
  if source is None:
    return None
  older = _json(folder / 'special_tokens_map.json')
  return ChatTemplate(source, _tokens(older) | _tokens(config))


def _tokens(config: Mapping[str, Any]) -> dict[str, str]:
  """The control tokens that a file gives a name, such as `bos_token`."""
  named = {}
  for key, token in config.items():
    if key.endswith('_token'):
      text = token.get('content') if isinstance(token, dict) else token
      if isinstance(text, str):
        named[key] = text
  return named


def _json(path: pathlib.Path) -> dict[str, Any]:
  if not path.is_file():
    return {}
  try:
    value = json.loads(path.read_text(encoding='utf-8'))
  except ValueError as error:
    raise ValueError(
      f'{path} is not JSON ({error}); download it again.'
    ) from None
  return value if isinstance(value, dict) else {}


def _gguf_ends(metadata: Mapping[str, Any]) -> set[int]:
  keys = [f'tokenizer.ggml.{end}_token_id' for end in _GGUF_ENDS]
  return {metadata[key] for key in keys if key in metadata}


def _gguf_template(metadata: Mapping[str, Any]) -> ChatTemplate | None:
  if 'tokenizer.chat_template' not in metadata:
    return None
  texts = metadata['tokenizer.ggml.tokens']
  keys = {name: f'tokenizer.ggml.{name}_token_id' for name in ('bos', 'eos')}
  return ChatTemplate(
    metadata['tokenizer.chat_template'],
    {
      f'{name}_token': texts[metadata[key]]
      for name, key in keys.items()
      if key in metadata
    },
  )
