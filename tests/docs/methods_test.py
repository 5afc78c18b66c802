# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The worked numbers of docs/methods.md are those the functions return."""

import ast
import dataclasses
import functools
import pathlib
import re

import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import types
from searchrl_jax.credit import cwgrpo, factagent, grpo, spread
from searchrl_jax.training import (
  aggregation,
  kl,
  losses,
  overlong,
  ratio,
  surrogate,
)

TEXT = (
  pathlib.Path(__file__).parents[2].joinpath('docs', 'methods.md').read_text()
)
BLOCK = re.compile(r'^```worked\n(.*?)^```$', re.MULTILINE | re.DOTALL)
# Numbers are printed to four digits.
TOLERANCE = 6e-5


@dataclasses.dataclass(frozen=True)
class Example:
  function: str
  arguments: dict
  gives: np.ndarray
  tempting: np.ndarray | None


def literal(text):
  """A number or nested list; ? is a missing number, inf is infinity."""
  text = text.split('#')[0].strip().replace('?', 'None')
  value = ast.literal_eval(text.replace('inf', '1e999'))
  return np.array(value, np.float32)  # None becomes NaN


def parse(block):
  function, *lines = block.strip().splitlines()
  arguments, results = {}, {}
  for line in lines:
    if line.startswith(('gives ', 'not ')):
      word, rest = line.split(' ', 1)
      results[word] = literal(rest)
    else:
      name, rest = line.split(' = ', 1)
      arguments[name] = literal(rest)
  return Example(function, arguments, results['gives'], results.get('not'))


def row(value):
  """One packed row of one micro-batch, or one trajectory of one group."""
  return jnp.asarray(value)[None]


def redistribute(advantage, contribution, search, alpha, **options):
  search_S = np.array(search, bool)
  result = cwgrpo.redistribute(
    jnp.full((1, 1), advantage),
    row(row(contribution)),
    row(row(search_S)),
    row(row(~search_S)),
    jnp.ones((1, 1), bool),
    alpha=float(alpha),
    **options,
  )
  return result[0, 0]


def credit(outcome, kind, useful, correct, alpha):
  scores = types.Scores(
    outcome=jnp.asarray(outcome),
    success=outcome == 1,
    valid=np.isfinite(outcome),
    kind=kind.astype(np.int32),
    judged=(outcome == 1)[..., None] & (kind == types.Kind.SEARCH),
    signals={'retrieval_useful': useful, 'reasoning_correct': correct},
  )
  return cwgrpo.advantages(scores, alpha=float(alpha))


def cluster(
  embedding, relation, negated, numbers, mask, threshold, relation_threshold
):
  return factagent.cluster(
    embedding,
    relation,
    negated.astype(bool),
    numbers.astype(np.int32),
    mask.astype(bool),
    threshold=float(threshold),
    relation_threshold=float(relation_threshold),
  )


def cluster_exact(key, mask):
  return factagent.cluster_exact(key.astype(np.int32), mask.astype(bool))


def utilities(cluster, rollout, success):
  return factagent.utilities(
    cluster.astype(np.int32),
    rollout.astype(np.int32),
    np.ones(cluster.shape, bool),
    success.astype(bool),
    np.ones(success.shape, bool),
  )


def new_facts(cluster, rollout, turn):
  """Where every turn may write into the store."""
  return factagent.new_facts(
    cluster.astype(np.int32),
    rollout.astype(np.int32),
    turn.astype(np.int32),
    np.ones(cluster.shape, bool),
    np.ones((len(cluster), int(rollout.max()) + 1, int(turn.max()) + 1), bool),
  )


def shaping(utility, turn, search, to_search):
  """Of one rollout whose facts are clusters of their own."""
  facts = np.arange(len(utility), dtype=np.int32)
  result = factagent.shaping(
    row(facts),
    row(utility),
    row(np.zeros_like(facts)),
    row(turn.astype(np.int32)),
    row(np.ones(len(facts), bool)),
    row(row(np.isin(np.arange(len(search)), turn))),
    row(row(search.astype(np.int32))),
    to_search=float(to_search),
  )
  return result[0, 0]


def told(key, rollout, turn, kind, search, repeated, success):
  """Scores of groups in which facts are clusters where their keys are equal."""
  return types.Scores(
    outcome=success,
    success=success.astype(bool),
    valid=np.ones(success.shape, bool),
    kind=kind.astype(np.int32),
    judged=np.zeros(kind.shape, bool),
    signals={
      'search_of_assert': search,
      'repeated_search': repeated,
      'empty_answer': np.zeros_like(search),
    },
    facts={
      'key': key.astype(np.int32),
      'rollout': rollout.astype(np.int32),
      'turn': turn.astype(np.int32),
      'mask': np.ones(key.shape, bool),
    },
  )


def process(**arguments):
  return factagent.process(told(**arguments), exact=True).reward_BGS


def fact_advantages(**arguments):
  return factagent.advantages(told(**arguments), exact=True)


def batch_of(turn, segments=None):
  """A row in which every token is sampled, in the given turn."""
  turn_NL = row(np.asarray(turn, np.int32))
  same = jnp.zeros_like(turn_NL)
  segments = same + 1 if segments is None else row(segments.astype(np.int32))
  return types.Batch(
    tokens=same,
    positions=same,
    segment_ids=segments,
    sampled=jnp.ones(turn_NL.shape, bool),
    turn_id=turn_NL,
    trajectory_id=same,
    sampler_logps=jnp.zeros(turn_NL.shape),
  )


def targets_of(batch, advantage, old):
  one = jnp.ones(batch.sampled.shape)
  return types.Targets(one * advantage, row(old), row(old), one)


def token_weighted(advantage, turns, tokens):
  turn = np.repeat(np.arange(len(tokens)), tokens.astype(int))
  batch = batch_of(turn)
  picked = row(row(turns.astype(bool)))
  return spread.token_weighted_mean(row(row(advantage)), picked, batch)[0, 0]


def aggregate(function, terms, segments, **options):
  batch = batch_of(0 * terms, segments)
  targets = targets_of(batch, 1.0, 0 * terms)
  counts = aggregation.count(batch, targets)
  weights = function(targets.weight, batch.segment_ids, counts, **options)
  return (weights * row(terms)).sum()


def sequence(difference):
  one = jnp.ones((1, len(difference)), int)
  logps = row(difference - 1)
  return ratio.sequence(logps, 0 * logps - 1, one == 1, one)[0]


def llds_loss(drop, turn, advantage):
  batch = batch_of(turn)
  targets = targets_of(batch, advantage, drop - 1)
  config = losses.LossConfig(llds=True)
  counts = aggregation.count(batch, targets)
  minus_one = row(0 * drop - 1)
  loss = losses.make_loss(config)
  return loss(minus_one, -minus_one, batch, targets, counts)[1]['loss_llds']


def boolean_search(function, useful, correct, search):
  return function(useful, correct, search.astype(bool))


def plain(function, **arguments):
  return function(*arguments.values())


def estimate(function, difference):
  return function(jnp.full((1, 1), -1.0), jnp.full((1, 1), difference - 1.0))[
    0, 0
  ]


def weight(function, difference, **options):
  return function(row(difference - 1), row(0 * difference - 1), **options)[0]


FUNCTIONS = {
  'grpo.advantages': functools.partial(plain, grpo.advantages),
  'grpo.advantages.centred': functools.partial(
    plain, functools.partial(grpo.advantages, normalize_std=False)
  ),
  'grpo.leave_one_out': functools.partial(plain, grpo.leave_one_out),
  'grpo.zero_spread': functools.partial(plain, grpo.zero_spread),
  'cwgrpo.contributions': functools.partial(
    boolean_search, cwgrpo.contributions
  ),
  'cwgrpo.redistribute': redistribute,
  'cwgrpo.redistribute.released': functools.partial(
    redistribute, release_compatible=True
  ),
  'cwgrpo.advantages': credit,
  'factagent.cluster': cluster,
  'factagent.cluster_exact': cluster_exact,
  'factagent.utilities': utilities,
  'factagent.new_facts': new_facts,
  'factagent.shaping': shaping,
  'factagent.process': process,
  'factagent.advantages': fact_advantages,
  'spread.token_weighted_mean': token_weighted,
  'surrogate.clipped': lambda ratio, advantage, low, high: surrogate.clipped(
    row(ratio), row(ratio), row(advantage), low=low, high=high
  )[0],
  'surrogate.likelihood': lambda logps, advantage: surrogate.likelihood(
    row(logps), row(logps), row(advantage)
  )[0],
  'overlong.soft_penalty': lambda tokens, limit, margin: overlong.soft_penalty(
    tokens, limit=limit, margin=margin
  ),
  'ratio.sequence': sequence,
  'aggregation.token_mean': functools.partial(
    aggregate, aggregation.token_mean
  ),
  'aggregation.segment_mean': functools.partial(
    aggregate, aggregation.segment_mean
  ),
  'aggregation.constant_length': functools.partial(
    aggregate, aggregation.constant_length
  ),
  'kl.k1': functools.partial(estimate, kl.k1),
  'kl.k2': functools.partial(estimate, kl.k2),
  'kl.k3': functools.partial(estimate, kl.k3),
  'ratio.truncated': functools.partial(weight, ratio.truncated, limit=2.0),
  'ratio.band': functools.partial(weight, ratio.band, low=0.5, high=2.0),
  'llds.loss': llds_loss,
}


@functools.cache
def result(block):
  example = parse(block)
  return np.asarray(FUNCTIONS[example.function](**example.arguments))


def check(block, actual):
  example = parse(block)
  np.testing.assert_equal(actual.shape, example.gives.shape)
  np.testing.assert_allclose(actual, example.gives, rtol=0, atol=TOLERANCE)
  if example.tempting is not None:
    assert np.abs(actual - example.tempting).max() > 1e-3, example.tempting


BLOCKS = BLOCK.findall(TEXT)
NAMES = [f'{i}-{block.splitlines()[0]}' for i, block in enumerate(BLOCKS)]


@pytest.mark.parametrize('block', BLOCKS, ids=NAMES)
def test_worked_number(block):
  check(block, result(block))


@pytest.mark.parametrize('block', BLOCKS, ids=NAMES)
def test_a_wrong_number_in_the_text_would_be_noticed(block):
  start = block.index('gives ')
  numbers = list(re.finditer(r'-?(\d+\.?\d*|\.\d+)', block[start:]))
  end = block.find('\nnot ', start) - start
  numbers = [n for n in numbers if end < 0 or n.start() < end]
  assert numbers
  for number in numbers:
    place = slice(start + number.start(), start + number.end())
    wrong = f'{float(number.group()) + 1e-3:.4f}'
    broken = block[: place.start] + wrong + block[place.stop :]
    with pytest.raises(AssertionError):
      check(broken, result(block))


def test_every_example_is_found_and_every_function_has_one():
  assert len(BLOCKS) == TEXT.count('```worked') == TEXT.count('\ngives ')
  named = {block.splitlines()[0] for block in BLOCKS}
  assert named == set(FUNCTIONS)
  assert sum('\nnot ' in block for block in BLOCKS) == TEXT.count('\nnot ')
