# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts become a batch: scored, credited, masked, packed.

The policy is a table: a question's text lists the outcomes of its rollouts,
and a rollout's one turn has as many tokens as its number says.

  question '1 0 1'   rollout 0   p p t      outcome 1
                     rollout 1   p p t t    outcome 0
                     rollout 2   p p t t t  outcome 1
"""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.credit import grpo
from searchrl_jax.training import aggregation, losses, minibatches, sources
from searchrl_jax.training.clock import Clock
from searchrl_jax.training.experience import Experience, ExperienceConfig
from searchrl_jax.types import Action, Kind, Question, Status

PLAIN = ExperienceConfig(
  skip_zero_advantage=False,
  redraws=0,
  mask_overlong=False,
  overlong_margin=0,
  max_tokens=10,
  learner_old_logps=False,
  reference=False,
  max_invalid_fraction=0.5,
)
S = 2


def rollout(question, number, outcome):
  """A trajectory with one search turn of number + 1 tokens. An outcome with
  an exclamation mark was cut by a limit."""
  tokens = np.arange(number + 3, dtype=np.int32)
  sampled = tokens >= 2
  row = types.TokenRow(
    tokens,
    sampled,
    np.where(sampled, 0, -1).astype(np.int32),
    np.where(sampled, -0.5 - number, 0).astype(np.float32),
  )
  clipped = outcome.endswith('!')
  turn = types.Turn(
    Action(Kind.SEARCH, {'query': outcome.rstrip('!')}),
    'x',
    '',
    (),
    types.Span(0, 2, number + 3),
    0.0,
    clipped=clipped,
  )
  return types.Trajectory(
    question, number, '', (turn,), (row,), Status.TURN_LIMIT
  )


def play(questions):
  return [
    [rollout(q, g, outcome) for g, outcome in enumerate(q.text.split())]
    for q in questions
  ]


def score(groups):
  """Outcomes as the texts have them; '?' is invalid."""
  texts = [[t.turns[0].action.arguments['query'] for t in g] for g in groups]
  outcome = [[0 if x == '?' else float(x) for x in group] for group in texts]
  outcome_BG = np.array(outcome, np.float32)
  kind_BGS = np.zeros((*outcome_BG.shape, S), np.int32)
  kind_BGS[:, :, 0] = Kind.SEARCH
  return types.Scores(
    outcome=outcome_BG,
    success=outcome_BG > 0.5,
    valid=np.array([[x != '?' for x in group] for group in texts]),
    kind=kind_BGS,
    judged=np.zeros(kind_BGS.shape, bool),
    signals={},
  )


def learner_logps(params, batch):
  """Log-probs that name the parameters."""
  return np.full(batch.tokens.shape, -float(params), np.float32)


@dataclasses.dataclass
class Seen:
  """What an experience told the outside."""

  records: list
  batches: list
  redraws: list


def make(*rounds, config=PLAIN, logps=learner_logps, multiple=2):
  """An experience over rounds of questions given by their texts."""
  seen = Seen([], [], [])

  def questions():
    for n, texts in enumerate(itertools.cycle(rounds)):
      batch = [Question(f'{n}-{i}', x, ('a',)) for i, x in enumerate(texts)]
      seen.batches.append(n)
      yield batch

  def seen_play(questions, params, step, redraw):
    seen.redraws.append(redraw)
    return play(questions)

  return Experience(
    types.Recipe(None, score, grpo.turn_advantages),
    seen_play,
    questions(),
    config=config,
    packing=sources.Packing(length=12, multiple=multiple),
    clock=Clock(),
    logps=logps,
    reference=lambda batch: logps(7.0, batch),
    describe=lambda: {'fingerprint': 5},
    measure=lambda groups, scores: {'searches': 1.0},
    zero_spread=jax.jit(grpo.zero_spread),
    record=lambda *record: seen.records.append(record),
  ), seen


def by_trajectory(batch, values):
  """Values at the sampled tokens of each packed trajectory."""
  return {
    int(number): values[batch.sampled & (batch.trajectory_id == number)]
    for number in np.unique(batch.trajectory_id[batch.sampled])
  }


# --- the plain road ----------------------------------------------------------


def test_credit_arrives_at_the_tokens_of_its_rollout():
  """Outcomes 1 1 0 0: advantages +-.8660; 1 0 0 0: 1.5 and -.5."""
  experience, seen = make(['1 1 0 0', '1 0 0 0'])
  collected = experience.collect(1, 2.0)
  advantages = by_trajectory(collected.batch, collected.targets.advantage)
  expected = [0.8660, 0.8660, -0.8660, -0.8660, 1.5, -0.5, -0.5, -0.5]
  for number, value in enumerate(expected):
    tokens = number % 4 + 1
    np.testing.assert_allclose(advantages[number], [value] * tokens, atol=1e-4)
  assert not collected.targets.advantage[~collected.batch.sampled].any()
  ((step, groups, scores, advantage_BGS, explanation),) = seen.records
  assert explanation == types.unexplained(groups, scores)
  assert (step, len(groups)) == (1, 2)
  assert advantage_BGS.shape == (2, 4, S)
  assert not advantage_BGS[:, :, 1].any()  # there is no second turn
  np.testing.assert_array_equal(scores.outcome[0], [1, 1, 0, 0])


def test_on_policy_old_is_the_samplers_and_reference_is_old():
  experience, _ = make(['1 0'])
  collected = experience.collect(1, 2.0)
  targets = collected.targets
  np.testing.assert_array_equal(
    targets.old_logps, collected.batch.sampler_logps
  )
  np.testing.assert_array_equal(targets.ref_logps, targets.old_logps)
  np.testing.assert_array_equal(targets.weight, collected.batch.sampled)


def test_the_learner_may_give_old_and_reference():
  config = dataclasses.replace(PLAIN, learner_old_logps=True, reference=True)
  experience, _ = make(['1 0'], config=config)
  targets = experience.collect(1, 2.0).targets
  assert (targets.old_logps == -2).all()
  assert (targets.ref_logps == -7).all()


def test_what_a_step_says_of_itself():
  """Two of four groups are silent. Sampled: (1 + 2) / 2 tokens, given: 2."""
  experience, _ = make(['1 0', '1 1', '0 ?', '1 0'])
  metrics = experience.collect(3, 2.0).metrics
  assert metrics['zero_spread_fraction'] == 0.5
  assert metrics['sampled_tokens'] == 1.5
  assert metrics['given_tokens'] == 2
  assert metrics['searches'] == 1.0
  assert metrics['fingerprint'] == 5
  # Searches of successes: two groups of two, +.7071 each.
  np.testing.assert_allclose(metrics['token_weighted_mean'], 0.7071, atol=1e-4)


# --- two updates on one batch ------------------------------------------------


def test_the_ratio_compares_with_before_the_first_update():
  """Every update adds 1 to the parameter; old log-probs stay at -2."""
  config = dataclasses.replace(PLAIN, learner_old_logps=True)
  experience, _ = make(['1 0 1 0', '0 1 0 1'], config=config)
  params = 2.0
  collected = experience.collect(1, params)
  ratios = []
  for _ in range(2):  # epochs
    for batch, targets in minibatches.minibatches(
      collected.batch, collected.targets, 2
    ):
      now = learner_logps(params, batch)
      ratios.append(np.exp(now - targets.old_logps)[batch.sampled])
      params += 1.0
  for update, ratio in enumerate(ratios):
    np.testing.assert_allclose(ratio, np.exp(-update), rtol=1e-5)
  assert len(ratios) == 4


# --- what is left out --------------------------------------------------------


def test_an_invalid_outcome_trains_nothing_and_moves_nobody():
  experience, _ = make(['1 ? 0 1'])
  collected = experience.collect(1, 2.0)
  advantages = by_trajectory(collected.batch, collected.targets.advantage)
  assert sorted(advantages) == [0, 2, 3]
  np.testing.assert_allclose(advantages[0][0], 0.5773, atol=1e-4)
  np.testing.assert_allclose(advantages[2][0], -1.1547, atol=1e-4)


def test_too_many_invalid_outcomes_stop_the_run_in_one_line():
  experience, _ = make(['1 ? ? ?', '1 0 0 ?'])  # half of them
  experience.collect(1, 2.0)
  experience, _ = make(['1 ? ? ?', '1 0 ? ?'])
  with pytest.raises(
    sources.TrainingStoppedError, match='62% of the outcomes of step 4'
  ) as e:
    experience.collect(4, 2.0)
  assert '\n' not in str(e.value)


def test_where_nothing_trains_there_is_no_mean_over_tokens():
  config = dataclasses.replace(PLAIN, max_invalid_fraction=1.0)
  experience, _ = make(['? ?'], config=config)
  collected = experience.collect(1, 2.0)
  assert collected.metrics['entropy'] is None  # not 0: that would be alarming
  assert collected.metrics['token_weighted_mean'] is None
  assert not collected.batch.sampled.any()


def test_trajectories_without_advantage_may_be_skipped():
  """Group 1 is silent. 2 groups of 2: tokens 1 + 2 each."""
  for skip, tokens in ((False, 6), (True, 3)):
    config = dataclasses.replace(PLAIN, skip_zero_advantage=skip)
    experience, _ = make(['1 0', '1 1'], config=config)
    collected = experience.collect(1, 2.0)
    batch, targets = collected.batch, collected.targets
    assert aggregation.count(batch, targets).tokens == tokens
    kept = set(batch.trajectory_id[batch.sampled])
    assert kept == ({0, 1} if skip else {0, 1, 2, 3})


@pytest.mark.parametrize('skip', [False, True])
def test_a_batch_of_silence_runs_and_changes_nothing(skip):
  config = dataclasses.replace(PLAIN, skip_zero_advantage=skip)
  experience, _ = make(['1 1', '0 0', '.5 .5'], config=config)
  collected = experience.collect(1, 2.0)
  assert collected.metrics['zero_spread_fraction'] == 1
  assert collected.batch.sampled.any() != skip
  assert not collected.targets.advantage.any()
  parts = list(minibatches.minibatches(collected.batch, collected.targets, 2))
  assert parts
  loss = losses.make_loss(losses.LossConfig(kl='none'))
  run = jax.jit(jax.value_and_grad(loss, has_aux=True))
  for batch, targets in parts:
    counts = aggregation.count(batch, targets)
    zeros = np.zeros(batch.tokens.shape, np.float32)
    (value, _), gradient = run(zeros, zeros, batch, targets, counts)
    assert value == 0
    assert not np.asarray(gradient).any()


# --- DAPO --------------------------------------------------------------------


def test_a_trajectory_cut_by_a_limit_stays_in_its_group_but_does_not_train():
  config = dataclasses.replace(PLAIN, mask_overlong=True)
  experience, _ = make(['1 1! 0 0'], config=config)
  collected = experience.collect(1, 2.0)
  advantages = by_trajectory(collected.batch, collected.targets.advantage)
  assert sorted(advantages) == [0, 2, 3]
  # With four members: .8660; with three it would be 1.1547.
  np.testing.assert_allclose(advantages[0][0], 0.8660, atol=1e-4)
  experience, _ = make(['1 1! 0 0'])
  assert set(experience.collect(1, 2.0).batch.trajectory_id.flat) > {0, 1, 2}


def test_coming_close_to_the_limit_costs_outcome():
  """Limit 4, margin 2; turns of 1, 2, 3, 4 tokens: 0, 0, -.5, -1."""
  config = dataclasses.replace(PLAIN, overlong_margin=2, max_tokens=4)
  experience, seen = make(['1 0 1 1'], config=config)
  collected = experience.collect(1, 2.0)
  ((_, _, scores, *_),) = seen.records
  np.testing.assert_allclose(scores.outcome, [[1, 0, 0.5, 0]])
  # Success is decided by the rewards alone.
  np.testing.assert_array_equal(scores.success, [[1, 0, 1, 1]])
  # Mean .375, std .4787: 1.3056, -.7833, .2611, -.7833.
  advantages = by_trajectory(collected.batch, collected.targets.advantage)
  for number, value in enumerate([1.3056, -0.7833, 0.2611, -0.7833]):
    np.testing.assert_allclose(advantages[number][0], value, atol=1e-3)


def test_redraws_fill_silent_places_and_are_bounded():
  """Rounds: silent silent | silent 1-0 | 0-1 silent | ... never drawn."""
  rounds = [['1 1', '0 0'], ['1 1', '1 0'], ['0 1', '0 0'], ['0 1', '1 0']]
  for redraws, drawn, texts in (
    (0, 1, ['1 1', '0 0']),
    (1, 2, ['1 0', '0 0']),
    (2, 3, ['1 0', '0 1']),
    (9, 3, ['1 0', '0 1']),  # nothing silent is left
  ):
    config = dataclasses.replace(PLAIN, redraws=redraws)
    experience, seen = make(*rounds, config=config)
    collected = experience.collect(1, 2.0)
    assert len(seen.batches) == drawn
    ((_, groups, scores, *_),) = seen.records
    assert [members[0].question.text for members in groups] == texts
    expected = [[float(x) for x in text.split()] for text in texts]
    np.testing.assert_array_equal(scores.outcome, expected)
    # The log tells of the policy: of the first round, as it was drawn.
    assert collected.metrics['zero_spread_fraction'] == 1


def test_redraws_end_where_every_round_is_silent():
  config = dataclasses.replace(PLAIN, redraws=3)
  experience, seen = make(['1 1', '0 0'], config=config)
  experience.collect(1, 2.0)
  assert len(seen.batches) == 1 + 3
  assert seen.redraws == [0, 1, 2, 3]  # each with keys of its own
