# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The same searches in the Search-R1 conversation, to compare what is read.

FactAgent's prompt holds a question, a store and one result; Search-R1's whole
conversation so far. A finished trajectory is played again by a script that
asks the same queries and gives the same answer, its facts in the thoughts:

  FactAgent   search  assert  search  assert  answer
  Search-R1   search          search          answer
  compared      0       1       1       2       2     searches before
"""

import dataclasses
import statistics
import sys
from collections.abc import Sequence

import ml_collections

from experiments import parts
from experiments import policy as policies
from experiments.data import Data
from experiments.grammars.factagent import FACTAGENT
from experiments.grammars.search_r1 import SEARCH_R1, make_environment
from searchrl_jax.environments.wording import TAGS
from searchrl_jax.rollout.engine import Limits, rollout
from searchrl_jax.rollout.policy import ScriptPolicy
from searchrl_jax.types import Action, Groups, Kind, Question, Trajectory, Turn

# No conversation is cut: what would have been read is what is asked for.
_UNLIMITED = Limits(sys.maxsize, sys.maxsize, sys.maxsize)


def search_r1_prompts(config, data: Data):
  """What a Search-R1 agent would have read after as many searches.

  Returns:
    Groups of FactAgent -> `yardstick`, the name of the other conversation,
    and `yardstick_prompt_tokens_by_round`: for each round of FactAgent, over
    the same trajectories, the mean length of the other conversation.
  """
  named = policies.read_name(config)
  # What was said in one conversation is said again in the other.
  both = dataclasses.replace(SEARCH_R1, words=_words)
  tokenizer = parts.make_tokenizer(config, named, both)
  template = parts.make_template(config, named, tokenizer)
  environment = make_environment(_own_prompt(config), tokenizer)

  def replay(one: Trajectory) -> Trajectory:
    script = _Script(_as_search_r1(one))
    ((played,),) = rollout(
      ScriptPolicy(script, environment, tokenizer),
      environment,
      [one.question],
      data.resolve,
      tokenizer,
      group=1,
      limits=_UNLIMITED,
      template=template,
    )
    return played

  def measure(groups: Groups) -> dict:
    rows = [
      _prompts_meanwhile(one, replay(one)) for group in groups for one in group
    ]
    rounds = range(max(map(len, rows), default=0))
    return {
      'yardstick': SEARCH_R1.name,
      'yardstick_prompt_tokens_by_round': [
        statistics.fmean(row[t] for row in rows if len(row) > t) for t in rounds
      ],
    }

  return measure


def _prompts_meanwhile(trajectory: Trajectory, replayed: Trajectory):
  """For every turn, the other conversation's length after as many searches."""
  lengths = [turn.span.start for turn in replayed.turns]
  prompts, searches = [], 0
  for turn in trajectory.turns:
    prompts.append(lengths[searches])
    searches += _query(turn) is not None
  return prompts


def _words(config) -> tuple[str, ...]:
  return (*SEARCH_R1.words(_own_prompt(config)), *FACTAGENT.words(config))


def _own_prompt(config) -> ml_collections.ConfigDict:
  """A user's template is FactAgent's, with places that Search-R1 has not."""
  config = config.copy_and_resolve_references()
  config.environment.template = ''
  return config


@dataclasses.dataclass(frozen=True)
class _Script:
  """Plays given actions, one a turn."""

  actions: Sequence[Action]

  def __call__(self, question: Question, turns: Sequence[Turn]) -> Action:
    del question
    return self.actions[len(turns)]


def _as_search_r1(trajectory: Trajectory) -> list[Action]:
  """Its searches and its answer; what it asserted becomes a thought."""
  actions, told = [], []
  for turn in trajectory.turns:
    kind, arguments = turn.action.kind, turn.action.arguments
    if kind == Kind.ASSERT:
      told += [_plain(' '.join(triple)) for triple in arguments['triples']]
      continue
    thought = {'thought': ' '.join(told)} if told else {}
    if kind == Kind.ANSWER:
      answer = _plain(arguments['answer'])
      actions.append(Action(kind, thought | {'answer': answer}))
    elif (query := _query(turn)) is not None:
      actions.append(Action(kind, thought | {'query': query}))
      told = []
  # A script must end by itself: a conversation without an answer gets one.
  if not actions or actions[-1].kind != Kind.ANSWER:
    actions.append(Action(Kind.ANSWER, {'answer': ''}))
  return actions


def _query(turn: Turn) -> str | None:
  """What a turn searches for; None where it searches for nothing."""
  if turn.action.kind != Kind.SEARCH:
    return None
  return _plain(turn.action.arguments['query']) or None


def _plain(text: str) -> str:
  """Without the tags of Search-R1, which would be read as such."""
  for tag in TAGS:
    text = text.replace(tag, ' ')
  return ' '.join(text.split())
