# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The JSON of FactAgent: what is read, and that what is written is read."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax import types
from searchrl_jax.environments import fact_wording, factagent
from searchrl_jax.rollout import stops

Kind, Action = types.Kind, types.Action
NATURAL, WORDS = fact_wording.NATURAL, fact_wording.WORDS
BOTH = pytest.mark.parametrize('wording', [NATURAL, WORDS])


def search(query):
  return Action(Kind.SEARCH, {'query': query})


def asserted(*triples):
  return Action(Kind.ASSERT, {'triples': [list(one) for one in triples]})


def answer(text):
  return Action(Kind.ANSWER, {'answer': text})


def invalid(why):
  return Action(Kind.INVALID, {'why': why})


def make(wording):
  return factagent.FactAgent(
    wording,
    max_facts=4,
    topk=1,
    max_observation=100,
    shorten=lambda text, count: text[:count],
  )


# --- one turn ----------------------------------------------------------------


@pytest.mark.parametrize(
  ('text', 'action'),
  [
    ('{"search": " Ada\\n job "}', search('Ada\n job')),
    ('{"answer": "Acme"}', answer('Acme')),
    # No answer at all differs from an empty one, which ends the episode.
    ('{"answer": ""}', answer('')),
    ('{"assert": [["a", " b ", "c"]]}', asserted('abc')),
    ('{"assert": [["a","b","c"], ["d","e","f"]]}', asserted('abc', 'def')),
    # A repetition is what was said; the store alone leaves it out.
    ('{"assert": [["a","b","c"], ["a","b","c"]]}', asserted('abc', 'abc')),
    (
      '{"assert": [{"object":"c", "subject":"a", "relation":"b", "x": 1}]}',
      asserted('abc'),
    ),
    # Prose, a fence, what follows, a second object.
    ('I think:\n```json\n{"search": "x"}\n```\n', search('x')),
    ('{"search": "x"} is what I want', search('x')),
    ('{"search": "x"}{"answer": "y"}', search('x')),
    ('{"search": "x"}}}', search('x')),
    ('{\n  "search":\t"x"\n}', search('x')),
    # A line break within a string, which strict JSON forbids.
    ('{"search": "x\ny"}', search('x\ny')),
    # The first action key, and the first value of it; other keys are nothing.
    ('{"answer": "x", "search": "y"}', answer('x')),
    ('{"search": "x", "search": "y"}', search('x')),
    ('{"search": "x", "answer": "y", "search": "z"}', search('x')),
    ('{"tool": [1, {}], "search": "x"}', search('x')),
    ('{"search": "x", "thought": null}', search('x')),
    # Numbers, as they are written.
    ('{"answer": 1990}', answer('1990')),
    ('{"answer": 1.50}', answer('1.50')),
    (
      '{"assert": [["a", "born in", -7e2]]}',
      asserted(('a', 'born in', '-7e2')),
    ),
    ('{"search": "\\ud83d\\ude42"}', search('🙂')),
  ],
)
def test_legal_turns(text, action):
  assert factagent.parse(text) == action


@pytest.mark.parametrize(
  ('text', 'why'),
  [
    ('', factagent.NO_OBJECT),
    ('the answer is Acme', factagent.NO_OBJECT),
    ('["search", "x"]', factagent.NO_OBJECT),
    ('"{', factagent.NO_OBJECT),
    ('{"search": "x"', factagent.NO_OBJECT),
    ('{"search": "x', factagent.NO_OBJECT),
    ("{'search': 'x'}", factagent.NO_OBJECT),
    ('{"search": "x",}', factagent.NO_OBJECT),
    ('use {x}: {"search": "x"}', factagent.NO_OBJECT),
    ('{"search": ' + '[' * 100_000, factagent.NO_OBJECT),
    ('{"a": ' * 100_000, factagent.NO_OBJECT),
    ('{"answer": ' + '1' * 5_000 + '}', factagent.NO_OBJECT),
    ('{"answer": 1e999}', factagent.NO_OBJECT),
    ('{"answer": NaN}', factagent.NO_OBJECT),
    ('{"answer": "x", "n": -Infinity}', factagent.NO_OBJECT),
    ('{}', factagent.NO_ACTION),
    ('{"Search": "x"}', factagent.NO_ACTION),
    ('{"action": {"search": "x"}}', factagent.NO_ACTION),
    ('{"search": ["x"]}', factagent.NOT_TEXT),
    ('{"search": {"query": "x"}}', factagent.NOT_TEXT),
    ('{"search": null, "answer": "x"}', factagent.NOT_TEXT),
    ('{"answer": true}', factagent.NOT_TEXT),
    ('{"answer": "\\ud83d"}', factagent.NOT_TEXT),
    ('{"search": ""}', factagent.EMPTY_QUERY),
    ('{"search": " \\n "}', factagent.EMPTY_QUERY),
    ('{"assert": []}', factagent.NO_FACTS),
    ('{"assert": "a b c"}', factagent.NOT_TRIPLES),
    ('{"assert": ["a", "b", "c"]}', factagent.NOT_TRIPLES),
    ('{"assert": {"subject":"a"}}', factagent.NOT_TRIPLES),
    ('{"assert": [[]]}', factagent.NOT_TRIPLES),
    ('{"assert": [["a", "b"]]}', factagent.NOT_TRIPLES),
    ('{"assert": [["a", "b", "c", "d"]]}', factagent.NOT_TRIPLES),
    ('{"assert": [["a", " ", "c"]]}', factagent.NOT_TRIPLES),
    ('{"assert": [["a", "b", null]]}', factagent.NOT_TRIPLES),
    ('{"assert": [["a", "b", false]]}', factagent.NOT_TRIPLES),
    ('{"assert": [["a", "b", ["c"]]]}', factagent.NOT_TRIPLES),
    ('{"assert": [["a", "b", "\\udc00"]]}', factagent.NOT_TRIPLES),
    ('{"assert": [{"subject":"a", "relation":"b"}]}', factagent.NOT_TRIPLES),
    # One bad fact spoils the turn.
    ('{"assert": [["a", "b", "c"], ["d"]]}', factagent.NOT_TRIPLES),
  ],
)
def test_malformed_turns(text, why):
  assert factagent.parse(text) == invalid(why)


def test_a_malformed_turn_keeps_its_thought():
  text = '{"thought": " hm ", "search": ""}'
  why = factagent.EMPTY_QUERY
  assert factagent.parse(text).arguments == {'thought': 'hm', 'why': why}


# --- text and action ---------------------------------------------------------

_NASTY = ['"quoted"', '{"a": [1}', '}', '}\n', 'a | b', 'x\ny', '東京 は', '🙂']
_NASTY += ['\\', '\\}', '\\u007d', '```', '","search":"', '\x00', '\x85b\u2028']
_said = (st.text() | st.lists(st.sampled_from(_NASTY)).map(''.join)).map(
  str.strip
)
_full = _said.filter(bool)
_triples = st.lists(st.lists(_full, min_size=3, max_size=3), min_size=1)
_actions = st.one_of(
  st.builds(search, _full),
  st.builds(answer, _said),
  st.builds(lambda some: asserted(*some), _triples),
  st.sampled_from([*map(invalid, factagent._MALFORMED)]),
)


@BOTH
@given(_actions, st.none() | _said)
def test_what_is_rendered_is_read_again(wording, action, thought):
  if thought is not None:
    arguments = dict(action.arguments) | {'thought': thought}
    action = Action(action.kind, arguments)
  environment = make(wording)
  text = environment.render(action)
  assert factagent.parse(text) == action
  # No stop string ends the turn early, and one ends it.
  assert stops.cut(text, wording.stops) == text
  assert not any(stop in text[:-1] for stop in wording.stops)
  assert text.endswith(wording.stops)


@BOTH
def test_a_turn_without_an_object_can_be_said_too(wording):
  action = invalid(factagent.NO_OBJECT)
  assert factagent.parse(make(wording).render(action)) == action


@given(st.text(alphabet='{}[]:," \\\n1eu7dsearchnwt') | st.text())
def test_no_text_raises(text):
  for start in ('', '{"search":', '{"assert":[['):
    environment = make(WORDS)
    state, _ = environment.start(types.Question('q', 'who ?', ('x',)))
    state, action, requests = environment.act(state, start + text)
    environment.reply(state, [()] * len(requests))
    assert action.kind != Kind.NONE


@pytest.mark.parametrize(
  'action',
  [
    search(''),
    search(' padded '),
    search('\ud83d'),
    Action(Kind.SEARCH, {'query': 'a', 'thought': ' b'}),
    Action(Kind.SEARCH, {'query': 'a', 'topk': 3}),
    Action(Kind.ASSERT, {'triples': []}),
    asserted(('a', 'b')),
    asserted(('a', '', 'c')),
    Action(Kind.OPEN, {'url': 'x'}),
    Action(Kind.INVALID, {'why': 'no such reason'}),
    Action(Kind.INVALID, {'why': factagent.NO_OBJECT, 'thought': 'x'}),
  ],
)
@BOTH
def test_what_no_text_says_is_refused(wording, action):
  with pytest.raises(ValueError, match='FactAgent'):
    make(wording).render(action)


def test_a_turn_that_a_stop_string_would_cut_is_refused():
  careless = dataclasses.replace(WORDS, write=json.dumps)
  assert make(careless).render(search('a b')) == '{"search": "a b"}'
  with pytest.raises(ValueError, match='FactAgent'):
    make(careless).render(search('a } b'))
