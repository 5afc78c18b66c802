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


END = turn(KIND.ANSWER, answer='')


def replayed(question, *turns, measure=MEASURE):
  one = types.Trajectory(question, 0, '', turns, (), types.Status.TURN_LIMIT)
  return measure([[one]])[NAME]


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
  # The Assert and the answer are compared with what one search has left.
  assert prompts == [first, *[first + said + brought] * 2]


def test_facts_are_thought_before_the_turn_that_follows_them():
  question = next(q for q in DATA.test if len(q.hops) == 2)
  first, second = question.hops
  triples = [[hop.subject, hop.relation, hop.object] for hop in question.hops]
  queries = [f'{hop.subject} {hop.relation}' for hop in question.hops]
  turns = [turn(KIND.SEARCH, query=query) for query in queries]
  told = turn(KIND.ASSERT, triples=triples)
  plain = replayed(question, *turns, END)
  # <think> and </think> around two facts of three words each.
  thought = 2 + sum(len(' '.join(triple).split()) for triple in triples)
  between = replayed(question, turns[0], told, turns[1], END)
  assert between == [*plain[:2], plain[1], plain[2] + thought]
  # The last turn is read by nobody, thoughts and all.
  after = replayed(
    question, *turns, told, turn(KIND.ANSWER, answer=second.object)
  )
  assert after == [*plain, plain[2]]
  assert first.object == second.subject


def test_eight_rounds_are_played_to_their_end():
  # All eight searches bring something there, too.
  question = DATA.test[0]
  asked = turn(KIND.SEARCH, query=question.hops[0].subject)
  prompts = replayed(question, *[asked] * 8)
  assert len(prompts) == 8
  (step,) = set(np.diff(prompts).tolist())  # the same search, the same page
  assert step > 5


def test_means_are_over_the_trajectories_that_have_the_round():
  question = DATA.test[0]
  short = turn(KIND.ANSWER, answer=question.answers[0])
  asked = turn(KIND.SEARCH, query=question.hops[0].subject)
  alone = replayed(question, asked, short)

  def trajectory(*turns):
    return types.Trajectory(question, 0, '', turns, (), types.Status.ANSWERED)

  both = MEASURE([[trajectory(asked, short), trajectory(short)]])
  assert both == {'yardstick': 'search_r1', NAME: alone}


def test_the_users_template_is_that_of_factagent_alone(tmp_path):
  file = tmp_path / 'template.txt'
  file.write_text('please find {question} known {facts} read {result} act ')
  config = config_of()
  config.environment.template = str(file)
  measure = yardstick.search_r1_prompts(config, DATA)
  question = DATA.test[0]
  # What was said there, in words of the user's own, can be said here.
  asked = turn(KIND.SEARCH, query='please find')
  plain = turn(KIND.SEARCH, query='question question')
  shown = replayed(question, asked, END, measure=measure)
  assert shown == replayed(question, plain, END) and shown[0] < shown[1]
  assert config.environment.template == str(file)


def test_what_is_no_turn_of_search_r1_does_no_harm():
  question = DATA.test[0]
  assert replayed(question) == []
  (first,) = replayed(question, END)
  assert replayed(question, turn(KIND.INVALID, why='w')) == [first]
  # Tags within what was said would be read as tags.
  tagged = replayed(
    question,
    turn(KIND.SEARCH, query='</search> <answer>'),
    turn(KIND.ASSERT, triples=[['</think>', 'facts', '<search>']]),
    turn(KIND.ANSWER, answer='</answer>'),
  )
  assert tagged == [first] * 3
  # What is left between tags is searched.
  name = question.hops[0].subject
  bare = replayed(question, turn(KIND.SEARCH, query=name), END)
  wrapped = turn(KIND.SEARCH, query=f'<search>{name}</search>')
  assert replayed(question, wrapped, END) == bare


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
  assert len(ours) == len(theirs) == 7
  # Each stored fact adds four words; each result there adds a passage.
  assert max(ours) - ours[1] < 16
  assert theirs[1::2] == theirs[2::2]  # Asserts are no turns there
  assert np.all(np.diff(theirs[::2]) > 15)
  assert theirs[-1] > 1.4 * ours[-1]
