# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The fakes obey the contracts of what they stand for."""

import hypothesis
import hypothesis.strategies as st
import pytest

from searchrl_jax import testing, types
from searchrl_jax.types import Action, Kind

TOY = testing.ToyTokenizer(('hello', 'he', 'llo', '東京'))


@hypothesis.given(st.text('helo 東京é', max_size=12))
def test_any_text_survives_the_toy_tokenizer(text):
  assert TOY.decode(TOY.encode(text)) == text


def test_the_longest_piece_is_taken():
  assert TOY.encode('hello') == [TOY.id('hello')]
  # Yet other spellings are read all the same, as a sampler's would be.
  assert TOY.decode([TOY.id('he'), TOY.id('llo')]) == 'hello'


def test_a_dictionary_in_place_of_a_search_engine():
  resolve = testing.DictionarySearch({'a': 'text'}, failing=('down',))
  queries = ['a', 'nothing', 'down']
  found, empty, failed = resolve([types.Search(q, 1, '') for q in queries])
  assert [document.text for document in found] == ['text']
  assert empty == ()
  assert isinstance(failed, types.Failed)
  (unknown,) = resolve([types.Open('http://x')])
  assert 'Open' in unknown.why


def test_a_script_repeats_its_last_action():
  first, last = (Action(Kind.SEARCH, {'query': q}) for q in 'ab')
  script = testing.Script((first, last))
  question = types.Question('q', 'q', ('a',))
  played = [script(question, (None,) * n) for n in range(4)]
  assert played == [first, last, last, last]


@pytest.mark.parametrize(
  'action',
  [
    Action(Kind.ASSERT, {'triples': ['a thing']}),
    Action(Kind.ANSWER, {'answer': 'yes it is'}),
  ],
)
def test_a_notebook_reads_what_it_writes(action):
  notebook = testing.Notebook()
  state, prompt = notebook.start(types.Question('q', 'why', ('x',)))
  assert prompt == 'why|'
  _, read, requests = notebook.act(state, notebook.render(action))
  assert read == action
  assert requests == ()


def test_a_notebook_keeps_notes_and_nothing_else():
  notebook = testing.Notebook(max_turns=2)
  state, _ = notebook.start(types.Question('q', 'why', ('x',)))
  state, _, _ = notebook.act(state, 'note a.')
  state, reply = notebook.reply(state, ())
  assert reply == types.Rebuild('why|a|')
  state, action, _ = notebook.act(state, 'mumble.')
  assert action.kind == Kind.INVALID
  state, reply = notebook.reply(state, ())
  assert isinstance(reply, types.Append)
  state, _, _ = notebook.act(state, 'note b.')
  _, reply = notebook.reply(state, ())
  assert reply == types.Stop(types.Status.TURN_LIMIT)
