# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What FactAgent's world says, and how the agent's JSON is spaced."""

import dataclasses
import json

import pytest

from searchrl_jax import types
from searchrl_jax.environments import fact_wording, wording

NATURAL, WORDS = fact_wording.NATURAL, fact_wording.WORDS
FACTS = (('fetok', 'employer', 'vepev'), ('vepev', 'founder', 'zurep'))


def test_a_prompt_of_words_is_short():
  assert WORDS.prompt('who is it ?', FACTS, 'vepev was here', '') == (
    'question who is it ? result vepev was here '
    'facts 1 fetok employer vepev 2 vepev founder zurep act '
  )
  prompt = WORDS.prompt('who ?', (), WORDS.unsearched, '')
  assert prompt.split() == (
    ['question', 'who', '?', 'result', 'unsearched', 'facts', 'act']
  )


def test_a_natural_prompt_ends_in_question_store_and_result():
  prompt = NATURAL.prompt(' Who ', FACTS, 'Zurep.', NATURAL.complaint('a {b}'))
  rules, _, shown = prompt.partition('\n\n')
  assert shown == (
    'Question: Who?\n\n'
    'Stored facts:\n'
    '1. fetok | employer | vepev\n'
    '2. vepev | founder | zurep\n\n'
    'Last search result:\n'
    'Zurep.\n\n'
    'Your last turn could not be carried out: a {b}. Please write one JSON '
    'object on one line.\n'
  )
  # The rules are the same whatever is asked, and name every key.
  assert NATURAL.prompt('Why?', (), '', '').startswith(rules)
  for key in ('search', 'assert', 'answer', 'thought'):
    assert f'"{key}"' in rules


def test_the_rules_show_objects_that_are_json():
  decoder = json.JSONDecoder()
  rules = NATURAL.template.partition('{question}')[0]
  starts = [i for i, letter in enumerate(rules) if letter == '{']
  keys = [list(decoder.raw_decode(rules, i)[0]) for i in starts]
  assert keys == [['search'], ['assert'], ['answer']]


def test_braces_of_questions_facts_and_passages_are_text():
  facts = (('{result}', '{number}', '{facts}'),)
  page = types.Document('0', '{text}', '{question} {facts} {0} }{')
  shown = NATURAL.prompt('{facts}?', facts, NATURAL.passages([page]), '')
  assert 'Question: {facts}?\n' in shown
  assert '\n1. {result} | {number} | {facts}\n' in shown
  assert '\nDoc 1(Title: "{text}") {question} {facts} {0} }{\n' in shown
  own = dataclasses.replace(WORDS, template='{{question} {n} {facts}|{result}}')
  assert own.prompt('{x}', (), 'r', '!') == '{{x} {n} |r!}'


def test_a_fact_stays_on_one_line():
  facts = (('a\n2. b', ' c\t d', 'e'), ('f', 'g', 'h'))
  assert NATURAL.facts(facts) == '1. a 2. b | c d | e\n2. f | g | h'


def test_actions_in_words_are_cut_by_white_space_into_few_words():
  triples = [['fetok', 'employer', 'vepev'], ['a', 'b', 'c']]
  said = {
    '{"search":" fetok employer "}': {'search': 'fetok employer'},
    ('{"assert":[" fetok employer vepev "," a b c "]}'): {'assert': triples},
    '{"answer":" vepev "}': {'answer': 'vepev'},
    '{"answer":" "}': {'answer': ''},
    '{"thought":" given fetok ","search":" x "}': {
      'thought': 'given fetok',
      'search': 'x',
    },
    # The brace that ends a turn stands at its end only.
    r'{"search":" {a\u007d "}': {'search': '{a}'},
  }
  for text, action in said.items():
    assert WORDS.write(action) == text
  assert NATURAL.write({'thought': '東京 }', 'search': '"\n'}) == (
    '{"thought": "東京 }", "search": "\\"\\n"}\n'
  )


def test_words_of_names_every_word_once():
  words = fact_wording.words_of(WORDS, 3)
  assert len(set(words)) == len(words)
  assert set(words) == {
    *('question', 'facts', 'result', 'brings', 'act', '1', '2', '3'),
    *('unsearched', 'nothing', 'failed', 'invalid', 'action'),
    *('{"search":"', '{"assert":["', '{"answer":"', '{"thought":"'),
    *('","search":"', '","assert":["', '","answer":"'),
    *('","', '"}', '"]}'),
  }


def test_planning_differs_from_words_by_the_passages_only():
  planning = fact_wording.PLANNING
  assert planning.passages([types.Document('0', 'a', 'b')]) == ''
  assert planning.empty == ''
  shown = {
    'document_format': WORDS.document_format,
    'empty': WORDS.empty,
  }
  assert dataclasses.replace(planning, **shown) == WORDS


def test_a_search_is_worded_as_in_the_other_environment():
  page = types.Document('0', 'Ada', 'employed at Acme')
  assert NATURAL.passages([page]) == wording.NATURAL.passages([page])


def test_a_template_comes_from_a_file(tmp_path):
  path = tmp_path / 'prompt.txt'
  path.write_text('{facts} {result} {question}', encoding='utf-8')
  template = fact_wording.template_from(path)
  own = dataclasses.replace(NATURAL, template=template)
  assert own.prompt('Who', (), 'x', '') == 'The store is empty. x Who?'


@pytest.mark.parametrize('lost', ['question', 'facts', 'result'])
def test_a_template_without_a_placeholder_is_refused(tmp_path, lost):
  whole = '{question} {facts} {result}'
  path = tmp_path / 'prompt.txt'
  path.write_text(whole.replace(f'{{{lost}}}', lost), encoding='utf-8')
  with pytest.raises(ValueError, match=rf'must say where \{{{lost}\}} goes'):
    fact_wording.template_from(path)
  with pytest.raises(ValueError, match='no such prompt template'):
    fact_wording.template_from(tmp_path / 'none.txt')
