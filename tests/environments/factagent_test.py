# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The FactAgent grammar: what a turn means and what the prompt then shows."""

import copy
import functools
import json

import numpy as np
import pytest

from searchrl_jax import testing, tokenizer, types
from searchrl_jax.environments import fact_wording, factagent
from searchrl_jax.rollout import engine, policy, stops

Kind, Status, Action = types.Kind, types.Status, types.Action
NATURAL, WORDS = fact_wording.NATURAL, fact_wording.WORDS

QUESTION = types.Question('q', 'who founded it ?', ('zurep',), corpus='w')
PAGES = {
  'fetok employer': 'fetok works at vepev',
  'vepev founder': 'vepev founder zurep',
}
FETOK = ['fetok', 'employer', 'vepev']
VEPEV = ['vepev', 'founder', 'zurep']


def search(query):
  return Action(Kind.SEARCH, {'query': query})


def asserted(*triples):
  return Action(Kind.ASSERT, {'triples': [list(one) for one in triples]})


def answer(text):
  return Action(Kind.ANSWER, {'answer': text})


def invalid(why):
  return Action(Kind.INVALID, {'why': why})


def make(wording=WORDS, **changes):
  settings = {
    'max_facts': 4,
    'topk': 3,
    'max_observation': 100,
    'shorten': lambda text, count: ' '.join(text.split(' ')[:count]),
  }
  return factagent.FactAgent(wording, **(settings | changes))


def play(environment, said, failing=()):
  """Says actions, or texts, one by one; returns actions and replies."""
  resolve = testing.DictionarySearch(PAGES, failing)
  state, _ = environment.start(QUESTION)
  played = []
  for one in said:
    text = one if isinstance(one, str) else environment.render(one)
    state, action, requests = environment.act(state, text)
    state, reply = environment.reply(state, resolve(requests))
    played.append((action, reply))
    if isinstance(reply, types.Stop):
      break
  return played


def shown(environment, said, **other):
  """The prompt after what was said."""
  return play(environment, said, **other)[-1][1].prompt


# --- the store and the prompt ------------------------------------------------


def test_a_conversation_in_words():
  actions = [search('fetok employer'), asserted(FETOK)]
  actions += [search('vepev founder'), asserted(VEPEV), answer('zurep')]
  environment = make()
  assert environment.start(QUESTION)[1] == (
    'question who founded it ? result unsearched facts  act '
  )
  played = play(environment, actions)
  assert [action for action, _ in played] == actions
  start = 'question who founded it ? result'
  page = 'fetok employer brings fetok works at vepev facts'
  other = 'vepev founder brings vepev founder zurep facts'
  one, two = '1 fetok employer vepev', '2 vepev founder zurep'
  assert [reply for _, reply in played] == [
    types.Rebuild(f'{start} {page}  act '),
    # After an Assert the last search result stays.
    types.Rebuild(f'{start} {page} {one} act '),
    # The next search replaces it; the store is what is left of it.
    types.Rebuild(f'{start} {other} {one} act '),
    types.Rebuild(f'{start} {other} {one} {two} act '),
    types.Stop(Status.ANSWERED),
  ]


def test_a_natural_conversation():
  environment = make(NATURAL)
  actions = [search('fetok employer'), asserted(FETOK), '{']
  prompts = [environment.start(QUESTION)[1]]
  prompts += [reply.prompt for _, reply in play(environment, actions)]
  rules = NATURAL.template.partition('Question:')[0]
  page = (
    'Search: fetok employer\n'
    'Doc 1(Title: "fetok employer") fetok works at vepev'
  )
  shows = [
    ('The store is empty.', 'Nothing has been searched yet.'),
    ('The store is empty.', page),
    ('1. fetok | employer | vepev', page),
    (
      '1. fetok | employer | vepev',
      f'{page}\n\nYour last turn could not be carried out: there is no '
      'complete JSON object. Please write one JSON object on one line.',
    ),
  ]
  assert prompts == [
    f'{rules}Question: who founded it ?\n\nStored facts:\n{facts}\n\n'
    f'Last search result:\n{result}\n'
    for facts, result in shows
  ]


def test_failed_and_empty_searches_replace_the_result():
  environment = make()
  found = search('fetok employer')
  nothing = shown(environment, [found, search('zed')])
  assert ' result zed brings nothing facts ' in nothing
  failed = shown(environment, [found, search('zed')], failing=('zed',))
  assert ' result zed brings failed facts ' in failed
  # A malformed turn replaces nothing.
  kept = shown(environment, [found, '{'])
  assert ' brings fetok works at vepev invalid action facts ' in kept
  assert shown(environment, [found, '{', '{']) == kept


def test_an_exact_repetition_is_not_stored_twice():
  again = ['  FETOK ', 'Employer', 'vepev']
  text = json.dumps({'assert': [FETOK, again, ['fe\ttok', 'b', 'c'], VEPEV]})
  more = json.dumps({'assert': [['Fe  tok', 'b', 'C'], ['a', 'b', 'c']]})
  environment = make()
  state = environment.start(QUESTION)[0]
  for one in (text, more):
    state, action, _ = environment.act(state, one)
  # The first spelling stays, and numbers never change.
  assert state.facts == (
    tuple(FETOK),
    ('fe\ttok', 'b', 'c'),
    tuple(VEPEV),
    ('a', 'b', 'c'),
  )
  assert len(action.arguments['triples']) == 2


def test_an_assert_beyond_the_store_is_malformed_as_a_whole():
  environment = make(max_facts=2)
  full = [asserted(FETOK, VEPEV)]
  before = shown(environment, full)
  action, reply = play(environment, [*full, asserted(FETOK, 'abc')])[-1]
  assert action == invalid('the store holds at most 2 facts')
  assert reply.prompt == before.replace(' facts ', ' invalid action facts ')
  # What is stored already needs no room.
  assert play(environment, [*full, asserted(VEPEV)])[-1][0].kind == Kind.ASSERT
  # Three at once: none of them is stored.
  first, reply = play(environment, [asserted('abc', 'def', 'ghi')])[-1]
  assert first.kind == Kind.INVALID and ' facts  act ' in reply.prompt
  text = (
    '{"thought": "t", "assert": [["a","b","c"],["d","e","f"],["g","h","i"]]}'
  )
  (thoughtful, _) = play(environment, [text])[-1]
  assert thoughtful.arguments['thought'] == 't'


def test_passages_are_cut_and_the_question_and_facts_never():
  environment = make(max_observation=2)
  prompt = shown(
    environment, [asserted(FETOK, VEPEV), search('fetok employer')]
  )
  assert prompt == (
    'question who founded it ? result fetok employer brings fetok works '
    'facts 1 fetok employer vepev 2 vepev founder zurep act '
  )


def test_nothing_said_or_found_is_taken_for_a_placeholder():
  environment = make()
  state, _ = environment.start(QUESTION)
  text = environment.render(asserted(('{result}', '{facts}', '{x}')))
  state, _, _ = environment.act(state, text)
  said = environment.render(search('{passages}'))
  state, _, _ = environment.act(state, said)
  page = types.Document('0', 't', 'see {facts} and {question}')
  _, reply = environment.reply(state, [(page,)])
  assert reply.prompt == (
    'question who founded it ? '
    'result {passages} brings see {facts} and {question} '
    'facts 1 {result} {facts} {x} act '
  )


def test_a_malformed_turn_is_told_why_until_the_next_legal_one():
  environment = make(NATURAL)
  before = environment.start(QUESTION)[1]
  for text, why in (
    ('I know it', factagent.NO_OBJECT),
    ('{"search": " "}', factagent.EMPTY_QUERY),
    ('{"assert": [["a"]]}', factagent.NOT_TRIPLES),
  ):
    action, reply = play(environment, [text])[-1]
    assert action == invalid(why)
    assert reply == types.Rebuild(before[:-1] + NATURAL.complaint(why) + '\n')
    assert why not in shown(environment, [text, search('zed')])
    assert why not in shown(environment, [text, asserted(FETOK)])


# --- how it ends -------------------------------------------------------------


@pytest.mark.parametrize(
  'last', [search('zed'), asserted(FETOK), '{', search('fetok employer')]
)
@pytest.mark.parametrize('rounds', [1, 2, 5])
def test_the_last_round_ends_it_whatever_is_said(rounds, last):
  environment = make(max_turns=rounds)
  assert environment.all_turns == rounds
  played = play(environment, [search('fetok employer')] * (rounds - 1) + [last])
  assert len(played) == rounds
  assert played[-1][1] == types.Stop(Status.TURN_LIMIT)
  assert all(isinstance(reply, types.Rebuild) for _, reply in played[:-1])
  if isinstance(last, Action):
    assert played[-1][0] == last


def test_a_search_in_the_last_round_is_not_carried_out():
  environment = make(max_turns=2)
  state, _ = environment.start(QUESTION)
  text = environment.render(search('zed'))
  state, _, requests = environment.act(state, text)
  assert requests == (types.Search('zed', 3, 'w'),)
  state, _ = environment.reply(state, [()])
  assert environment.act(state, text)[1:] == (search('zed'), ())


def test_an_answer_ends_it_in_any_round():
  for before in range(3):
    played = play(make(max_turns=3), [search('zed')] * before + [answer('x')])
    assert len(played) == before + 1
    assert played[-1] == (answer('x'), types.Stop(Status.ANSWERED))


def test_configs_may_stop_at_the_first_fault():
  fault = make(stop_at_malformed=True, max_turns=2)
  assert play(fault, ['{'])[-1][1] == types.Stop(Status.STOPPED_MALFORMED)
  # Also in the last round, where the turn limit would be the other reason.
  played = play(fault, [search('zed'), '{'])
  assert played[-1][1] == types.Stop(Status.STOPPED_MALFORMED)
  # A full store is a fault of the same kind.
  full = make(stop_at_malformed=True, max_facts=1)
  played = play(full, [asserted(FETOK, VEPEV)])
  assert played[-1][1] == types.Stop(Status.STOPPED_MALFORMED)
  fault = make(stop_at_failed_tool=True)
  said = [search('zed'), search('bad')]
  played = play(fault, said, failing=('bad',))
  assert isinstance(played[0][1], types.Rebuild)
  assert played[1][1] == types.Stop(Status.STOPPED_TOOL)


@pytest.mark.parametrize(
  'name', ['max_turns', 'max_facts', 'topk', 'max_observation']
)
def test_impossible_settings_are_named(name):
  with pytest.raises(ValueError, match=f'{name} must be at least 1'):
    make(**{name: 0})


def test_rollouts_of_one_question_share_nothing_mutable():
  environment = make()
  start, _ = environment.start(QUESTION)
  before = copy.deepcopy(start)
  one, action, _ = environment.act(start, environment.render(asserted(FETOK)))
  two, _, _ = environment.act(start, environment.render(asserted(VEPEV)))
  assert start == before and start.facts == ()
  assert one.facts == (tuple(FETOK),) and two.facts == (tuple(VEPEV),)
  # Nor does the store share its facts with the action.
  action.arguments['triples'][0][0] = 'changed'
  assert one.facts == (tuple(FETOK),)
  with pytest.raises(AttributeError):
    start.turns = 5


# --- rolled out --------------------------------------------------------------

_NAMES = ('who', 'founded', 'it', '?', 'fetok', 'employer', 'vepev', 'founder')
_NAMES += ('zurep', 'works', 'at')
_TOKENIZER = tokenizer.WordTokenizer(
  (*fact_wording.words_of(WORDS, 4), *_NAMES)
)
_SHORT = engine.Limits(max_new_tokens=16, max_tokens=40, context=48)
_LONG = engine.Limits(max_new_tokens=100, max_tokens=300, context=1000)


def roll(wording, speaker, actions, limits):
  """Plays a script through the tool loop."""
  cut = functools.partial(tokenizer.shorten, speaker)
  environment = make(wording, shorten=cut)
  script = testing.Script(tuple(actions))
  ((played,),) = engine.rollout(
    policy.ScriptPolicy(script, environment, speaker),
    environment,
    [QUESTION],
    testing.DictionarySearch(PAGES),
    speaker,
    group=1,
    limits=limits,
  )
  return played


def test_every_turn_is_a_row_of_its_own():
  actions = [search('fetok employer'), asserted(FETOK), answer('vepev')]
  played = roll(WORDS, _TOKENIZER, actions, _SHORT)
  start = 'question who founded it ? result'
  page = f'{start} fetok employer brings fetok works at vepev facts'
  rows = [
    (f'{start} unsearched facts act', '{"search":" fetok employer "}'),
    (f'{page} act', '{"assert":[" fetok employer vepev "]}'),
    (f'{page} 1 fetok employer vepev act', '{"answer":" vepev "}'),
  ]
  assert len(played.rows) == len(played.turns) == 3
  for i, (row, turn, (given_text, said)) in enumerate(
    zip(played.rows, played.turns, rows, strict=True)
  ):
    ids, spoken = _TOKENIZER.encode(given_text), _TOKENIZER.encode(said)
    np.testing.assert_array_equal(row.tokens, ids + spoken)
    sampled = [False] * len(ids) + [True] * len(spoken)
    np.testing.assert_array_equal(row.sampled, sampled)
    turn_id = [-1] * len(ids) + [i] * len(spoken)
    np.testing.assert_array_equal(row.turn_id, turn_id)
    assert turn.span == types.Span(i, len(ids), len(ids) + len(spoken))
    # A token's text is a space and its word.
    assert turn.text == f' {said}'
    assert turn.action == actions[i] and not turn.clipped
  assert played.status == Status.ANSWERED
  # The prompt after a turn is its reply; after the last there is none.
  replies = [turn.reply.split() for turn in played.turns]
  assert replies == [rows[1][0].split(), rows[2][0].split(), []]


def test_a_policy_of_words_can_say_nothing_that_it_cannot_be_shown():
  # What is asserted comes back in the prompt; every word of it must be known.
  rng = np.random.default_rng(0)
  cut = functools.partial(tokenizer.shorten, _TOKENIZER)
  environment = make(shorten=cut)
  words = range(2, len(_TOKENIZER.token_bytes))
  kinds = set()
  head, tail = _TOKENIZER.encode('{"assert":["'), _TOKENIZER.encode('"]}')
  for _ in range(300):
    ids = [*head, *rng.choice(words, 3).tolist(), *tail]
    text = stops.cut(_TOKENIZER.decode(ids), environment.stops)
    state, action, requests = environment.act(
      environment.start(QUESTION)[0], text
    )
    _, reply = environment.reply(state, [()] * len(requests))
    _TOKENIZER.encode(reply.prompt)
    kinds.add(action.kind)
  assert kinds == {Kind.ASSERT, Kind.INVALID}


def test_a_natural_conversation_rolls_out_the_same():
  actions = [search('fetok employer'), asserted(FETOK), answer('vepev }\n "')]
  toy = testing.ToyTokenizer(
    (*NATURAL.template.split('\n'), 'fetok', ' employer', 'result', 'Doc 1(')
  )
  played = roll(NATURAL, toy, actions, _LONG)
  assert [turn.action for turn in played.turns] == actions
  assert len(played.rows) == 3
  texts = [toy.decode(row.tokens) for row in played.rows]
  prompts = [played.prompt, *(turn.reply for turn in played.turns[:-1])]
  assert texts == [
    prompt + turn.text
    for prompt, turn in zip(prompts, played.turns, strict=True)
  ]
