# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The Search-R1 grammar: what a turn means and what the world replies."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax import testing, types
from searchrl_jax.environments import search_r1, wording
from searchrl_jax.rollout import stops

Kind, Status = types.Kind, types.Status

QUESTION = types.Question('q', ' Where did Ada work ', ('Acme',), corpus='w')
PAGES = {'Ada': 'employed at Acme', 'Bob': 'lives in Rome'}
INVALID_REPLY = types.Append(wording.NATURAL.invalid)


def make(**changes):
  settings = {
    'wording': wording.NATURAL,
    'max_turns': 2,
    'topk': 3,
    'max_observation': 100,
    'shorten': lambda text, count: ' '.join(text.split(' ')[:count]),
  }
  return search_r1.SearchR1(**(settings | changes))


def play(environment, texts, failing=()):
  """Says the texts one by one; returns actions and replies."""
  resolve = testing.DictionarySearch(PAGES, failing)
  state, _ = environment.start(QUESTION)
  played = []
  for text in texts:
    state, action, requests = environment.act(state, text)
    state, reply = environment.reply(state, resolve(requests))
    played.append((action, reply))
    if isinstance(reply, types.Stop):
      break
  return played


def query(text):
  return f'<think> hm </think> <search> {text} </search>'


# --- one turn ----------------------------------------------------------------


@pytest.mark.parametrize(
  ('text', 'kind', 'arguments'),
  [
    (
      '<think> a\nb </think>\n<search>\n Ada\njob </search>',
      Kind.SEARCH,
      {'thought': 'a\nb', 'query': 'Ada\njob'},
    ),
    ('so <answer>Acme</answer>', Kind.ANSWER, {'answer': 'Acme'}),
    # No answer at all differs from an empty one, which ends the episode.
    ('<answer></answer>', Kind.ANSWER, {'answer': ''}),
    # The first complete element counts, whichever closes first.
    ('<answer>x</answer> <search>y</search>', Kind.ANSWER, {'answer': 'x'}),
    ('<search>y</search> <answer>x</answer>', Kind.SEARCH, {'query': 'y'}),
    ('<search>a</search><search>b</search>', Kind.SEARCH, {'query': 'a'}),
    ('<answer> no end <search>y</search>', Kind.SEARCH, {'query': 'y'}),
    # Reasoning is what the first think element before the action holds.
    (
      '<think>1</think><think>2</think><search>y</search>',
      Kind.SEARCH,
      {'thought': '1', 'query': 'y'},
    ),
    ('<think> open <search>y</search>', Kind.SEARCH, {'query': 'y'}),
  ],
)
def test_legal_turns(text, kind, arguments):
  assert search_r1.parse(text) == types.Action(kind, arguments)


@pytest.mark.parametrize(
  ('text', 'why'),
  [
    ('', search_r1.NO_ACTION),
    ('I know it: Acme', search_r1.NO_ACTION),
    ('<search> Ada', search_r1.NO_ACTION),
    ('Ada </search>', search_r1.NO_ACTION),
    ('<search> Ada </answer>', search_r1.NO_ACTION),
    ('<SEARCH> Ada </SEARCH>', search_r1.NO_ACTION),
    ('<browse>{"url": "x"</browse>', search_r1.NO_ACTION),
    ('<search></search>', search_r1.EMPTY_QUERY),
    ('<search> \n </search>', search_r1.EMPTY_QUERY),
    ('<search><search>Ada</search></search>', search_r1.NESTED),
    ('<search> a <answer> b </answer> </search>', search_r1.NESTED),
    ('<answer><think>b</think></answer>', search_r1.NESTED),
  ],
)
def test_malformed_turns_are_answered_politely_and_cost_a_turn(text, why):
  ((action, reply),) = play(make(), [text])
  assert action == types.Action(Kind.INVALID, {'why': why})
  assert reply == INVALID_REPLY
  # Two malformed turns use up both search turns; the third is the last.
  kinds = [a.kind for a, _ in play(make(), [text, text, query('Ada')])]
  assert kinds == [Kind.INVALID, Kind.INVALID, Kind.SEARCH]
  assert play(make(), [text, text, query('Ada')])[-1][1] == types.Stop(
    Status.TURN_LIMIT
  )


def test_a_malformed_turn_keeps_its_thought():
  action = search_r1.parse('<think> why not </think> <search> Ada')
  assert action.arguments == {
    'thought': 'why not',
    'why': search_r1.NO_ACTION,
  }


# --- text and action ---------------------------------------------------------

_said = (
  st.text()
  .map(str.strip)
  .filter(lambda text: not any(tag in text for tag in wording.TAGS))
)
_actions = st.one_of(
  st.builds(lambda q: (Kind.SEARCH, {'query': q}), _said.filter(bool)),
  st.builds(lambda a: (Kind.ANSWER, {'answer': a}), _said),
  st.sampled_from(
    [
      (Kind.INVALID, {'why': search_r1.NO_ACTION}),
      (Kind.INVALID, {'why': search_r1.NESTED}),
      (Kind.INVALID, {'why': search_r1.EMPTY_QUERY}),
    ]
  ),
)


@given(_actions, st.none() | _said)
def test_render_is_the_inverse_of_act(said, thought):
  kind, arguments = said
  if thought is not None:
    arguments = arguments | {'thought': thought}
  action = types.Action(kind, arguments)
  environment = make()
  state, _ = environment.start(QUESTION)
  assert environment.act(state, environment.render(action))[1] == action


@given(st.lists(st.sampled_from([*wording.TAGS, 'a', ' ', '\n'])).map(''.join))
def test_whatever_legal_action_was_said_can_be_said_again(text):
  text = stops.cut(text, search_r1.STOPS)
  action = search_r1.parse(text)
  if action.kind != Kind.INVALID:
    again = search_r1.render(action)
    assert stops.cut(again, search_r1.STOPS) == again
    assert search_r1.parse(again) == action


@pytest.mark.parametrize(
  'argument',
  [
    '"quoted" \'too\'',
    '{"a": [1}',
    'a | b',
    'two\nlines',
    '東京 は',
    '🙂',
    '<b',
  ],
)
def test_arguments_survive_the_round_trip(argument):
  action = types.Action(Kind.SEARCH, {'query': argument, 'thought': argument})
  text = search_r1.render(action)
  assert search_r1.parse(text) == action
  _, _, (request,) = make().act(search_r1.State(QUESTION), text)
  assert request == types.Search(argument, 3, 'w')


@pytest.mark.parametrize(
  'action',
  [
    types.Action(Kind.SEARCH, {'query': ''}),
    types.Action(Kind.SEARCH, {'query': ' padded '}),
    types.Action(Kind.SEARCH, {'query': 'a </search> b'}),
    types.Action(Kind.SEARCH, {'query': 'a', 'thought': 'b </search>'}),
    types.Action(Kind.SEARCH, {'query': 'a', 'thought': 'see <search>'}),
    types.Action(Kind.SEARCH, {'query': 'a', 'topk': 3}),
    types.Action(Kind.ANSWER, {'answer': '<answer>'}),
    types.Action(Kind.INVALID, {'why': 'mood'}),
    types.Action(Kind.OPEN, {'url': 'x'}),
  ],
)
def test_what_no_text_can_say_is_an_error(action):
  with pytest.raises(ValueError, match='action') as error:
    search_r1.render(action)
  assert '\n' not in str(error.value)


def test_words_render_with_spaces_around_every_tag():
  arguments = {'thought': 'employer Ada', 'query': 'Ada employer'}
  text = search_r1.render(types.Action(Kind.SEARCH, arguments))
  assert text == (
    '<think> employer Ada </think> <search> Ada employer </search>'
  )


# --- the conversation --------------------------------------------------------


def test_a_search_brings_numbered_passages():
  environment = make()
  state, prompt = environment.start(QUESTION)
  assert prompt.endswith('Question: Where did Ada work?\n')
  state, _, requests = environment.act(state, query('Ada'))
  assert requests == (types.Search('Ada', 3, 'w'),)
  hits = tuple(
    types.Document(title, title, text) for title, text in PAGES.items()
  )
  _, reply = environment.reply(state, [hits])
  assert reply.text == (
    '\n\n<information>Doc 1(Title: "Ada") employed at Acme\n'
    'Doc 2(Title: "Bob") lives in Rome</information>\n\n'
  )


def test_an_answer_ends_it_at_any_turn():
  answer = '<answer> Acme </answer>'
  for before in ([], [query('Ada')], [query('Ada')] * 2):
    played = play(make(), [*before, answer])
    assert len(played) == len(before) + 1
    assert played[-1][1] == types.Stop(Status.ANSWERED)


def test_a_search_in_the_last_turn_is_a_search_that_is_not_carried_out():
  environment = make()
  played = play(environment, [query('Ada'), query('Bob'), query('Rome')])
  assert len(played) == environment.all_turns == 3
  action, reply = played[-1]
  assert action.kind == Kind.SEARCH and action.arguments['query'] == 'Rome'
  assert reply == types.Stop(Status.TURN_LIMIT)
  state = search_r1.State(QUESTION, turns=2)
  assert environment.act(state, query('Rome'))[2] == ()


def test_one_query_for_ever_ends_by_the_turn_limit():
  played = play(make(max_turns=4), [query('Ada')] * 50)
  assert len(played) == 5
  assert played[-1][1] == types.Stop(Status.TURN_LIMIT)


def test_no_search_turn_at_all():
  ((action, reply),) = play(make(max_turns=0), [query('Ada')])
  assert action.kind == Kind.SEARCH
  assert reply == types.Stop(Status.TURN_LIMIT)


def test_failed_and_empty_searches_are_told_apart():
  played = play(make(), [query('Ada'), query('Zoe')], failing=('Ada',))
  assert played[0][1].text == wording.NATURAL.observation(
    wording.NATURAL.failed
  )
  assert played[1][1].text == wording.NATURAL.observation(wording.NATURAL.empty)


def test_configs_may_stop_at_the_first_fault():
  fault, text = make(stop_at_malformed=True), '<search></search>'
  assert play(fault, [text])[-1][1] == types.Stop(Status.STOPPED_MALFORMED)
  # Also in the last turn, where the turn limit would be the other reason.
  played = play(fault, [query('Ada'), query('Ada'), text])
  assert played[-1][1] == types.Stop(Status.STOPPED_MALFORMED)
  fault = make(stop_at_failed_tool=True)
  played = play(fault, [query('Ada'), query('Bob')], failing=('Bob',))
  assert played[0][1] != types.Stop(Status.STOPPED_TOOL)
  assert played[1][1] == types.Stop(Status.STOPPED_TOOL)


def test_passages_are_cut_before_the_block_is_closed():
  hits = (types.Document('0', 'Ada', 'word ' * 400),)
  for limit in (1, 2, 7, 50):
    environment = make(max_observation=limit)
    state, _, _ = environment.act(search_r1.State(QUESTION), query('Ada'))
    text = environment.reply(state, [hits])[1].text
    opening, closing = '\n\n<information>', '</information>\n\n'
    assert text.startswith(opening) and text.endswith(closing)
    passages = text.removeprefix(opening).removesuffix(closing)
    # `Doc 1(Title: "Ada") word word`: three words come before the text.
    assert len(passages.split()) == limit


def test_rollouts_of_one_question_share_nothing_mutable():
  environment = make()
  start, _ = environment.start(QUESTION)
  before = copy.deepcopy(start)
  ada, _, _ = environment.act(start, query('Ada'))
  bob, _, _ = environment.act(start, query('Bob'))
  assert start == before
  assert ada.action.arguments['query'] == 'Ada'
  assert bob.action.arguments['query'] == 'Bob'
  with pytest.raises(AttributeError):
    start.turns = 5


def test_impossible_settings_are_named():
  with pytest.raises(ValueError, match='max_turns'):
    make(max_turns=-1)
  for name in ('topk', 'max_observation'):
    with pytest.raises(ValueError, match=name):
      make(**{name: 0})
