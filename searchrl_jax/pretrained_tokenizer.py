# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer and the chat template that come with a published model."""

from __future__ import annotations

import json
import os
import pathlib
import typing
from collections.abc import Mapping
from typing import Any

from searchrl_jax import byte_level
from searchrl_jax.byte_level import PretrainedTokenizer
from searchrl_jax.chat import ChatTemplate
from searchrl_jax.gguf_file import GgufFile
from searchrl_jax.model_files import CONFIG, Kind, ModelFiles

# Imported where it is used: a second that `--help` shall not take, and three
# more for `AutoTokenizer`, which few models need.
if typing.TYPE_CHECKING:
  import transformers

# It would advise to install PyTorch, which tokenizers have no use for.
os.environ.setdefault('TRANSFORMERS_NO_ADVISORY_WARNINGS', '1')

# Where a GGUF file names ids that end a turn: of a text, a turn, a message.
_GGUF_ENDS = ('eos', 'eot', 'eom')


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
    tokenizer.chat_template = template.source  # saved along with it
  return byte_level.wrap(
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
    if declared is None:
      continue
    listed = declared if isinstance(declared, list) else [declared]
    if not all(type(end) is int and end >= 0 for end in listed):
      raise ValueError(
        f'{folder / name}: eos_token_id is {declared!r}; give an id, or a list '
        'of ids.'
      )
    ends |= set(listed)
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
