# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent: a turn is worth what the facts it adds turn out to be worth.

EMNLP 2026. The agent writes facts into a store. Facts of a question's
rollouts that say the same form clusters, and the rollouts themselves tell
what a cluster is worth: how much likelier success is where it appears. The
potential of a store is tanh of its worth, an Assert earns the potential it
adds, and part of that goes to the Search it read from. No reward model is
trained.

  facts -> cluster -> utilities -> shaping -> process -> advantages
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from searchrl_jax import types
from searchrl_jax.credit import grpo
from searchrl_jax.credit.fact_clusters import cluster, cluster_exact
from searchrl_jax.credit.fact_potentials import new_facts, shaping, utilities


class Process(NamedTuple):
  """What the facts of a group say of its turns."""

  cluster_BM: jax.Array  # smallest fact index of the cluster, -1 = no fact
  utility_BM: jax.Array  # U of the fact's cluster
  new_BM: jax.Array  # the fact is the first of its cluster in its rollout
  shaping_BGS: jax.Array  # F, with the share that went to the Search
  penalty_BGS: jax.Array  # <= 0
  reward_BGS: jax.Array  # their sum


def _of(arrays, kind, name):
  """A signal or an array of facts by name."""
  if name not in arrays:
    raise ValueError(
      f'FactAgent reads the {kind} {name!r}, but the scores carry '
      f'{sorted(arrays)}: use a score function that adds facts.'
    )
  return jnp.asarray(arrays[name])


def _valid(scores):
  """Rollouts whose outcome may be trusted, as the group baselines see it."""
  finite_BG = jnp.isfinite(jnp.asarray(scores.outcome, jnp.float32))
  return jnp.asarray(scores.valid, bool) & finite_BG


def _clusters(scores, mask_BM, threshold, relation_threshold, exact):
  """Clusters of the facts of scores, by meaning or by equality."""
  if exact:
    return cluster_exact(_of(scores.facts, 'fact array', 'key'), mask_BM)
  names = ('embedding', 'relation', 'negated', 'numbers')
  return cluster(
    *(_of(scores.facts, 'fact array', name) for name in names),
    mask_BM,
    threshold=threshold,
    relation_threshold=relation_threshold,
  )


def _penalties(scores, malformed_penalty, repeated_penalty, empty_penalty):
  """Minus the penalties a turn incurs: they add up."""
  for penalty in (malformed_penalty, repeated_penalty, empty_penalty):
    if isinstance(penalty, int | float) and not penalty >= 0:
      raise ValueError(
        f'A penalty is {penalty}: penalties are subtracted, use a number '
        'from 0.'
      )
  malformed_BGS = scores.kind == types.Kind.INVALID
  repeated_BGS = _of(scores.signals, 'signal', 'repeated_search') > 0
  empty_BGS = _of(scores.signals, 'signal', 'empty_answer') > 0
  chex.assert_equal_shape([malformed_BGS, repeated_BGS, empty_BGS])
  total_BGS = (
    jnp.where(malformed_BGS, -malformed_penalty, 0.0)
    + jnp.where(repeated_BGS, -repeated_penalty, 0.0)
    + jnp.where(empty_BGS, -empty_penalty, 0.0)
  )
  return jnp.where(scores.kind != types.Kind.NONE, total_BGS, 0.0)


def process(
  scores: types.Scores,
  *,
  threshold=0.85,
  relation_threshold=0.6,
  exact=False,
  prior=0.5,
  to_search=0.2,
  malformed_penalty=0.1,
  repeated_penalty=0.1,
  empty_penalty=0.1,
) -> Process:
  """Clusters, utilities, shaping and penalties of a batch of groups.

  The store is written by the turns that have facts, whatever their kind, so
  that facts stated in the searches and answers of another grammar count too.

  Args:
    scores: reads `outcome` (whether it is finite), `success`, `valid`,
      `kind`; the facts `embedding` and `relation` `[B, M, E]`, `negated`,
      `numbers` (or `key` where exact), `rollout`, `turn`, `mask` `[B, M]`;
      the signals `search_of_assert` (a turn number, -1 = none),
      `repeated_search` and `empty_answer` (1 where it is so).
    threshold: least cosine of embeddings in a cluster; see `cluster`.
    relation_threshold: least cosine of relations.
    exact: a Python bool; clusters of equal triples, the published ablation.
    prior: of the posterior, in rollouts; see `utilities`.
    to_search: share of an Assert's reward that its Search gets.
    malformed_penalty: subtracted from a malformed turn; all >= 0.
    repeated_penalty: subtracted from a Search that was made before.
    empty_penalty: subtracted from an Answer out of an empty store.

  Returns:
    A `Process`, finite everywhere, invalid rollouts included.

  Raises:
    ValueError: scores lack a signal or an array of facts, or the prior or a
      penalty is negative.
  """
  chex.assert_rank([scores.success, scores.kind], [2, 3])
  chex.assert_equal_shape([scores.outcome, scores.success, scores.valid])
  chex.assert_equal_shape_prefix([scores.success, scores.kind], 2)
  mask_BM, rollout_BM, turn_BM = (
    _of(scores.facts, 'fact array', name)
    for name in ('mask', 'rollout', 'turn')
  )
  # NaN, as any number that is no turn, names no Search.
  search_BGS = _of(scores.signals, 'signal', 'search_of_assert')
  penalty_BGS = _penalties(
    scores, malformed_penalty, repeated_penalty, empty_penalty
  )
  cluster_BM = _clusters(scores, mask_BM, threshold, relation_threshold, exact)
  utility_BM = utilities(
    cluster_BM, rollout_BM, mask_BM, scores.success, _valid(scores), prior=prior
  )
  everywhere_BGS = jnp.ones(scores.kind.shape, bool)
  shaping_BGS = shaping(
    cluster_BM,
    utility_BM,
    rollout_BM,
    turn_BM,
    mask_BM,
    everywhere_BGS,
    search_BGS,
    to_search=to_search,
  )
  return Process(
    cluster_BM=cluster_BM,
    utility_BM=utility_BM,
    new_BM=new_facts(cluster_BM, rollout_BM, turn_BM, mask_BM, everywhere_BGS),
    shaping_BGS=shaping_BGS,
    penalty_BGS=penalty_BGS,
    reward_BGS=shaping_BGS + penalty_BGS,
  )


def advantages(
  scores: types.Scores,
  *,
  omega=0.5,
  normalize=True,
  baseline: grpo.Baseline = grpo.advantages,
  threshold=0.85,
  relation_threshold=0.6,
  exact=False,
  prior=0.5,
  to_search=0.2,
  malformed_penalty=0.1,
  repeated_penalty=0.1,
  empty_penalty=0.1,
):
  """FactAgent as a credit: A_t = A_outcome + omega * A_process,t.

  A_process is the process reward minus its mean over its unbiased standard
  deviation (plus 1e-6), over all turns of all valid rollouts of the group; 0
  where those rewards lie within 1e-6 of each other. The arithmetic is that of
  `grpo.advantages`, with turns for members.

  Args:
    scores: what `process` and the baseline read.
    omega: weight of the process; 0 leaves `grpo.turn_advantages`.
    normalize: a Python bool; False adds omega times the reward itself.
    baseline: the group baseline of the outcome.
    threshold, relation_threshold, exact, prior, to_search, malformed_penalty,
      repeated_penalty, empty_penalty: see `process`.

  Returns:
    Per-turn advantages `[B, G, S]`, 0 where there is no turn and in invalid
    rollouts.

  Raises:
    ValueError: as `process`.
  """
  made = process(
    scores,
    threshold=threshold,
    relation_threshold=relation_threshold,
    exact=exact,
    prior=prior,
    to_search=to_search,
    malformed_penalty=malformed_penalty,
    repeated_penalty=repeated_penalty,
    empty_penalty=empty_penalty,
  )
  questions, rollouts, turns = scores.kind.shape
  exists_BGS = scores.kind != types.Kind.NONE
  exists_BGS = exists_BGS & _valid(scores)[..., None]
  process_BGS = made.reward_BGS
  if normalize:
    flat = (questions, rollouts * turns)
    process_BGS = grpo.advantages(
      process_BGS.reshape(flat), exists_BGS.reshape(flat)
    ).reshape(scores.kind.shape)
  outcome_BGS = grpo.turn_advantages(scores, baseline=baseline)
  return jnp.where(exists_BGS, outcome_BGS + omega * process_BGS, 0.0)
