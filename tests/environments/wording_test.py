# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What the world says, to language models and to word-level policies."""

import dataclasses
import re

import pytest

from searchrl_jax import types
from searchrl_jax.environments import search_r1, wording

HITS = (
  types.Document('0', 'Ada', 'employed at Acme'),
  types.Document('1', 'Bob {title}', 'lives in "Rome"\n{text}'),
)


def test_a_question_is_stripped_and_ends_in_one_question_mark():
  for text in ('Who?', ' Who? ', 'Who', '\nWho '):
    assert wording.NATURAL.prompt(text).endswith('Question: Who?\n')
  assert wording.WORDS.prompt('Ada employer') == 'question Ada employer '


def test_braces_are_text():
  shown = wording.NATURAL.passages(HITS)
  assert shown == (
    'Doc 1(Title: "Ada") employed at Acme\n'
    'Doc 2(Title: "Bob {title}") lives in "Rome"\n{text}\n'
  )
  own = dataclasses.replace(
    wording.NATURAL, template='{"q": "{question}", "n": {n}}'
  )
  assert own.prompt('{x}?') == '{"q": "{x}?", "n": {n}}'


def test_the_prompt_shows_each_tag_and_one_answer():
  prompt = wording.NATURAL.prompt('Who?')
  assert all(tag in prompt for tag in wording.TAGS)
  # The published rule counts on exactly one answer element in the prompt.
  assert len(re.findall('<answer>.*?</answer>', prompt)) == 1


def test_messages_hold_no_element_that_a_rule_could_take_for_the_agents():
  for one in (wording.NATURAL, wording.WORDS):
    for message in (one.empty, one.failed, one.invalid):
      assert not any(tag in message for tag in wording.TAGS)


def test_everything_said_in_words_falls_apart_at_white_space():
  known = {*wording.words_of(wording.WORDS), 'Ada', 'Bob', 'employed', 'at'}
  known |= {'Acme', 'lives', 'in', 'Rome', 'employer'}
  hits = (HITS[0], types.Document('1', 'Bob', 'lives in Rome'))
  action = types.Action(
    types.Kind.SEARCH, {'thought': 'employer Ada', 'query': 'Ada employer'}
  )
  for one in (wording.WORDS, wording.PLANNING):
    said = [
      one.prompt('employer Ada'),
      search_r1.render(action),
      one.observation(one.passages(hits)),
      one.observation(one.empty),
      one.observation(one.failed),
      one.invalid,
    ]
    assert set(''.join(said).split()) <= known
    # Joined or alone, the words are the same: no two of them grow together.
    assert ''.join(said).split() == [w for text in said for w in text.split()]


def test_planning_differs_from_words_by_the_passages_only():
  assert wording.WORDS.observation(
    wording.WORDS.passages(HITS[:1])
  ).split() == (['<information>', 'employed', 'at', 'Acme', '</information>'])
  planning = wording.PLANNING
  for hidden in (planning.passages(HITS), planning.empty):
    assert planning.observation(hidden).split() == (
      ['<information>', '</information>']
    )
  shown = {
    'document_format': wording.WORDS.document_format,
    'empty': wording.WORDS.empty,
  }
  assert dataclasses.replace(planning, **shown) == wording.WORDS


def test_words_of_names_tags_and_words_once():
  words = wording.words_of(wording.WORDS)
  assert len(set(words)) == len(words)
  assert set(words) == {
    *wording.TAGS,
    *('question', 'nothing', 'failed', 'invalid', 'action'),
  }


def test_a_template_comes_from_a_file(tmp_path):
  path = tmp_path / 'prompt.txt'
  path.write_text('Q: {question}', encoding='utf-8')
  own = dataclasses.replace(
    wording.NATURAL, template=wording.template_from(path)
  )
  assert own.prompt('Who') == 'Q: Who?'
  path.write_text('Q: question', encoding='utf-8')
  with pytest.raises(ValueError, match=r'must say where \{question\} goes'):
    wording.template_from(path)
  with pytest.raises(ValueError, match='no such prompt template'):
    wording.template_from(tmp_path / 'none.txt')
