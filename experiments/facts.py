# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What experiments share that credit asserted facts.

The facts of a trajectory are found by an `extract`: asserted one by one, or
stated in passing.
"""

import functools

import jax
import numpy as np

from experiments import recipes
from searchrl_jax.credit import factagent
from searchrl_jax.rewards import facts, format, scoring
from searchrl_jax.rewards.ngrams import NgramEmbedding
from searchrl_jax.types import (
  Credit,
  Explain,
  Explanation,
  Groups,
  Recipe,
  Score,
  Scores,
)


def with_facts(config, score: Score, extract, *, max_facts: int) -> Score:
  """A score, and the facts of its trajectories as arrays."""
  embed = NgramEmbedding(config.factagent.embedding_width)

  def scored(groups: Groups) -> Scores:
    return facts.add_facts(
      score(groups), groups, embed, max_facts=max_facts, extract=extract
    )

  return scored


def asserting(config, environment, make_score, credit: Credit) -> Recipe:
  """A method in FactAgent's conversation: its facts are those asserted.

  Args:
    config: of the run.
    environment: of FactAgent.
    make_score: (config, environment, outcome=) -> score, of `recipes`.
    credit: the method's.
  """
  extract = facts.asserted
  score = make_score(config, environment, outcome=outcome(config, extract))
  return Recipe(
    environment=environment,
    score=with_facts(config, score, extract, max_facts=environment.max_facts),
    credit=credit,
    explain=explain(config, extract),
  )


def outcome(config, extract) -> scoring.Outcome:
  """What the config rewards, nothing for an answer from an empty store."""
  earned = recipes.outcome_of(config, formed=format.legal)
  if not config.reward.empty_store_fails:
    return earned
  return scoring.empty_store_fails(earned, extract)


def credit(config) -> Credit:
  """FactAgent's advantages with the settings of a config."""
  section = config.factagent
  return functools.partial(
    factagent.advantages,
    omega=section.omega,
    normalize=section.normalize,
    baseline=recipes.baseline(config),
    **_process_settings(config),
  )


def _process_settings(config) -> dict:
  names = (
    *('threshold', 'relation_threshold', 'exact', 'prior', 'to_search'),
    *('malformed_penalty', 'repeated_penalty', 'empty_penalty'),
  )
  return {name: config.factagent[name] for name in names}


def explain(config, extract) -> Explain:
  """Clusters and utilities with their facts in words, and what they amount to.

  Metrics of a step:
    facts: told by a trajectory, repetitions left out.
    clusters: of a question's facts.
    fact_recall: share of the gold chain's links that were told, None where no
      chain is known.
    shaping_nonzero_fraction: share of the turns with facts, of trajectories
      with an outcome, whose shaping is not 0; None without such turns.
  """
  process = jax.jit(
    functools.partial(factagent.process, **_process_settings(config))
  )

  def explained(groups: Groups, scores: Scores) -> Explanation:
    numbers = jax.tree.map(np.asarray, process(scores))
    told = [facts.told(group, extract) for group in groups]
    metrics = _metrics(groups, scores, told, numbers, extract)
    return Explanation(metrics, _notes(groups, told, numbers))

  return explained


def _metrics(groups, scores, told, numbers, extract) -> dict:
  recalls = [
    facts.fact_recall(one, extract) for group in groups for one in group
  ]
  known = [recall for recall in recalls if recall is not None]
  turns_BGS = _turns_with_facts(told, np.shape(scores.kind))
  turns_BGS &= np.asarray(scores.valid)[..., None]
  clusters = [len(set(row[row >= 0].tolist())) for row in numbers.cluster_BM]
  shaped = numbers.shaping_BGS[turns_BGS] != 0
  return {
    'facts': sum(map(len, told)) / len(recalls),
    'clusters': float(np.mean(clusters)),
    'fact_recall': float(np.mean(known)) if known else None,
    'shaping_nonzero_fraction': float(shaped.mean()) if shaped.size else None,
  }


def _turns_with_facts(told, shape) -> np.ndarray:
  turns_BGS = np.zeros(shape, bool)
  for b, group in enumerate(told):
    for fact in group:
      turns_BGS[b, fact.rollout, fact.turn] = True
  return turns_BGS


def _notes(groups, told, numbers) -> list:
  """One mapping for every turn; see `types.Explanation`."""
  notes = [
    [
      [_turn_note(numbers, (b, g, t)) for t in range(len(one.turns))]
      for g, one in enumerate(group)
    ]
    for b, group in enumerate(groups)
  ]
  for b, group in enumerate(told):
    for m, fact in enumerate(group):
      entry = {
        'fact': list(fact.triple),
        'cluster': int(numbers.cluster_BM[b, m]),
        'utility': float(numbers.utility_BM[b, m]),
        'new': bool(numbers.new_BM[b, m]),
      }
      notes[b][fact.rollout][fact.turn]['facts'].append(entry)
  return notes


def _turn_note(numbers, place) -> dict:
  return {
    'shaping': float(numbers.shaping_BGS[place]),
    'penalty': float(numbers.penalty_BGS[place]),
    'process': float(numbers.reward_BGS[place]),
    'facts': [],
  }
