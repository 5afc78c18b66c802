# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Chat templates: conversations as the text a model was tuned on.

Templates are jinja2 programs that come with downloaded models. They are
sandboxed and given what `transformers` gives them, but for the date: a prompt
that changes at midnight could not be repeated, so `today` stands still.
"""

import dataclasses
import datetime
import functools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

from searchrl_jax.tokenizer import END, Tokenizer

# The date that templates of Llama 3 write themselves where they are told none.
TODAY = datetime.date(2024, 7, 26)
# Stands for a text in order to see what a template writes around it.
_MARK = '\ue000text\ue001'


class _Generation(jinja2.ext.Extension):
  """`{% generation %} ... {% endgeneration %}`: shows what stands between.

  Some templates mark so what the assistant wrote. Nothing here reads the
  marks: a token is known as sampled at the moment it is drawn.
  """

  tags = {'generation'}  # noqa: RUF012

  def parse(self, parser):
    line = next(parser.stream).lineno
    body = parser.parse_statements(('name:endgeneration',), drop_needle=True)
    return jinja2.nodes.Scope(body, lineno=line)


def _tojson(value, ensure_ascii=False, **layout):
  # Unlike jinja's own, which writes HTML entities for < and >.
  return json.dumps(value, ensure_ascii=ensure_ascii, **layout)


def _raise_exception(message):
  raise ValueError(f'the chat template refuses these messages: {message}')


@dataclasses.dataclass(frozen=True)
class ChatTemplate:
  """A jinja2 chat template, as published beside instruction-tuned models.

  Attributes:
    source: the template.
    variables: what it may name beside the messages: `bos_token` and
      `eos_token` of the tokenizer it came with, switches of its own such as
      `enable_thinking`.
    today: the date it may ask for; a fixed one, so that runs can be repeated.
  """

  source: str
  variables: Mapping[str, Any] = dataclasses.field(
    default_factory=lambda: {'bos_token': '', 'eos_token': END}
  )
  today: datetime.date = TODAY

  @classmethod
  def from_file(cls, path: str) -> 'ChatTemplate':
    file = pathlib.Path(path)
    if not file.is_file():
      raise ValueError(f'no chat template at {path}; give a jinja file.')
    return cls(file.read_text(encoding='utf-8'))

  @functools.cached_property
  def _template(self) -> jinja2.Template:
    # Templates come with downloaded models: sandboxed, never trusted.
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
      trim_blocks=True,
      lstrip_blocks=True,
      extensions=[_Generation, 'jinja2.ext.loopcontrols'],
    )
    environment.filters['tojson'] = _tojson
    environment.globals['raise_exception'] = _raise_exception
    environment.globals['strftime_now'] = self.today.strftime
    try:
      return environment.from_string(self.source)
    except (jinja2.TemplateSyntaxError, SyntaxError) as error:
      raise ValueError(
        f'the chat template is not jinja, line {error.lineno}: {error}'
      ) from None

  def render(
    self,
    messages: Sequence[Mapping[str, Any]],
    *,
    add_generation_prompt: bool = False,
    tools: Sequence[Mapping[str, Any]] | None = None,
  ) -> str:
    """The conversation as one string, optionally opening the next answer.

    Args:
      messages: `role` and `content` of each, in order.
      add_generation_prompt: ends where the assistant begins to write.
      tools: JSON schemas of functions that the model may call.

    Raises:
      ValueError: the template refuses the messages, or fails on them.
    """
    try:
      return self._template.render(
        messages=list(messages),
        tools=tools,
        documents=None,
        add_generation_prompt=add_generation_prompt,
        **self.variables,
      )
    except (
      *(jinja2.TemplateError, TypeError, LookupError),
      *(ArithmeticError, AttributeError),
    ) as error:
      raise ValueError(
        f'the chat template fails on these messages: {error}'
      ) from None

  def prompt(self, text: str) -> str:
    """A first user message, up to where the assistant begins to write."""
    return self.render(
      [{'role': 'user', 'content': text}], add_generation_prompt=True
    )

  def encode_prompt(self, tokenizer: Tokenizer, text: str) -> list[int]:
    """Ids of `prompt(text)`: the template's control tokens, plain `text`.

        <|user|>What does <|end|> mean?<|end|><|assistant|>
        [markup][plain text           ][markup            ]

    Only a text that spells a control token is cut out like this; any other is
    encoded in one go with what stands around it, as models were trained.

    Raises:
      ValueError: the text spells a control token and the template changes it
        so that it cannot be told from the template's own words.
    """
    whole = self.prompt(text)
    if not any(special in text for special in tokenizer.special_texts):
      return tokenizer.encode(whole, markup=True)
    # The text may spell what the template writes, so it is not searched for:
    # what stands around another text stands around this one.
    before, found, after = self.prompt(_MARK).partition(_MARK)
    middle = whole.removeprefix(before).removesuffix(after)
    kept = middle in (text, text.strip()) and before + middle + after == whole
    if not found or not kept:
      special = next(s for s in tokenizer.special_texts if s in text)
      raise ValueError(
        f'a prompt spells the control token {special!r} and the chat template '
        'changes it, so that one cannot be told from the other; remove it.'
      )
    return [
      *tokenizer.encode(before, markup=True),
      *tokenizer.encode(middle),
      *tokenizer.encode(after, markup=True),
    ]

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

  def end_of_turn(self, special_texts: Sequence[str]) -> str | None:
    """The control token written after an answer, if one is.

    Args:
      special_texts: how the control tokens of the tokenizer are written.
    """
    try:
      whole = self.render(
        [
          {'role': 'user', 'content': 'question'},
          {'role': 'assistant', 'content': _MARK},
        ]
      )
    except ValueError:
      return None
    after = whole.partition(_MARK)[2].lstrip()
    ends = [special for special in special_texts if after.startswith(special)]
    return max(ends, key=len, default=None)


def opening(
  tokenizer: Tokenizer, template: ChatTemplate | None, text: str
) -> tuple[str, list[int]]:
  """What a context begins with, as text and as ids.

  A template makes `text` a first user message; without one it stands alone.
  """
  if template is None:
    return text, tokenizer.encode(text)
  return template.prompt(text), template.encode_prompt(tokenizer, text)
