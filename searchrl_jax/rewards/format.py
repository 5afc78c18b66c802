# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a trajectory keeps to the form, and what other rules make of it.

Ours reads the record: turns were parsed when they happened. The compatibility
functions read text, as the published rules do, for comparisons with them.
"""

import re
from collections.abc import Callable

from searchrl_jax import types
from searchrl_jax.rewards import answers

# Whether a trajectory keeps to the form of its environment.
Formed = Callable[[types.Trajectory], bool]

_LEGAL = (types.Kind.SEARCH, types.Kind.ANSWER)
_NO_ACTION = (types.Kind.NONE, types.Kind.INVALID)

_ANSWER = re.compile(r'<answer>(.*?)</answer>', re.DOTALL)
_INFORMATION = re.compile(r'<information>(.*?)</information>', re.DOTALL)
_TAG = r'</?(?:think|search|information|answer)>'


def _element(name: str) -> str:
  # An element whose body holds no tag of the format, then white space: so the
  # numbers of opening and closing tags agree wherever the whole matches.
  return rf'<{name}>(?:(?!{_TAG}).)*</{name}>\s*'


_WELL_FORMED = re.compile(
  r'\s*'
  + _element('think')
  + f'(?:{_element("search")}{_element("information")}{_element("think")})*'
  + _element('answer'),
  re.DOTALL,
)

# Above so many answer tags, verl's rule takes an answer for a shotgun.
_VERL_MOST_TAGS = 10


def well_formed(trajectory: types.Trajectory) -> bool:
  """Whether every turn is a legal action with a thought, the last an answer.

  A thought of white space is none.
  """
  actions = [turn.action for turn in trajectory.turns]
  return trajectory.answer is not None and all(
    action.kind in _LEGAL and bool(action.arguments.get('thought'))
    for action in actions
  )


def legal(trajectory: types.Trajectory) -> bool:
  """Whether every turn is a legal action of any kind, the last an answer.

  The form of an environment that asks for no thoughts, such as FactAgent's.
  """
  return trajectory.answer is not None and all(
    turn.action.kind not in _NO_ACTION for turn in trajectory.turns
  )


def search_r1_em(*, prompt: str, response: str, gold: answers.Gold) -> float:
  """Exact match by the rule of Search-R1 (arXiv:2503.09516).

  The last answer element of prompt and response together counts, and there
  must be at least two: the prompt's example is one.
  """
  said = _search_r1_answer(prompt, response)
  return float(answers.exact_match(prediction=said, gold=gold))


def verl_em(*, response: str, gold: answers.Gold) -> float:
  """Exact match by the rule of verl.

  The last answer element of the response counts; above 10 opening or closing
  answer tags a right answer is worth a quarter.
  """
  found = _ANSWER.findall(response)
  if not found or not answers.exact_match(prediction=found[-1], gold=gold):
    return 0.0
  tags = max(response.count('<answer>'), response.count('</answer>'))
  return 0.25 if tags > _VERL_MOST_TAGS else 1.0


def search_r1_format_score(
  *,
  prompt: str,
  response: str,
  gold: answers.Gold,
  structure: float = 0.2,
  final: float = 0.1,
  retrieval: float = 0.0,
) -> float:
  """The score of Search-R1 v0.3 (arXiv:2505.15117), which rewards form too.

                 right            wrong                    no answer
  well-formed    1                structure (+ retrieval)  the same
  ill-formed     1 - structure    final                    0

  Args:
    prompt: holds one answer element, its example: see `search_r1_em`.
    response: what followed, replies of the world included.
    gold: gold answers.
    structure: weight of a well-formed response: think, then any number of
      (search, information, think), then answer, with nothing but white space
      between them.
    final: what an ill-formed response earns by a wrong answer.
    retrieval: added where a gold answer stands in a retrieved block, be it
      within a word, as in the published rule.
  """
  formed = _WELL_FORMED.fullmatch(response) is not None
  said = _search_r1_answer(prompt, response)
  if said is not None and answers.exact_match(prediction=said, gold=gold):
    return 1.0 if formed else 1.0 - structure
  if formed:
    return structure + retrieval * _retrieved(response, gold)
  return 0.0 if said is None else final


def _search_r1_answer(prompt: str, response: str) -> str | None:
  found = _ANSWER.findall(prompt + response)
  return found[-1].strip() if len(found) >= 2 else None


def _retrieved(response: str, gold: answers.Gold) -> bool:
  blocks = [answers.normalise(b) for b in _INFORMATION.findall(response)]
  wanted = filter(None, map(answers.normalise, answers.golds(gold)))
  return any(one in block for one in wanted for block in blocks)
