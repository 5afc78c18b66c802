# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A drill is one turn: a text in, its recital out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax import types
from searchrl_jax.environments import recite

DRILL = types.Question('d', 'Ada is employed at Acme', ('employer Acme',))


def test_one_turn_and_it_is_over():
  environment = recite.Recite(separator=' recite ')
  state, prompt = environment.start(DRILL)
  assert prompt == 'Ada is employed at Acme recite '
  state, action, requests = environment.act(
    state, '<answer> employer Acme </answer>'
  )
  assert action == types.Action(types.Kind.ANSWER, {'answer': 'employer Acme'})
  assert requests == ()
  assert environment.reply(state, ())[1] == types.Stop(types.Status.ANSWERED)


@pytest.mark.parametrize(
  ('text', 'answer'),
  [
    ('employer Acme </answer>', 'employer Acme'),
    ('<answer> employer', 'employer'),
    ('employer', 'employer'),
    ('', ''),
  ],
)
def test_missing_tags_are_no_fault(text, answer):
  _, action, _ = recite.Recite().act(DRILL, text)
  assert action.arguments['answer'] == answer


@given(st.text().map(str.strip).filter(lambda x: '</answer>' not in x))
def test_render_is_the_inverse_of_act(answer):
  environment = recite.Recite()
  action = types.Action(types.Kind.ANSWER, {'answer': answer})
  assert environment.act(DRILL, environment.render(action))[1] == action


@pytest.mark.parametrize(
  'action',
  [
    types.Action(types.Kind.SEARCH, {'query': 'Ada'}),
    types.Action(types.Kind.ANSWER, {'answer': 'a </answer> b'}),
  ],
)
def test_what_cannot_be_recited_is_an_error(action):
  with pytest.raises(ValueError, match='nothing recited'):
    recite.Recite().render(action)
