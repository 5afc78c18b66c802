# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The tool loop, with policies that say chosen ids."""

import dataclasses
import functools
import json

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from searchrl_jax import tokenizer as tokenizers
from searchrl_jax import types
from searchrl_jax.environments import search_r1, wording
from searchrl_jax.rewards import measures, scoring
from searchrl_jax.rollout import engine, policy
from searchrl_jax.testing import (
  DictionarySearch,
  Notebook,
  Script,
  ToyTokenizer,
)
from searchrl_jax.types import Action, Kind, Status

TOY = ToyTokenizer(
  ('<search>', '</search>', '</', 'search', '>\n', 'he', 'llo', 'hello')
)
ENVIRONMENT = search_r1.SearchR1(
  wording.WORDS,
  max_turns=3,
  topk=1,
  max_observation=40,
  shorten=functools.partial(tokenizers.shorten, TOY),
)
SEARCH = DictionarySearch({'hello': 'a word'}, failing=('broken',))
LIMITS = engine.Limits(max_new_tokens=64, max_tokens=512, context=512)
QUESTION = types.Question('q', 'what', ('a word',))
ANSWER = '<answer>a word</answer>'


class Spoken:
  """A policy that says chosen ids, and keeps what it is told.

  `turns[row][t]` are the ids of a row's turn t, the last one repeated; what
  exceeds the budget is cut off. Log-probs are -1, -2, ... over a turn.
  """

  def __init__(self, *turns):
    self._turns = turns
    self.prompts, self.appended, self.rebuilt, self.budgets = [], [], [], []

  def start(self, prompts, group):
    self.prompts = [list(prompt) for prompt in prompts for _ in range(group)]

  def draw(self, asked):
    said = []
    for row in asked:
      turns = self._turns[row.row]
      ids = turns[min(len(row.turns), len(turns) - 1)]
      self.budgets.append(row.budget)
      cut = np.array(ids[: row.budget], np.int32)
      logps = -np.arange(1, len(cut) + 1, dtype=np.float32)
      said.append(policy.Said(cut, logps, stopped=len(ids) <= row.budget))
    return said

  def append(self, given):
    self.appended.append(dict(given))

  def rebuild(self, prompts):
    self.rebuilt.append(dict(prompts))


def play(
  spoken,
  questions=(QUESTION,),
  group=1,
  limits=LIMITS,
  environment=ENVIRONMENT,
  resolve=SEARCH,
  tokenizer=TOY,
  template=None,
):
  return engine.rollout(
    spoken,
    environment,
    questions,
    resolve,
    tokenizer,
    group=group,
    limits=limits,
    template=template,
  )


def one(*texts, **settings):
  """The trajectory of a policy that says these texts."""
  spoken = Spoken(
    [text if isinstance(text, list) else TOY.encode(text) for text in texts]
  )
  ((trajectory,),) = play(spoken, **settings)
  return trajectory


def sampled(row, turn):
  return row.tokens[row.turn_id == turn].tolist()


# --- what the record keeps ---------------------------------------------------


def test_sampled_ids_are_kept_however_the_tokenizer_would_spell_them():
  spelled = [
    TOY.id('<search>'),
    TOY.id('he'),
    TOY.id('llo'),
    TOY.id('</search>'),
  ]
  trajectory = one(spelled, ANSWER)
  assert TOY.encode('<search>hello</search>') != spelled
  assert trajectory.turns[0].text == '<search>hello</search>'
  assert trajectory.turns[0].evidence[0].documents[0].id == 'hello'
  assert sampled(trajectory.rows[0], 0) == spelled
  assert trajectory.rows[0].logps[trajectory.turns[0].span.start] == -1


def test_the_closing_token_stays_whole_and_only_the_view_is_cut():
  said = [*TOY.encode('<search>hello'), TOY.id('</'), TOY.id('search')]
  said.append(TOY.id('>\n'))
  trajectory = one(said, ANSWER)
  row, turn = trajectory.rows[0], trajectory.turns[0]
  assert turn.text == '<search>hello</search>'  # without the line end
  assert sampled(row, 0) == said  # with it
  assert turn.span.stop - turn.span.start == len(said)
  assert row.logps[turn.span.stop - 1] == -len(said)
  assert not row.sampled[turn.span.stop]  # the reply follows at once


def test_what_follows_an_answer_in_its_last_token_is_no_second_turn():
  tokenizer = ToyTokenizer(('</answer><search>x</search>',))
  said = tokenizer.encode('<answer>a word</answer><search>x</search>')
  ((trajectory,),) = play(Spoken([said]), tokenizer=tokenizer)
  assert trajectory.answer == 'a word'
  assert trajectory.status == Status.ANSWERED
  assert trajectory.rows[0].tokens[-len(said) :].tolist() == said


@dataclasses.dataclass(frozen=True)
class Polite:
  """Replies with an end-of-sequence word, as chat templates do."""

  stops: tuple[str, ...] = ('stop',)

  def start(self, question):
    return 0, 'ask'

  def act(self, state, text):
    return state + 1, Action(Kind.SEARCH, {'query': text}), ()

  def reply(self, state, results):
    if state == 2:
      return state, types.Stop(Status.TURN_LIMIT)
    return state, types.Append('<eos> ask')

  def render(self, action):
    return f'{action.arguments["query"]} stop'


def test_an_end_token_is_sampled_only_where_it_was_drawn():
  words = tokenizers.WordTokenizer(('ask', 'so', 'stop'))
  end, ask, so, stop = 1, *words.encode('ask so stop')
  # Turn 0 ends by a stop string, turn 1 by the end token.
  spoken = Spoken([[so, stop], [so, so, end]])
  ((trajectory,),) = play(spoken, environment=Polite(), tokenizer=words)
  row = trajectory.rows[0]
  assert row.tokens.tolist() == [ask, so, stop, end, ask, so, so, end]
  assert row.sampled.tolist() == [0, 1, 1, 0, 0, 1, 1, 1]
  assert row.turn_id.tolist() == [-1, 0, 0, -1, -1, 1, 1, 1]
  assert row.logps.tolist() == [0, -1, -2, 0, 0, -1, -2, -3]


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
  turns=st.lists(
    st.lists(st.integers(1, len(TOY.token_bytes) - 1), min_size=1, max_size=9),
    min_size=1,
    max_size=4,
  ),
  max_new_tokens=st.integers(1, 9),
  max_tokens=st.integers(1, 30),
  context=st.integers(20, 90),
)
def test_whatever_is_said_is_recorded_once(
  turns, max_new_tokens, max_tokens, context
):
  limits = engine.Limits(max_new_tokens, max_tokens, context)
  spoken = Spoken(turns)
  ((trajectory,),) = play(spoken, limits=limits)
  (row,) = trajectory.rows
  assert (
    len(row.tokens) == len(row.sampled) == len(row.turn_id) == len(row.logps)
  )
  assert len(row.tokens) <= context
  assert row.sampled.sum() <= max_tokens
  np.testing.assert_array_equal(row.sampled, row.turn_id >= 0)
  assert not row.logps[~row.sampled].any()
  for t, turn in enumerate(trajectory.turns):
    ids = turns[min(t, len(turns) - 1)][: spoken.budgets[t]]
    assert sampled(row, t) == ids
    assert row.turn_id[turn.span.start : turn.span.stop].tolist() == [t] * len(
      ids
    )
  # Tokens: the prompt, then turns and replies as they alternate.
  given = [TOY.encode(turn.reply) for turn in trajectory.turns]
  rebuilt = list(spoken.prompts[0])
  for t, reply in enumerate(given):
    rebuilt += sampled(row, t) + reply
  assert row.tokens.tolist() == rebuilt
  assert isinstance(trajectory.status, Status)


def test_a_template_wraps_the_prompt_and_nothing_else():
  template = tokenizers.ChatTemplate(
    '{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}'
    '{% if add_generation_prompt %}[assistant]{% endif %}'
  )
  trajectory = one('<search>hello</search>', ANSWER, template=template)
  assert trajectory.prompt == '[user]question what [assistant]'
  text = TOY.decode(trajectory.rows[0].tokens)
  assert text == trajectory.prompt + trajectory.response
  assert '[' not in trajectory.response


# --- limits ------------------------------------------------------------------


def test_a_turn_cut_by_its_limit_is_marked_and_the_trajectory_goes_on():
  limits = dataclasses.replace(LIMITS, max_new_tokens=10)
  trajectory = one(
    '<search>' + 'x' * 30, '<search>hello</search>', limits=limits
  )
  first = trajectory.turns[0]
  assert first.clipped
  assert first.action.kind == Kind.INVALID
  assert first.reply == wording.WORDS.invalid
  assert len(sampled(trajectory.rows[0], 0)) == 10
  assert trajectory.rows[0].sampled[first.span.start : first.span.stop].all()
  assert trajectory.turns[1].action.kind == Kind.SEARCH
  assert not trajectory.turns[1].clipped
  assert trajectory.clipped


def test_the_budget_of_a_trajectory_spans_its_turns():
  """Turns of 8 bytes: 20 tokens are 8, 8 and 4."""
  environment = dataclasses.replace(ENVIRONMENT, max_turns=9)
  limits = dataclasses.replace(LIMITS, max_tokens=20)
  spoken = Spoken([TOY.encode('xxxxxxxx')])
  ((trajectory,),) = play(spoken, limits=limits, environment=environment)
  assert spoken.budgets == [20, 12, 4]
  assert [turn.clipped for turn in trajectory.turns] == [False, False, True]
  assert trajectory.status == Status.TOKEN_LIMIT
  assert trajectory.rows[0].sampled.sum() == 20
  assert trajectory.turns[-1].reply == ''
  assert trajectory.rows[0].sampled[-1]  # no reply after the last turn


def test_a_budget_spent_exactly_by_a_whole_turn_ends_the_trajectory():
  environment = dataclasses.replace(ENVIRONMENT, max_turns=9)
  limits = dataclasses.replace(LIMITS, max_tokens=16)
  trajectory = one('xxxxxxxx', limits=limits, environment=environment)
  assert trajectory.status == Status.TOKEN_LIMIT
  assert [turn.clipped for turn in trajectory.turns] == [False, False]


def test_a_reply_that_does_not_fit_is_not_recorded():
  text = '<search>hello</search>'
  prompt = len(TOY.encode('question what '))
  said = len(TOY.encode(text))
  reply = len(TOY.encode(' <information> a word </information> '))
  for context, status in (
    (prompt + said + reply, Status.CONTEXT_LIMIT),  # no room for a next token
    (prompt + said + reply + 1, Status.TURN_LIMIT),
  ):
    limits = dataclasses.replace(LIMITS, context=context)
    environment = dataclasses.replace(ENVIRONMENT, max_turns=1)
    trajectory = one(text, 'x', limits=limits, environment=environment)
    assert trajectory.status == status
    ended = status == Status.CONTEXT_LIMIT
    assert trajectory.clipped == ended
    assert len(trajectory.turns) == (1 if ended else 2)
    assert bool(trajectory.turns[0].reply) != ended
    assert trajectory.turns[0].evidence  # it was found all the same
    assert len(trajectory.rows[0].tokens) == (
      prompt + said if ended else context
    )


def test_a_turn_never_outgrows_the_context():
  prompt = len(TOY.encode('question what '))
  limits = dataclasses.replace(LIMITS, context=prompt + 5)
  spoken = Spoken([TOY.encode('x' * 9)])
  ((trajectory,),) = play(spoken, limits=limits)
  assert spoken.budgets == [5]
  assert trajectory.turns[0].clipped
  assert trajectory.status == Status.CONTEXT_LIMIT


def test_a_prompt_without_room_names_its_question():
  limits = dataclasses.replace(LIMITS, context=14)  # 'question what ' has 14
  with pytest.raises(ValueError, match=r"question 'q' has 14 tokens") as error:
    one('x', limits=limits)
  assert '\n' not in str(error.value)
  trajectory = one('x', limits=dataclasses.replace(LIMITS, context=15))
  assert trajectory.rows[0].sampled.sum() == 1


def test_one_query_for_ever_ends_by_the_turn_limit_with_its_repeats_counted():
  groups = play(Spoken([TOY.encode('<search>hello</search>')]))
  ((trajectory,),) = groups
  assert trajectory.status == Status.TURN_LIMIT
  assert trajectory.answer is None
  # Three turns that search, and a last one whose search is not carried out.
  assert [turn.action.kind for turn in trajectory.turns] == [Kind.SEARCH] * 4
  assert [bool(turn.evidence) for turn in trajectory.turns] == [1, 1, 1, 0]
  scores = scoring.score_outcomes(groups, max_turns=ENVIRONMENT.all_turns)
  assert measures.measure(groups, scores)['repeated_queries'] == 3


# --- the world ---------------------------------------------------------------


def test_a_failed_request_touches_one_turn_of_one_row():
  good = [TOY.encode('<search>hello</search>'), TOY.encode(ANSWER)]
  bad = [TOY.encode('<search>broken</search>'), *good]
  groups = play(Spoken(good, bad, good), group=3)
  first, failed, last = groups[0]
  assert failed.turns[0].failures == ('the search engine did not answer.',)
  assert failed.turns[0].evidence == ()
  assert wording.WORDS.failed in failed.turns[0].reply
  assert failed.turns[1].failures == ()  # it went on, and found it
  assert failed.turns[1].evidence
  assert failed.answer == 'a word'
  for other in (first, last):
    assert not any(turn.failures for turn in other.turns)
    assert other.turns[0].reply == failed.turns[1].reply
    assert other.answer == 'a word'


def test_a_failed_tool_ends_the_trajectory_where_so_configured():
  environment = dataclasses.replace(ENVIRONMENT, stop_at_failed_tool=True)
  trajectory = one('<search>broken</search>', environment=environment)
  assert trajectory.status == Status.STOPPED_TOOL
  assert len(trajectory.turns[0].failures) == 1


def test_requests_of_a_tick_are_resolved_in_one_call():
  calls = []

  def resolve(requests):
    calls.append([request.query for request in requests])
    return SEARCH(requests)

  a = [TOY.encode('<search>a</search>'), TOY.encode('<search>c</search>')]
  b = [TOY.encode('<search>b</search>'), TOY.encode(ANSWER)]
  c = [TOY.encode('nothing'), TOY.encode(ANSWER)]
  play(Spoken(a, b, c), group=3, resolve=resolve)
  # Row 0 repeats its last query; its fourth search is not carried out.
  assert calls == [['a', 'b'], ['c'], ['c']]


def test_rollouts_of_a_question_share_nothing_that_changes():
  hello, ended = TOY.encode('<search>hello</search>'), TOY.encode(ANSWER)
  groups = play(Spoken([hello, ended], [ended]), group=2)
  long, short = groups[0]
  alone = one(ANSWER)
  assert (len(long.turns), len(short.turns)) == (2, 1)
  assert short.turns[0].text == alone.turns[0].text
  np.testing.assert_array_equal(short.rows[0].tokens, alone.rows[0].tokens)
  assert long.rows[0].tokens is not short.rows[0].tokens
  long.rows[0].tokens[0] = 0
  assert short.rows[0].tokens[0] != 0
  with pytest.raises(dataclasses.FrozenInstanceError):
    short.status = Status.TURN_LIMIT


def test_groups_come_in_the_order_of_questions_whoever_ends_first():
  questions = [types.Question(name, name, ('x',)) for name in 'ab']
  spoken = Spoken(
    *([TOY.encode('zz')] * r + [TOY.encode(ANSWER)] for r in range(4))
  )
  groups = play(spoken, questions, group=2)
  assert [[t.question.id for t in group] for group in groups] == [
    ['a', 'a'],
    ['b', 'b'],
  ]
  assert [[t.rollout for t in group] for group in groups] == [[0, 1], [0, 1]]
  assert [[len(t.turns) for t in g] for g in groups] == [[1, 2], [3, 4]]


def test_the_policy_is_told_of_living_rows_only():
  spoken = Spoken([TOY.encode('zz'), TOY.encode(ANSWER)], [TOY.encode(ANSWER)])
  play(spoken, group=2)
  invalid = TOY.encode(wording.WORDS.invalid)
  assert spoken.appended == [{0: invalid}, {}]
  assert spoken.rebuilt == [{}, {}]


@pytest.mark.parametrize(
  'query',
  [
    'say "hi" {now}',
    'a|b\nc',
    '}}{{',
    "it's 100%\\n",
    '東京 の 🗼',
    '{0} {query}',
  ],
)
def test_any_query_survives_the_round_trip(query):
  action = Action(Kind.SEARCH, {'query': query})
  asked = []

  def resolve(requests):
    asked.extend(requests)
    return [(types.Document('1', query, query),) for _ in requests]

  script = policy.ScriptPolicy(Script((action,)), ENVIRONMENT, TOY)
  ((trajectory,),) = play(script, resolve=resolve)
  assert trajectory.turns[0].action == action
  assert asked[0] == types.Search(query, topk=1, corpus='')
  assert query.strip() in trajectory.turns[0].reply
  assert json.loads(json.dumps(action.arguments)) == action.arguments


# --- contexts that are rebuilt -----------------------------------------------


def test_a_rebuilding_environment_has_a_row_for_every_turn():
  note, answer = TOY.encode('note he.'), TOY.encode('answer hello.')
  spoken = Spoken([note, answer])
  ((trajectory,),) = play(spoken, environment=Notebook())
  first, second = trajectory.rows
  assert TOY.decode(first.tokens) == 'what|note he.'
  assert TOY.decode(second.tokens) == 'what|he|answer hello.'
  assert set(first.turn_id) == {-1, 0}
  assert set(second.turn_id) == {-1, 1}
  assert [turn.span.row for turn in trajectory.turns] == [0, 1]
  assert spoken.rebuilt[0] == {0: TOY.encode('what|he|')}
  assert spoken.appended[0] == {}
  assert trajectory.answer == 'hello'


def test_a_malformed_turn_is_answered_in_the_row_it_stands_in():
  """Only legal actions rebuild: a row may hold more than one turn."""
  spoken = Spoken([TOY.encode('eh.'), TOY.encode('answer hello.')])
  ((trajectory,),) = play(spoken, environment=Notebook())
  (row,) = trajectory.rows
  assert set(row.turn_id) == {-1, 0, 1}
  assert TOY.decode(row.tokens) == 'what|eh.say note or answer|answer hello.'


@dataclasses.dataclass(frozen=True)
class Novel(Notebook):
  """Rebuilds into a context of 40 tokens."""

  def reply(self, state, results):
    return state, types.Rebuild('x' * 40)


def test_a_rebuilt_context_without_room_ends_the_trajectory():
  spoken = Spoken([TOY.encode('note aaa.')])
  limits = dataclasses.replace(LIMITS, context=40)
  ((trajectory,),) = play(spoken, environment=Novel(), limits=limits)
  assert trajectory.status == Status.CONTEXT_LIMIT
  assert [TOY.decode(row.tokens) for row in trajectory.rows] == [
    'what|note aaa.'
  ]
  assert spoken.rebuilt == [{}]
  limits = dataclasses.replace(LIMITS, context=41, max_tokens=10)
  ((trajectory,),) = play(spoken, environment=Novel(), limits=limits)
  assert [len(row.tokens) for row in trajectory.rows] == [14, 41]
