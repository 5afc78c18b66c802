# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What clusters of facts are worth, and what a turn adds to its store.

Steps 2 to 5 of FactAgent (EMNLP 2026): utilities of clusters from the success
of the rollouts they appear in, and shaping by the potential of the store.
"""

import chex
import jax
import jax.numpy as jnp

_EXACT = jax.lax.Precision.HIGHEST


def _is_at(place_BM, places, there_BM):
  """One-hot `[B, M, places]` of a rollout or turn number, 0 off the facts."""
  place_11P = jnp.arange(places, dtype=jnp.int32)[None, None, :]
  return (place_BM[..., None] == place_11P) & there_BM[..., None]


def utilities(
  cluster_BM, rollout_BM, fact_mask_BM, success_BG, valid_BG, *, prior=0.5
):
  """How much likelier success is where a cluster appears.

  U = (s + eps) / (n + 2 eps) - rate: n valid rollouts state the cluster, each
  counted once, s of them succeed; eps is the prior of a Beta posterior, rate
  the share of valid rollouts that succeed.

      rollout      0  1  2  3     rate 1/2, eps 1/2
      success      1  1  0  0
      a appears    1  1  0  0     U = 2.5 / 3 - .5 =  .3333
      c appears    0  0  0  1     U =  .5 / 2 - .5 = -.25

  Args:
    cluster_BM: as from `cluster`: equal where facts say the same, -1 where
      there is none.
    rollout_BM: which rollout states the fact, 0 to G - 1.
    fact_mask_BM: which facts exist.
    success_BG: which rollouts succeed.
    valid_BG: which outcomes may be trusted; the others count nowhere.
    prior: eps >= 0, in rollouts. With 0, a cluster of invalid rollouts alone
      has U = 0.

  Returns:
    U `[B, M]` in [-1, 1], 0 where there is no fact and in groups without a
    valid rollout.

  Raises:
    ValueError: prior is a negative number or NaN.
  """
  chex.assert_rank([cluster_BM, success_BG], 2)
  chex.assert_equal_shape([cluster_BM, rollout_BM, fact_mask_BM])
  chex.assert_equal_shape([success_BG, valid_BG])
  chex.assert_equal_shape_prefix([cluster_BM, success_BG], 1)
  if isinstance(prior, int | float) and not prior >= 0:
    raise ValueError(f'prior is {prior}: use a number from 0.')
  valid_BG = jnp.asarray(valid_BG, bool)
  success_BG = jnp.asarray(success_BG, bool) & valid_BG
  there_BM = jnp.asarray(fact_mask_BM, bool) & (cluster_BM >= 0)
  states_BMG = _is_at(rollout_BM, valid_BG.shape[1], there_BM)
  same_BMM = (cluster_BM[:, :, None] == cluster_BM[:, None, :]).astype(
    jnp.float32
  )
  times_BMG = jnp.einsum(
    'bij,bjg->big', same_BMM, states_BMG.astype(jnp.float32)
  )
  # A rollout counts once, however often it states the cluster.
  appears_BMG = (times_BMG > 0) & there_BM[..., None]
  n_BM = (appears_BMG & valid_BG[:, None, :]).sum(axis=-1)
  s_BM = (appears_BMG & success_BG[:, None, :]).sum(axis=-1)
  count_B1 = valid_BG.sum(axis=-1, keepdims=True)
  rate_B1 = success_BG.sum(axis=-1, keepdims=True) / jnp.maximum(count_B1, 1)
  weight_BM = jnp.asarray(n_BM + 2 * prior, jnp.float32)
  known_BM = weight_BM > 0
  posterior_BM = (s_BM + prior) / jnp.where(known_BM, weight_BM, 1.0)
  counts_BM = there_BM & known_BM & (count_B1 > 0)
  return jnp.where(counts_BM, posterior_BM - rate_B1, 0.0)


def _in_store(cluster_BM, rollout_BM, turn_BM, fact_mask_BM, assert_turn_BGS):
  """Which facts exist and were stated in a turn that asserts."""
  assert_turn_BGS = jnp.asarray(assert_turn_BGS, bool)
  questions, rollouts, turns = assert_turn_BGS.shape
  exists_BM = jnp.asarray(fact_mask_BM, bool) & (cluster_BM >= 0)
  exists_BM = exists_BM & (rollout_BM >= 0) & (rollout_BM < rollouts)
  exists_BM = exists_BM & (turn_BM >= 0) & (turn_BM < turns)
  place_BM = jnp.where(exists_BM, rollout_BM * turns + turn_BM, 0)
  asserts_BP = assert_turn_BGS.reshape(questions, rollouts * turns)
  return exists_BM & jnp.take_along_axis(asserts_BP, place_BM, axis=1)


def new_facts(cluster_BM, rollout_BM, turn_BM, fact_mask_BM, assert_turn_BGS):
  """Which facts bring a cluster into the store of their rollout.

  Args:
    cluster_BM: as from `fact_clusters.cluster`.
    rollout_BM: which rollout states the fact, 0 to G - 1.
    turn_BM: in which of its turns, 0 to S - 1. Facts may come in any order.
    fact_mask_BM: which facts exist.
    assert_turn_BGS: turns that write into the store.

  Returns:
    Booleans `[B, M]`: one fact for each cluster of each rollout, the first.
  """
  chex.assert_rank([cluster_BM, assert_turn_BGS], [2, 3])
  chex.assert_equal_shape([cluster_BM, rollout_BM, turn_BM, fact_mask_BM])
  chex.assert_equal_shape_prefix([cluster_BM, assert_turn_BGS], 1)
  counts_BM = _in_store(
    cluster_BM, rollout_BM, turn_BM, fact_mask_BM, assert_turn_BGS
  )
  index_M = jnp.arange(cluster_BM.shape[1])
  same_BMM = (cluster_BM[:, :, None] == cluster_BM[:, None, :]) & (
    rollout_BM[:, :, None] == rollout_BM[:, None, :]
  )
  # [b, i, j]: fact j was stated before fact i. Within one Assert the lower
  # index is first, so that of two facts of a cluster exactly one is new.
  before_BMM = turn_BM[:, None, :] < turn_BM[:, :, None]
  together_BMM = turn_BM[:, None, :] == turn_BM[:, :, None]
  lower_1MM = (index_M[None, :] < index_M[:, None])[None]
  before_BMM = before_BMM | (together_BMM & lower_1MM)
  known_BM = (same_BMM & before_BMM & counts_BM[:, None, :]).any(axis=-1)
  return counts_BM & ~known_BM


def shaping(
  cluster_BM,
  utility_BM,
  rollout_BM,
  turn_BM,
  fact_mask_BM,
  assert_turn_BGS,
  search_of_assert_BGS,
  *,
  to_search=0.2,
):
  """What each Assert adds to the potential of the store, shared with Search.

  Phi = tanh(sum of U over the clusters in the store); F_t = Phi_t - Phi_(t-1)
  at an Assert, exactly 0 where no cluster new to the rollout's store enters.
  Of F_t, the share `to_search` goes to the Search whose observation the facts
  were read from. The rewards of a trajectory sum to its last potential,
  whatever `to_search` is.

      turn      0 Search   1 Assert a   2 Assert a   3 Assert d
      sum of U         0        .3333        .3333        .4583
      F                0        .3215            0        .1072
      .2 moved     .0857        .2572            0        .0858

  Args:
    cluster_BM: as from `cluster`.
    utility_BM: U of each fact's cluster, as from `utilities`.
    rollout_BM: which rollout states the fact, 0 to G - 1.
    turn_BM: in which of its turns, 0 to S - 1. Facts may come in any order.
    fact_mask_BM: which facts exist.
    assert_turn_BGS: turns that write into the store; facts of any other turn
      are ignored.
    search_of_assert_BGS: int, the turn that fetched what this turn read; -1
      where there is none, and all of F stays.
    to_search: the share of F that is moved.

  Returns:
    Process rewards `[B, G, S]`, 0 where nothing is earned.
  """
  chex.assert_rank([cluster_BM, assert_turn_BGS], [2, 3])
  chex.assert_equal_shape(
    [cluster_BM, utility_BM, rollout_BM, turn_BM, fact_mask_BM]
  )
  chex.assert_equal_shape([assert_turn_BGS, search_of_assert_BGS])
  chex.assert_equal_shape_prefix([cluster_BM, assert_turn_BGS], 1)
  assert_turn_BGS = jnp.asarray(assert_turn_BGS, bool)
  _, rollouts, turns = assert_turn_BGS.shape
  new_BM = new_facts(
    cluster_BM, rollout_BM, turn_BM, fact_mask_BM, assert_turn_BGS
  )
  rollout_BMG = _is_at(rollout_BM, rollouts, new_BM).astype(jnp.float32)
  turn_BMS = _is_at(turn_BM, turns, new_BM).astype(jnp.float32)
  worth_BM1 = jnp.where(new_BM, utility_BM, 0.0)[..., None]
  gain_BGS = jnp.einsum(
    'bmg,bms->bgs', rollout_BMG * worth_BM1, turn_BMS, precision=_EXACT
  )
  enters_BGS = jnp.einsum('bmg,bms->bgs', rollout_BMG, turn_BMS) > 0
  after_BGS = jnp.tanh(jnp.cumsum(gain_BGS, axis=-1))
  before_BGS = jnp.pad(after_BGS[..., :-1], ((0, 0), (0, 0), (1, 0)))
  # A running sum need not repeat itself to the last bit.
  earned_BGS = jnp.where(enters_BGS, after_BGS - before_BGS, 0.0)
  # [b, g, t, s]: turn t read what turn s fetched.
  turn_111S = jnp.arange(turns)[None, None, None, :]
  read_BGSS = search_of_assert_BGS[..., None] == turn_111S
  moved_BGS = jnp.where(read_BGSS.any(axis=-1), to_search * earned_BGS, 0.0)
  received_BGS = jnp.where(read_BGSS, moved_BGS[..., None], 0.0).sum(axis=-2)
  return earned_BGS - moved_BGS + received_BGS
