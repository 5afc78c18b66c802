# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What experiments on facts share: settings, scores, words for the log."""

import dataclasses
import inspect

import jax
import numpy as np
import pytest

from experiments import checks, experiment, parts, policy
from experiments.configs import base
from searchrl_jax import types
from searchrl_jax.credit import factagent, grpo
from searchrl_jax.rewards.facts import asserted, stated

KIND = types.Kind
ADA, BOB, OSLO = (
  ('ada', 'employer', 'acme'),
  ('acme', 'founder', 'bob'),
  ('ada', 'birthplace', 'oslo'),
)
HOPS = (types.Hop(*ADA, 'd0'), types.Hop(*BOB, 'd1'))
PAGE = types.Document('d0', 'ada', 'ada is employed at acme')


def turn(kind, evidence=(), **arguments):
  action = types.Action(kind, arguments)
  return types.Turn(action, '', '', evidence, types.Span(0, 0, 1), 0.0)


SEARCH = turn(
  KIND.SEARCH, (types.Evidence('external', '', (PAGE,)),), query='ada employer'
)


def told(*triples):
  return turn(KIND.ASSERT, triples=[list(one) for one in triples])


def trajectory(g, *turns, answer=None, hops=HOPS):
  question = types.Question(
    'q', 'who founded the employer of ada ?', ('bob',), hops=hops
  )
  ending = () if answer is None else (turn(KIND.ANSWER, answer=answer),)
  turns = (*turns, *ending)
  return types.Trajectory(question, g, '', turns, (), types.Status.TURN_LIMIT)


# Two succeed, two fail; the last is silent.
GROUP = [
  trajectory(0, SEARCH, told(ADA), told(BOB), answer='bob'),
  trajectory(1, SEARCH, told(ADA, ADA), answer='bob'),
  trajectory(2, SEARCH, told(OSLO), answer='oslo'),
  trajectory(3, SEARCH),
]


def config_of(**changes):
  config = base.get_config()
  with config.unlocked():
    config.reward.outcome = 'f1'
    config.update_from_flattened_dict(changes)
  return config


def recipe_of(name, config):
  found = experiment.find(name)
  tokenizer = parts.make_tokenizer(
    config, policy.read_name(config), found.grammar
  )
  environment = found.grammar.environment(config, tokenizer)
  return found.recipe(config, environment)


@pytest.fixture(scope='module')
def recipe():
  return recipe_of('factagent', config_of())


# --- words for the log -------------------------------------------------------


def test_notes_stand_at_the_turns_that_told_the_facts(recipe):
  notes = recipe.explain([GROUP], recipe.score([GROUP])).notes[0]
  assert [len(row) for row in notes] == [4, 3, 3, 1]
  words = [[[f['fact'] for f in t['facts']] for t in row] for row in notes]
  assert words == [
    [[], [list(ADA)], [list(BOB)], []],
    [[], [list(ADA)], []],  # told twice, noted once
    [[], [list(OSLO)], []],
    [[]],
  ]
  first, again = notes[0][1]['facts'][0], notes[1][1]['facts'][0]
  # Told in both successes: (2 + .5) / 3 - .5. The failure: .5 / 2 - .5.
  assert first['cluster'] == again['cluster'] == 0
  assert first['utility'] == pytest.approx(1 / 3)
  assert notes[2][1]['facts'][0]['utility'] == pytest.approx(-0.25)
  assert first['new'] and again['new']
  # tanh(1/3) = .3215, a fifth of it for the Search.
  assert notes[1][0]['shaping'] == pytest.approx(0.0643, abs=1e-4)
  assert notes[1][1]['shaping'] == pytest.approx(0.2572, abs=1e-4)
  assert notes[1][1]['process'] == notes[1][1]['shaping']


def test_metrics_by_hand(recipe):
  metrics = recipe.explain([GROUP], recipe.score([GROUP])).metrics
  assert metrics == {
    'facts': 1.0,  # 2, 1, 1 and 0 of four
    'clusters': 3.0,
    'fact_recall': pytest.approx((1 + 0.5 + 0 + 0) / 4),
    'shaping_nonzero_fraction': 1.0,
  }


def test_metrics_of_nothing_are_none(recipe):
  silent = [[trajectory(g, SEARCH, hops=()) for g in range(2)]]
  metrics = recipe.explain(silent, recipe.score(silent)).metrics
  assert metrics == {
    'facts': 0.0,
    'clusters': 0.0,
    'fact_recall': None,
    'shaping_nonzero_fraction': None,
  }


def test_a_cluster_as_frequent_among_failures_shapes_nothing(recipe):
  group = [
    trajectory(g, SEARCH, told(ADA), answer=answer)
    for g, answer in enumerate(('bob', 'no'))
  ]
  metrics = recipe.explain([group], recipe.score([group])).metrics
  assert metrics['shaping_nonzero_fraction'] == 0.0


def test_rollouts_without_an_outcome_tell_facts_and_weigh_nothing(recipe):
  # The first, a success, is void: one of two valid rollouts succeeds now.
  group = GROUP[:3]
  scores = recipe.score([group])
  valid = np.array([[False, True, True]])
  explanation = recipe.explain(
    [group], dataclasses.replace(scores, valid=valid)
  )
  row = explanation.notes[0]
  # Each told by one of two: (1 + .5) / 2 - .5. With the void one (2 + .5) / 3.
  assert row[1][1]['facts'][0]['utility'] == pytest.approx(0.25)
  assert row[2][1]['facts'][0]['utility'] == pytest.approx(-0.25)
  assert row[0][1]['facts'][0]['fact'] == list(ADA)  # seen in the traces
  assert explanation.metrics['facts'] == pytest.approx(4 / 3)
  assert explanation.metrics['shaping_nonzero_fraction'] == 1.0
  # With none left there is no share to tell; what was told is known still.
  void = dataclasses.replace(scores, valid=np.zeros_like(valid))
  metrics = recipe.explain([group], void).metrics
  assert metrics['shaping_nonzero_fraction'] is None
  assert metrics['fact_recall'] == pytest.approx((1 + 0.5 + 0) / 3)
  assert not np.asarray(recipe.credit(void)).any()


def test_recall_leaves_out_questions_without_a_chain(recipe):
  groups = [
    [trajectory(0, SEARCH, told(ADA), answer='bob')],
    [trajectory(0, SEARCH, told(ADA), answer='bob', hops=())],
  ]
  metrics = recipe.explain(groups, recipe.score(groups)).metrics
  assert metrics['fact_recall'] == 0.5  # one of two links, not a quarter
  assert metrics['clusters'] == 1.0  # of each question by itself


def test_facts_of_a_turn_keep_their_order(recipe):
  group = [trajectory(0, SEARCH, told(BOB, ADA), answer='bob')]
  ((_, note, _),) = recipe.explain([group], recipe.score([group])).notes[0]
  assert [one['fact'] for one in note['facts']] == [list(BOB), list(ADA)]
  assert [one['cluster'] for one in note['facts']] == [0, 1]


def test_other_words_for_a_known_fact_are_not_new(recipe):
  again = told(('ada', 'employer', 'acme ltda'))
  group = [
    trajectory(0, told(('ada', 'employer', 'acme ltd')), again, answer='bob'),
    trajectory(1, answer='no'),
  ]
  first, second, _ = recipe.explain([group], recipe.score([group])).notes[0][0]
  assert first['facts'][0]['new'] and first['shaping'] > 0
  assert second['facts'][0]['cluster'] == 0
  assert not second['facts'][0]['new'] and second['shaping'] == 0


def test_penalties_are_noted_where_they_fall(recipe):
  malformed = turn(KIND.INVALID, why='w')
  group = [trajectory(0, SEARCH, SEARCH, malformed, answer='bob')]
  (row,) = recipe.explain([group], recipe.score([group])).notes[0]
  taken = pytest.approx([0, -0.1, -0.1, -0.1])
  assert [note['penalty'] for note in row] == taken
  assert [note['process'] for note in row] == taken


def test_stated_facts_are_explained_where_the_thought_was():
  recipe = recipe_of('factagent_on_search', base.get_config())
  thinking = turn(KIND.ANSWER, answer='bob', thought='employer acme')
  group = [trajectory(g, SEARCH, thinking) for g in range(2)]
  notes = recipe.explain([group], recipe.score([group])).notes[0]
  assert notes[0][0]['facts'] == []
  assert notes[0][1]['facts'][0]['fact'] == list(ADA)


# --- settings ----------------------------------------------------------------


def test_signatures_and_config_agree():
  said = config_of().factagent.to_dict()
  said.pop('embedding_width')
  signature = inspect.signature(factagent.advantages).parameters
  defaults = {
    name: parameter.default
    for name, parameter in signature.items()
    if name not in ('scores', 'baseline')
  }
  assert said == defaults


def test_without_weight_the_outcome_alone_is_left():
  recipe = recipe_of('factagent', config_of(**{'factagent.omega': 0.0}))
  scores = recipe.score([GROUP])
  np.testing.assert_array_equal(
    recipe.credit(scores), grpo.turn_advantages(scores)
  )


def test_every_ablation_changes_the_credit():
  scores = recipe_of('factagent', config_of()).score([GROUP])
  usual = recipe_of('factagent', config_of()).credit(scores)
  for key, value in (
    ('factagent.to_search', 0.0),
    ('factagent.omega', 0.3),
    ('factagent.omega', 0.7),
    ('factagent.normalize', False),
  ):
    other = recipe_of('factagent', config_of(**{key: value})).credit(scores)
    assert np.abs(np.asarray(other - usual)).max() > 1e-3, key


@pytest.mark.parametrize(
  'key, value',
  [
    ('prior', 3.0),
    ('exact', True),
    ('threshold', 0.999),
    ('malformed_penalty', 0.4),
    ('repeated_penalty', 0.4),
    ('empty_penalty', 0.4),
  ],
)
def test_every_setting_of_the_process_reaches_the_credit(key, value):
  # Whatever the prior, a cluster of one success in two is worth 1/2: hence
  # OSLO, which one success alone tells.
  first, near = (('ada', 'employer', f'acme {x}') for x in ('ltd', 'ltda'))
  malformed = turn(KIND.INVALID, why='w')
  group = [
    trajectory(0, SEARCH, told(first, OSLO), answer='bob'),
    trajectory(1, SEARCH, SEARCH, told(near), malformed),
    trajectory(2, SEARCH, answer='bob'),
  ]

  def credit(**changes):
    recipe = recipe_of('factagent', config_of(**changes))
    return np.asarray(recipe.credit(recipe.score([group])))

  changed = credit(**{f'factagent.{key}': value})
  assert np.abs(changed - credit()).max() > 1e-3


def test_relations_are_compared_as_the_config_says():
  group = [
    trajectory(0, told(('ada lovelace', 'founded', 'acme incorporated'))),
    trajectory(1, told(('ada lovelace', 'founder', 'acme incorporated'))),
  ]

  def clusters(least):
    config = config_of(**{'factagent.relation_threshold': least})
    recipe = recipe_of('factagent', config)
    return recipe.explain([group], recipe.score([group])).metrics['clusters']

  assert clusters(0.1) == 1.0 and clusters(0.99) == 2.0


def test_outcomes_are_compared_as_the_config_says():
  changes = {'factagent.omega': 0.0, 'grpo.baseline': 'leave_one_out'}
  recipe = recipe_of('factagent', config_of(**changes))
  # Only F1 of exact answers here: 1 - 1/3 twice, then 0 - 2/3.
  np.testing.assert_allclose(
    recipe.credit(recipe.score([GROUP]))[0, :, 0],
    [2 / 3, 2 / 3, -2 / 3, -2 / 3],
    atol=1e-6,
  )


def test_a_misspelt_key_dies():
  config = config_of()
  with pytest.raises(AttributeError, match='to_serach'):
    config.factagent.to_serach = 0.0
  with config.unlocked():
    config.factagent.to_serach = config.factagent.to_search
    del config.factagent.to_search
  with pytest.raises(KeyError, match='to_search'):
    recipe_of('factagent', config)


def test_exact_clusters_keep_near_spellings_apart():
  near = ('ada', 'employer', 'acme ltd')
  group = [
    trajectory(0, SEARCH, told(('ada', 'employer', 'acme ltd.'))),
    trajectory(1, SEARCH, told((*near[:2], 'the acme ltd'))),
    trajectory(2, SEARCH, told((*near[:2], 'acme ltda'))),
  ]

  def clusters(exact):
    recipe = recipe_of('factagent', config_of(**{'factagent.exact': exact}))
    explanation = recipe.explain([group], recipe.score([group]))
    return explanation.metrics['clusters']

  assert clusters(True) == 2.0  # articles and full stops are no difference
  assert clusters(False) == 1.0


def test_an_answer_from_an_empty_store_earns_nothing_unless_it_may():
  guess = [[trajectory(0, SEARCH, answer='bob')]]
  for fails, earned in ((True, 0.0), (False, 1.0)):
    config = config_of(**{'reward.empty_store_fails': fails})
    scores = recipe_of('factagent', config).score(guess)
    assert scores.outcome[0, 0] == earned
    assert scores.success[0, 0]  # the answer is right all the same


def test_the_form_that_is_rewarded_is_that_of_the_conversation():
  config = config_of(**{'reward.format_weight': 0.25})
  group = [GROUP[1], trajectory(1, turn(KIND.INVALID, why='w'), answer='bob')]
  scores = recipe_of('factagent', config).score([group])
  # The second is malformed, and answers from an empty store.
  assert scores.outcome[0].tolist() == [1.25, 0.0]


def test_success_may_be_a_matter_of_degree():
  half = [[trajectory(0, SEARCH, told(ADA), answer='bob jones')]]
  for threshold, success in ((0.0, False), (0.6, True), (0.7, False)):
    config = config_of(**{'reward.success_f1': threshold})
    scores = recipe_of('factagent', config).score(half)
    assert scores.success[0, 0] == success  # F1 is 2/3
    assert scores.outcome[0, 0] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
  'key, value',
  [
    ('factagent.omega', -0.5),
    ('factagent.to_search', 1.5),
    ('factagent.threshold', 2.0),
    ('factagent.embedding_width', 0),
    ('environment.max_facts', 0),
    ('reward.success_f1', 1.1),
  ],
)
def test_numbers_that_cannot_be_meant_are_refused(key, value):
  with pytest.raises(ValueError, match=key):
    checks.require_sense(config_of(**{key: value}))


# --- recombined --------------------------------------------------------------


def test_cwgrpo_moves_credit_between_searches_and_facts_are_logged_beside():
  config = config_of()
  recipe = recipe_of('cwgrpo_on_facts', config)
  other = types.Document('x', 'zed', 'zed')
  useless = turn(
    KIND.SEARCH, (types.Evidence('external', '', (other,)),), query='zed'
  )
  group = [
    trajectory(0, SEARCH, useless, told(ADA), answer='bob'),
    trajectory(1, SEARCH, told(ADA), answer='no'),
  ]
  scores = recipe.score([group])
  advantage_S = np.asarray(jax.jit(recipe.credit)(scores))[0, 0]
  assert advantage_S[0] > advantage_S[2] > advantage_S[1] > 0
  assert advantage_S[:2].mean() == pytest.approx(advantage_S[2])
  assert recipe.explain([group], scores).metrics['facts'] == 1.0


def test_the_extracts_of_the_experiments_differ():
  one = trajectory(0, SEARCH, told(ADA), answer='bob')
  assert any(asserted(one)) and not any(stated(one))
