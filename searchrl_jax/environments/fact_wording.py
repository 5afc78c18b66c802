# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""How the FactAgent conversation is worded, on both sides.

The actions are JSON whatever the wording, and one parser reads them all; how
the prompt sounds, how the JSON is spaced and where a turn ends is a wording.
`NATURAL` speaks to a language model, `WORDS` to a tiny policy whose tokens are
whole words, `PLANNING` says what `WORDS` says but shows no passages.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from searchrl_jax import types
from searchrl_jax.environments import wording as wordings

# Subject, relation, object.
Triple = tuple[str, str, str]

_PLACEHOLDERS = ('{question}', '{facts}', '{result}')
_PLACEHOLDER = re.compile('|'.join(map(re.escape, _PLACEHOLDERS)))
_OF_A_RESULT = re.compile(r'{query}|{passages}')


@dataclasses.dataclass(frozen=True)
class FactWording:
  """What the world says, as formats, and how the agent's JSON is written.

  Attributes:
    template: the prompt of every turn; `{question}`, `{facts}` and `{result}`
      are replaced, other braces are text.
    ending: what a question must end in; added where it is missing.
    fact_format: one stored fact, of `number` (from 1), `subject`, `relation`
      and `object`.
    no_facts: stands in for the facts of an empty store.
    document_format: one hit, of `number` (from 1), `title` and `text`.
    unsearched: stands in for the result before the first search.
    answered: a result, of the `query` that brought it and its `passages`.
    empty: stands in for the passages where nothing was found.
    failed: stands in for the passages where the search failed.
    notice: follows the result after a malformed turn; `{why}` is replaced.
    write: the text of the one JSON object that is a turn.
    stops: strings that end a turn.
  """

  template: str
  ending: str
  fact_format: str
  no_facts: str
  document_format: str
  unsearched: str
  answered: str
  empty: str
  failed: str
  notice: str
  write: Callable[[Mapping[str, Any]], str]
  stops: tuple[str, ...]

  def prompt(
    self, question: str, facts: Sequence[Triple], result: str, notice: str
  ) -> str:
    """The prompt that shows all an agent knows."""
    question = question.strip()
    if not question.endswith(self.ending):
      question += self.ending
    shown = (question, self.facts(facts), result + notice)
    values = dict(zip(_PLACEHOLDERS, shown, strict=True))
    # In one pass: what was replaced is never searched for placeholders.
    return _PLACEHOLDER.sub(lambda match: values[match[0]], self.template)

  def result(self, query: str, passages: str) -> str:
    """What the last search brought, and what it asked for."""
    query = ' '.join(query.split())
    values = {'{query}': query, '{passages}': passages}
    shown = _OF_A_RESULT.sub(lambda match: values[match[0]], self.answered)
    return shown.strip()

  def facts(self, facts: Sequence[Triple]) -> str:
    """The store, numbered from 1, white space squeezed within a fact."""
    lines = []
    for number, triple in enumerate(facts, start=1):
      subject, relation, value = (' '.join(part.split()) for part in triple)
      lines.append(
        self.fact_format.format(
          number=number, subject=subject, relation=relation, object=value
        )
      )
    return ''.join(lines).strip() or self.no_facts

  def passages(self, documents: Sequence[types.Document]) -> str:
    """The hits of a search, numbered from 1."""
    return ''.join(
      self.document_format.format(number=i, title=hit.title, text=hit.text)
      for i, hit in enumerate(documents, start=1)
    )

  def complaint(self, why: str) -> str:
    """The notice that a turn was malformed."""
    return self.notice.replace('{why}', why)


def _write_line(said: Mapping[str, Any]) -> str:
  """JSON as language models write it, on one line.

  Line breaks within strings are escaped, so none stands before the last.
  """
  return json.dumps(said, ensure_ascii=False) + '\n'


def _write_words(said: Mapping[str, Any]) -> str:
  """JSON that white space cuts into few words: every string is padded.

  {"assert":[" fetok employer vepev "]}

  A fact of three words is one string of them: the value then follows its
  relation at once, as it follows its phrase in a passage.

  The brace that closes the object is its only one; others, which stand within
  strings, are escaped, for a brace ends the turn.
  """
  text = json.dumps(_padded(said), ensure_ascii=False, separators=(',', ':'))
  return text[:-1].replace('}', r'\u007d') + text[-1]


def _padded(value: Any) -> Any:
  if isinstance(value, str):
    return f' {value} ' if value else ' '
  if isinstance(value, Mapping):
    return {key: _padded(one) for key, one in value.items()}
  if isinstance(value, list):
    words = [str(one) for one in value]
    if len(value) == 3 and all(one.split() == [one] for one in words):
      return _padded(' '.join(words))
    return [_padded(one) for one in value]
  return value


NATURAL = FactWording(
  template=(
    'Answer a question with the help of a search engine and of a store of '
    'facts. Each turn shows you three things and no more: the question, the '
    'facts stored so far, and the result of your last search. Nothing else '
    'of what you read or wrote is kept, so copy the facts you need into the '
    'store before the next search replaces the result.\n'
    'A turn of yours is one JSON object on one line, in one of three forms.\n'
    'To search: {"search": "your query"}\n'
    'To store facts, copied from the last result: '
    '{"assert": [["subject", "relation", "object"]]}, with as many facts in '
    'the list as you need.\n'
    'To finish: {"answer": "the bare answer"}\n'
    'Reasoning may come first in the object, under the key "thought". Answer '
    'from the stored facts alone; while one is missing, search on.\n\n'
    'Question: {question}\n\n'
    'Stored facts:\n{facts}\n\n'
    'Last search result:\n{result}\n'
  ),
  ending='?',
  fact_format='{number}. {subject} | {relation} | {object}\n',
  no_facts='The store is empty.',
  document_format=wordings.NATURAL.document_format,
  unsearched='Nothing has been searched yet.',
  answered='Search: {query}\n{passages}',
  empty=wordings.NATURAL.empty,
  failed=wordings.NATURAL.failed,
  notice=(
    '\n\nYour last turn could not be carried out: {why}. Please write one '
    'JSON object on one line.'
  ),
  write=_write_line,
  stops=('}\n',),
)

WORDS = FactWording(
  template='question {question} result {result} facts {facts} act ',
  ending='',
  fact_format='{number} {subject} {relation} {object} ',
  no_facts='',
  document_format='{text} ',  # a passage names what it is about
  unsearched='unsearched',
  answered='{query} brings {passages}',
  empty='nothing',
  failed='failed',
  notice=' invalid action',
  write=_write_words,
  stops=('}',),
)

# No passages after any search, whatever it found.
PLANNING = dataclasses.replace(WORDS, document_format='', empty='')


def template_from(path: str | pathlib.Path) -> str:
  """Reads a prompt template of the user's own.

  `dataclasses.replace(NATURAL, template=template_from(path))` uses it.

  Raises:
    ValueError: where there is no such file, or it lacks `{question}`,
      `{facts}` or `{result}`.
  """
  template = wordings.template_from(path)
  for placeholder in _PLACEHOLDERS:
    if placeholder not in template:
      raise ValueError(
        f'{path}: the prompt template must say where {placeholder} goes'
      )
  return template


def words_of(wording: FactWording, max_facts: int) -> tuple[str, ...]:
  """The words and punctuation that a vocabulary needs for a wording.

  The numbers of `max_facts` facts are among them. Words of questions,
  passages, facts, thoughts and answers come from elsewhere.
  """
  formats = (
    wording.template,
    wording.ending,
    wording.fact_format,
    wording.no_facts,
    wording.document_format,
    wording.unsearched,
    wording.answered,
    wording.empty,
    wording.failed,
    wording.notice,
  )
  said = re.sub(r'{\w+}', ' ', ' '.join(formats)).split()
  for action in ({'search': ''}, {'assert': [['-', '-', '-']] * 2}):
    said += wording.write(action).split()
    said += wording.write({'thought': ''} | action).split()
  for action in ({'answer': ''}, {'thought': '', 'answer': ''}):
    said += wording.write(action).split()
  said = [word for word in said if word != '-']  # stood for a word of a fact
  numbers = map(str, range(1, max_facts + 1))
  return tuple(dict.fromkeys((*said, *numbers)))
