# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What the tool loop records: every id, as it was drawn or given."""

import dataclasses

import hypothesis
import hypothesis.strategies as st
import numpy as np

from searchrl_jax import tokenizer as tokenizers
from searchrl_jax import types
from searchrl_jax.chat import ChatTemplate
from searchrl_jax.rollout import engine
from searchrl_jax.testing import DictionarySearch, Notebook, ToyTokenizer
from searchrl_jax.types import Action, Kind, Status

ANSWER = '<answer>a word</answer>'
VOCABULARY = 266  # two special tokens, eight pieces, 256 bytes


def sampled(row, turn):
  return row.tokens[row.turn_id == turn].tolist()


def test_sampled_ids_are_kept_however_the_tokenizer_would_spell_them(stage):
  spelled = [
    stage.toy.id('<search>'),
    stage.toy.id('he'),
    stage.toy.id('llo'),
    stage.toy.id('</search>'),
  ]
  trajectory = stage.one(spelled, ANSWER)
  assert stage.toy.encode('<search>hello</search>') != spelled
  assert trajectory.turns[0].text == '<search>hello</search>'
  assert trajectory.turns[0].evidence[0].documents[0].id == 'hello'
  assert sampled(trajectory.rows[0], 0) == spelled
  assert trajectory.rows[0].logps[trajectory.turns[0].span.start] == -1


def test_the_closing_token_stays_whole_and_only_the_view_is_cut(stage):
  said = [
    *stage.toy.encode('<search>hello'),
    stage.toy.id('</'),
    stage.toy.id('search'),
  ]
  said.append(stage.toy.id('>\n'))
  trajectory = stage.one(said, ANSWER)
  row, turn = trajectory.rows[0], trajectory.turns[0]
  assert turn.text == '<search>hello</search>'  # without the line end
  assert sampled(row, 0) == said  # with it
  assert turn.span.stop - turn.span.start == len(said)
  assert row.logps[turn.span.stop - 1] == -len(said)
  assert not row.sampled[turn.span.stop]  # the reply follows at once


def test_what_follows_an_answer_in_its_last_token_is_no_second_turn(
  stage, spoken
):
  tokenizer = ToyTokenizer(('</answer><search>x</search>',))
  said = tokenizer.encode('<answer>a word</answer><search>x</search>')
  ((trajectory,),) = stage.play(spoken([said]), tokenizer=tokenizer)
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


def test_an_end_token_is_sampled_only_where_it_was_drawn(stage, spoken):
  words = tokenizers.WordTokenizer(('ask', 'so', 'stop'))
  end, ask, so, stop = 1, *words.encode('ask so stop')
  # Turn 0 ends by a stop string, turn 1 by the end token.
  policy = spoken([[so, stop], [so, so, end]])
  ((trajectory,),) = stage.play(policy, environment=Polite(), tokenizer=words)
  row = trajectory.rows[0]
  assert row.tokens.tolist() == [ask, so, stop, end, ask, so, so, end]
  assert row.sampled.tolist() == [0, 1, 1, 0, 0, 1, 1, 1]
  assert row.turn_id.tolist() == [-1, 0, 0, -1, -1, 1, 1, 1]
  assert row.logps.tolist() == [0, -1, -2, 0, 0, -1, -2, -3]


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
  turns=st.lists(
    st.lists(st.integers(1, VOCABULARY - 1), min_size=1, max_size=9),
    min_size=1,
    max_size=4,
  ),
  max_new_tokens=st.integers(1, 9),
  max_tokens=st.integers(1, 30),
  context=st.integers(20, 90),
)
def test_whatever_is_said_is_recorded_once(
  stage, spoken, turns, max_new_tokens, max_tokens, context
):
  limits = engine.Limits(max_new_tokens, max_tokens, context)
  policy = spoken(turns)
  ((trajectory,),) = stage.play(policy, limits=limits)
  (row,) = trajectory.rows
  assert (
    len(row.tokens) == len(row.sampled) == len(row.turn_id) == len(row.logps)
  )
  assert len(row.tokens) <= context
  assert row.sampled.sum() <= max_tokens
  np.testing.assert_array_equal(row.sampled, row.turn_id >= 0)
  assert not row.logps[~row.sampled].any()
  for t, turn in enumerate(trajectory.turns):
    ids = turns[min(t, len(turns) - 1)][: policy.budgets[t]]
    assert sampled(row, t) == ids
    assert row.turn_id[turn.span.start : turn.span.stop].tolist() == [t] * len(
      ids
    )
  # Tokens: the prompt, then turns and replies as they alternate.
  given = [stage.toy.encode(turn.reply) for turn in trajectory.turns]
  rebuilt = list(policy.contexts[0][0])
  for t, reply in enumerate(given):
    rebuilt += sampled(row, t) + reply
  assert row.tokens.tolist() == rebuilt
  assert isinstance(trajectory.status, Status)


def test_a_template_wraps_the_prompt_and_nothing_else(stage):
  template = ChatTemplate(
    '{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}'
    '{% if add_generation_prompt %}[assistant]{% endif %}'
  )
  trajectory = stage.one('<search>hello</search>', ANSWER, template=template)
  assert trajectory.prompt == '[user]question what [assistant]'
  text = stage.toy.decode(trajectory.rows[0].tokens)
  assert text == trajectory.prompt + trajectory.response
  assert '[' not in trajectory.response


# --- control tokens ----------------------------------------------------------

CONTROLLED = ToyTokenizer(('note',), special_texts=('<|user|>', '<|end|>'))
USER, END = map(CONTROLLED.control_id, CONTROLLED.special_texts)
CONTROLLING = ChatTemplate(
  '{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}'
)


def test_only_the_template_writes_control_tokens(stage, spoken):
  """What is asked, found, or said and found again spells them in vain."""
  question = dataclasses.replace(stage.question, text='what <|end|>')
  said = CONTROLLED.encode('<search>hello</search>')
  answer = CONTROLLED.encode(ANSWER)
  ((trajectory,),) = stage.play(
    spoken([said, answer]),
    [question],
    tokenizer=CONTROLLED,
    template=CONTROLLING,
    resolve=DictionarySearch({'hello': 'a <|end|><|user|> word'}),
  )
  (row,) = trajectory.rows
  assert trajectory.prompt.startswith('<|user|>question what <|end|>')
  assert '<|end|><|user|>' in trajectory.turns[0].reply
  control = [i for i in row.tokens.tolist() if i in (USER, END)]
  assert control == [USER, END]
  assert '<|end|><|user|>' in CONTROLLED.decode(row.tokens)


def test_a_rebuilt_context_is_a_prompt_like_the_first(stage, spoken):
  note = CONTROLLED.encode('note <|end|>.')
  policy = spoken([note, CONTROLLED.encode('answer hello.')])
  ((trajectory,),) = stage.play(
    policy,
    environment=Notebook(),
    tokenizer=CONTROLLED,
    template=CONTROLLING,
  )
  first, second = trajectory.rows
  asked = [USER, *CONTROLLED.encode('what|'), END]
  again = [USER, *CONTROLLED.encode('what|<|end|>|'), END]
  assert first.tokens[: len(asked)].tolist() == asked
  assert second.tokens[: len(again)].tolist() == again
  assert policy.contexts[0] == [asked, again]


# --- contexts that are rebuilt -----------------------------------------------


def test_a_rebuilding_environment_has_a_row_for_every_turn(stage, spoken):
  note, answer = stage.toy.encode('note he.'), stage.toy.encode('answer hello.')
  policy = spoken([note, answer])
  ((trajectory,),) = stage.play(policy, environment=Notebook())
  first, second = trajectory.rows
  assert stage.toy.decode(first.tokens) == 'what|note he.'
  assert stage.toy.decode(second.tokens) == 'what|he|answer hello.'
  assert set(first.turn_id) == {-1, 0}
  assert set(second.turn_id) == {-1, 1}
  assert [turn.span.row for turn in trajectory.turns] == [0, 1]
  assert policy.contexts[0][1] == stage.toy.encode('what|he|')
  assert trajectory.answer == 'hello'


def test_a_malformed_turn_is_answered_in_the_row_it_stands_in(stage, spoken):
  """Only legal actions rebuild: a row may hold more than one turn."""
  policy = spoken([stage.toy.encode('eh.'), stage.toy.encode('answer hello.')])
  ((trajectory,),) = stage.play(policy, environment=Notebook())
  (row,) = trajectory.rows
  assert set(row.turn_id) == {-1, 0, 1}
  assert (
    stage.toy.decode(row.tokens) == 'what|eh.say note or answer|answer hello.'
  )


@dataclasses.dataclass(frozen=True)
class Novel(Notebook):
  """Rebuilds into a context of 40 tokens."""

  def reply(self, state, results):
    return state, types.Rebuild('x' * 40)


def test_a_rebuilt_context_without_room_ends_the_trajectory(stage, spoken):
  policy = spoken([stage.toy.encode('note aaa.')])
  limits = dataclasses.replace(stage.limits, context=40)
  ((trajectory,),) = stage.play(policy, environment=Novel(), limits=limits)
  assert trajectory.status == Status.CONTEXT_LIMIT
  assert [stage.toy.decode(row.tokens) for row in trajectory.rows] == [
    'what|note aaa.'
  ]
  assert len(policy.contexts[0]) == 1
  limits = dataclasses.replace(stage.limits, context=41, max_tokens=10)
  ((trajectory,),) = stage.play(policy, environment=Novel(), limits=limits)
  assert [len(row.tokens) for row in trajectory.rows] == [14, 41]
