# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A one-turn environment for drills: a text is given, another is recited.

world  <information> Ada is employed at Acme </information>
agent  <answer> employer Acme </answer>
"""

import dataclasses
from collections.abc import Sequence

from searchrl_jax import types

TAGS = _OPEN, _CLOSE = '<answer>', '</answer>'


@dataclasses.dataclass(frozen=True)
class Recite:
  """Everything the agent writes is its answer; then it is over.

  Attributes:
    separator: follows the question's text in the prompt.
  """

  separator: str = ' '
  stops: tuple[str, ...] = (_CLOSE,)

  def start(self, question: types.Question) -> tuple[types.Question, str]:
    """The question is the state, its text the prompt."""
    return question, question.text + self.separator

  def act(
    self, state: types.Question, text: str
  ) -> tuple[types.Question, types.Action, tuple[types.Request, ...]]:
    """The whole text is the answer; its tags may be missing."""
    answer = text.partition(_CLOSE)[0].strip()
    answer = answer.removeprefix(_OPEN).strip()
    return state, types.Action(types.Kind.ANSWER, {'answer': answer}), ()

  def reply(
    self, state: types.Question, results: Sequence[types.Result]
  ) -> tuple[types.Question, types.Stop]:
    """Nothing follows the answer."""
    return state, types.Stop(types.Status.ANSWERED)

  def render(self, action: types.Action) -> str:
    """The text of an answer.

    Raises:
      ValueError: where no text would be read as this action.
    """
    text = ''
    if action.kind == types.Kind.ANSWER:
      text = f'{_OPEN} {action.arguments["answer"]} {_CLOSE}'
    if self.act(None, text)[1] != action:
      raise ValueError(f'nothing recited is read as this action: {action}')
    return text
