# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Grammars: experts can say and read everything in the words they are given."""

import functools

import pytest

from experiments import parts, policy
from experiments.configs import base, factagent_tiny, tiny
from experiments.data import make_data
from experiments.grammars.factagent import FACTAGENT
from experiments.grammars.search_r1 import SEARCH_R1
from searchrl_jax.rollout.engine import rollout
from searchrl_jax.rollout.policy import ScriptPolicy
from searchrl_jax.types import Kind

CONFIGS = {SEARCH_R1.name: tiny, FACTAGENT.name: factagent_tiny}
GRAMMARS = pytest.mark.parametrize(
  'grammar', [SEARCH_R1, FACTAGENT], ids=lambda grammar: grammar.name
)


def config_of(grammar, **changes):
  config = CONFIGS[grammar.name].get_config()
  config.evaluation.update(questions=2, final_questions=2)
  with config.unlocked():
    config.update_from_flattened_dict(changes)
  return config


@functools.cache
def data_of(grammar):
  return make_data(config_of(grammar), 0)


def made(grammar, config):
  """The tokenizer and the environment of a config."""
  tokenizer = parts.make_tokenizer(config, policy.read_name(config), grammar)
  return tokenizer, grammar.environment(config, tokenizer)


def lessons(grammar, config):
  """The tokenizer, the drills and the demonstrations of a config."""
  tokenizer, environment = made(grammar, config)
  given = config, environment, data_of(grammar), 5
  return tokenizer, grammar.drills(*given), grammar.demonstrations(*given)


def play(lesson, tokenizer, config, count=16):
  """Every token is encoded; a word that is missing would raise."""
  groups = rollout(
    ScriptPolicy(lesson.policy, lesson.environment, tokenizer),
    lesson.environment,
    lesson.questions(3, count),
    lesson.resolve,
    tokenizer,
    group=1,
    limits=parts.make_limits(config),
  )
  return [one for (one,) in groups]


# --- words -------------------------------------------------------------------


@GRAMMARS
@pytest.mark.parametrize('superfluous, early', [(0.0, 0.0), (0.5, 0.2)])
def test_all_lessons_can_be_said_and_read(grammar, superfluous, early):
  noise = {'warm_start.superfluous': superfluous, 'warm_start.early': early}
  config = config_of(grammar, **noise)
  tokenizer, drills, demonstrations = lessons(grammar, config)
  names = [lesson.name for lesson in (*drills, *demonstrations)]
  assert names == ['reading', 'planning', 'expert']
  for lesson in (*drills, *demonstrations):
    played = play(lesson, tokenizer, config)
    assert len(played) == 16
    for one in played:
      # Within the budgets of its own config, every turn understood.
      assert one.answer is not None, lesson.name
      assert all(turn.action.kind != Kind.INVALID for turn in one.turns)
      # What tokens say is what was said: nothing is lost on the way.
      read = ' '.join(tokenizer.decode(row.tokens) for row in one.rows)
      assert set(one.prompt.split()) <= set(read.split())
      for turn in one.turns:
        assert ' '.join(turn.text.split()) in ' '.join(read.split())


@GRAMMARS
def test_demonstrations_keep_to_the_form(grammar):
  config = config_of(grammar)
  tokenizer, _, (expert,) = lessons(grammar, config)
  assert all(grammar.formed(one) for one in play(expert, tokenizer, config))


@GRAMMARS
def test_words_are_single_and_outlive_their_tokens(grammar):
  config = config_of(grammar)
  assert all(word == ''.join(word.split()) for word in grammar.words(config))
  tokenizer, _ = made(grammar, config)
  text = ' '.join(tokenizer.words)
  assert tokenizer.decode(tokenizer.encode(text)).strip() == text


def test_complaints_can_be_read():
  # No expert is ever malformed; a policy that learns is.
  for grammar in (SEARCH_R1, FACTAGENT):
    tokenizer, environment = made(grammar, config_of(grammar))
    state, _ = environment.start(data_of(grammar).test[0])
    state, action, _ = environment.act(state, 'nothing')
    assert action.kind == Kind.INVALID
    _, event = environment.reply(state, ())
    said = event.prompt if grammar is FACTAGENT else event.text
    assert 'invalid' in said
    assert tokenizer.decode(tokenizer.encode(said)).split() == said.split()


def test_a_full_store_is_numbered():
  # An expert stores three facts; a policy may store max_facts, each numbered.
  config = config_of(FACTAGENT, **{'environment.max_facts': 11})
  tokenizer, environment = made(FACTAGENT, config)
  words = tokenizer.words[-11:]
  (state, _) = environment.start(data_of(FACTAGENT).test[0])
  facts = ', '.join(f'["{w}", "{w}", "{w}"]' for w in words)
  state, _, _ = environment.act(state, f'{{"assert": [{facts}]}}')
  _, event = environment.reply(state, ())
  assert f' 11 {words[-1]} ' in event.prompt
  assert tokenizer.encode(event.prompt)


# --- lessons -----------------------------------------------------------------


@GRAMMARS
def test_every_step_and_seed_asks_something_else(grammar):
  config = config_of(grammar)
  _, environment = made(grammar, config)
  data = data_of(grammar)
  texts = [
    tuple(question.text for question in lesson.questions(step, 4))
    for seed, step in ((0, 0), (0, 1), (1, 0))
    for lesson in grammar.demonstrations(config, environment, data, seed)
  ]
  assert len(set(texts)) == 3
  trained = {question.text for question in data.test}
  assert not trained & {text for row in texts for text in row}


def test_titles_teach_no_facts():
  config = config_of(FACTAGENT, **{'warm_start.lessons': 'titles'})
  with pytest.raises(ValueError, match='asserts no facts') as caught:
    FACTAGENT.demonstrations(config, None, None, 0)
  assert '\n' not in str(caught.value)
  # Where there are no facts to assert they are a lesson.
  config = config_of(SEARCH_R1, **{'warm_start.lessons': 'titles'})
  _, environment = made(SEARCH_R1, config)
  (lesson,) = SEARCH_R1.demonstrations(
    config, environment, data_of(SEARCH_R1), 0
  )
  assert lesson.name == 'titles'


@GRAMMARS
@pytest.mark.parametrize('key', ['warm_start.lessons', 'environment.wording'])
def test_unknown_choices_are_one_line(grammar, key):
  config = config_of(grammar, **{key: 'other'})
  with pytest.raises(ValueError, match=f"{key} is 'other'") as caught:
    lessons(grammar, config)
  assert '\n' not in str(caught.value)


# --- a template of the user's own --------------------------------------------


def test_the_users_template_is_what_the_agent_reads(tmp_path):
  file = tmp_path / 'template.txt'
  file.write_text('please find {question} known {facts} read {result} go ')
  config = config_of(FACTAGENT, **{'environment.template': str(file)})
  tokenizer, drills, (expert,) = lessons(FACTAGENT, config)
  assert {'please', 'known', 'go'} <= set(FACTAGENT.words(config))
  for one in play(expert, tokenizer, config):
    text = one.question.text
    # "unsearched" is what the wording shows before the first search.
    assert one.prompt.split() == (
      f'please find {text} known read unsearched go'.split()
    )
  # And so are the drills that plan.
  (planned,) = play(drills[1], tokenizer, config, count=1)
  assert planned.prompt.startswith('please find ')


@pytest.mark.parametrize('place', ['question', 'facts', 'result'])
def test_a_template_must_say_where_everything_goes(tmp_path, place):
  whole = 'please {question} {facts} {result}'
  file = tmp_path / 'template.txt'
  file.write_text(whole.replace(f'{{{place}}}', ''))
  config = config_of(FACTAGENT, **{'environment.template': str(file)})
  with pytest.raises(ValueError, match=f'where {{{place}}} goes') as caught:
    made(FACTAGENT, config)
  assert '\n' not in str(caught.value)


def test_lessons_that_the_expert_could_not_play_are_refused():
  config = base.get_config()  # its four turns are Search-R1's
  for lessons in (FACTAGENT.drills, FACTAGENT.demonstrations):
    with pytest.raises(ValueError, match=r'environment\.max_turns=7'):
      lessons(config, None, None, 0)
