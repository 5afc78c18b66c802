# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""How the Search-R1 conversation is worded.

The tags are fixed by the format; everything else the world says is a wording:
the prompt, a passage, a reply, the messages. `NATURAL` speaks to a language
model, `WORDS` to a tiny policy whose tokens are whole words, `PLANNING` says
what `WORDS` says but leaves every reply to a search empty.
"""

import dataclasses
import pathlib
import re
from collections.abc import Sequence

from searchrl_jax import types

TAGS = tuple(
  f'<{slash}{name}>'
  for name in ('think', 'search', 'information', 'answer')
  for slash in ('', '/')
)
_PLACEHOLDER = '{question}'


@dataclasses.dataclass(frozen=True)
class Wording:
  """What the world says, as formats.

  Attributes:
    template: the prompt; `{question}` is replaced, other braces are text.
    ending: what a question must end in; added where it is missing.
    document_format: one hit, of `number` (from 1), `title` and `text`.
    reply_format: the observation, of `passages`.
    empty: stands in for the passages where nothing was found.
    failed: stands in for the passages where the search failed.
    invalid: the reply to a turn that holds no legal action.
  """

  template: str
  ending: str
  document_format: str
  reply_format: str
  empty: str
  failed: str
  invalid: str

  def prompt(self, question: str) -> str:
    """The prompt that asks a question."""
    question = question.strip()
    if not question.endswith(self.ending):
      question += self.ending
    return self.template.replace(_PLACEHOLDER, question)

  def passages(self, documents: Sequence[types.Document]) -> str:
    """The hits of a search, numbered from 1."""
    return ''.join(
      self.document_format.format(number=i, title=hit.title, text=hit.text)
      for i, hit in enumerate(documents, start=1)
    )

  def observation(self, passages: str) -> str:
    """The reply that shows passages, its markers always whole."""
    return self.reply_format.format(passages=passages.strip())


# No message but the prompt spells out an answer element: rules that count
# answer elements in a response must find the agent's only.
NATURAL = Wording(
  template=(
    'Find the answer to the question at the end. Put your reasoning between '
    '<think> and </think>: once before your first step, and once more after '
    'each reply you get. If some fact is missing, ask a search engine with '
    '<search> your query </search>; the passages it finds are shown to you '
    'between <information> and </information>. Several searches are fine. '
    'When nothing is missing any more, give the bare answer in answer tags, '
    'in the manner of <answer> Lake Victoria </answer>, and stop.\n'
    'Question: {question}\n'
  ),
  ending='?',
  document_format='Doc {number}(Title: "{title}") {text}\n',
  reply_format='\n\n<information>{passages}</information>\n\n',
  empty='No passage matches this query.',
  failed='The search engine gave no reply to this query.',
  invalid=(
    '\n\nThis turn held no action that can be carried out. A turn is either '
    'a query in search tags, which must not be empty, or the final answer in '
    'answer tags. Please try again.\n\n'
  ),
)

WORDS = Wording(
  template='question {question} ',
  ending='',
  document_format='{text} ',  # a passage names what it is about
  reply_format=' <information> {passages} </information> ',
  empty='nothing',
  failed='failed',
  invalid=' invalid action ',
)

# One empty block after every search, whatever it found.
PLANNING = dataclasses.replace(WORDS, document_format='', empty='')


def template_from(path: str | pathlib.Path) -> str:
  """Reads a prompt template of the user's own.

  Released checkpoints need the prompt they were trained with:
  `dataclasses.replace(NATURAL, template=template_from(path))`.

  Raises:
    ValueError: where there is no such file, or it lacks `{question}`.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise ValueError(f'{path}: no such prompt template')
  template = path.read_text(encoding='utf-8')
  if _PLACEHOLDER not in template:
    raise ValueError(
      f'{path}: the prompt template must say where {_PLACEHOLDER} goes'
    )
  return template


def words_of(wording: Wording) -> tuple[str, ...]:
  """The words and tags that a vocabulary needs for a wording.

  Words of questions, passages, thoughts and answers come from elsewhere.
  """
  formats = (
    wording.template,
    wording.ending,
    wording.document_format,
    wording.reply_format,
    wording.empty,
    wording.failed,
    wording.invalid,
  )
  said = re.sub(r'{\w+}', ' ', ' '.join(formats)).split()
  return tuple(dict.fromkeys((*TAGS, *said)))
