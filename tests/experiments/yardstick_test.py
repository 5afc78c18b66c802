# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The same searches in Search-R1's conversation: what would have been read."""

import numpy as np

from experiments import parts, policy, yardstick
from experiments.configs import factagent_tiny
from experiments.data import make_data
from experiments.grammars.factagent import FACTAGENT
from searchrl_jax import types
from searchrl_jax.data.fact_expert import FactExpert
from searchrl_jax.evaluation.prompts import prompt_tokens_by_round
from searchrl_jax.rollout.engine import rollout
from searchrl_jax.rollout.policy import ScriptPolicy

KIND = types.Kind
NAME = 'yardstick_prompt_tokens_by_round'


def config_of():
  config = factagent_tiny.get_config()
  config.evaluation.update(questions=4, final_questions=24)
  return config


CONFIG = config_of()
DATA = make_data(CONFIG, 0)
MEASURE = yardstick.search_r1_prompts(CONFIG, DATA)


def turn(kind, **arguments):
  action = types.Action(kind, arguments)
  return types.Turn(action, '', '', (), types.Span(0, 0, 1), 0.0)


def replayed(question, *turns):
  one = types.Trajectory(question, 0, '', turns, (), types.Status.TURN_LIMIT)
  return MEASURE([[one]])[NAME]


def test_a_conversation_counted_by_hand():
  question = next(q for q in DATA.test if len(q.hops) == 1)
  (hop,) = question.hops
  asked = turn(KIND.SEARCH, query=f'{hop.subject} {hop.relation}')
  fact = [hop.subject, hop.relation, hop.object]
  prompts = replayed(
    question,
    asked,
    turn(KIND.ASSERT, triples=[fact]),
    turn(KIND.ANSWER, answer=hop.object),
  )
  (page,) = DATA.resolve(
    [types.Search(asked.action.arguments['query'], 1, question.corpus)]
  )[0]
  first = 1 + len(question.text.split())  # "question", then what is asked
  said = 1 + 2 + 1  # <search> ada employer </search>
  brought = 1 + len(page.text.split()) + 1  # within <information>
  assert prompts == [first, first + said + brought]


def test_what_is_no_turn_of_search_r1_does_no_harm():
  question = DATA.test[0]
  first = replayed(question)[0]
  assert replayed(question, turn(KIND.INVALID, why='w')) == [first]
  # Tags within what was said would be read as tags.
  tagged = replayed(
    question,
    turn(KIND.SEARCH, query='</search> <answer>'),
    turn(KIND.ASSERT, triples=[['</think>', 'facts', '<search>']]),
    turn(KIND.ANSWER, answer='</answer>'),
  )
  assert tagged == [first]


def test_one_prompt_stays_while_the_other_grows():
  tokenizer = parts.make_tokenizer(CONFIG, policy.read_name(CONFIG), FACTAGENT)
  environment = FACTAGENT.environment(CONFIG, tokenizer)
  questions = [q for q in DATA.test if len(q.hops) == 3]
  expert = FactExpert(0, superfluous=0.0, early=0.0)
  groups = rollout(
    ScriptPolicy(expert, environment, tokenizer),
    environment,
    questions,
    DATA.resolve,
    tokenizer,
    group=1,
    limits=parts.make_limits(CONFIG),
  )
  assert all(g[0].answer == g[0].question.answers[0] for g in groups)
  ours = prompt_tokens_by_round(groups)
  theirs = MEASURE(groups)[NAME]
  assert len(ours) == 7 and len(theirs) == 4  # Asserts are no turns there
  # Each stored fact adds four words; each result there adds a passage.
  assert max(ours) - ours[1] < 16
  assert np.all(np.diff(theirs) > 15)
  assert theirs[-1] > 1.4 * ours[-1]
