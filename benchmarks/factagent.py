# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent's credit: clusters, utilities and shaping of a large step.

  python -m benchmarks.factagent

Times `credit.factagent.process`, compiled, on made-up groups whose facts come
in a few wordings each, and its clustering alone beside the obvious road: NumPy
and `scipy.sparse.csgraph.connected_components`, question by question. The two
must find the same clusters, and take turns so that a noisy minute hits both.
Then how time and memory grow with M, the facts of a question, and, apart from
all that, what embedding the texts costs on the host.

Prints one JSON object. Seconds are medians; the first call, which compiles,
is not counted. Memory is the compiled program's own account, in MiB:
arguments, results and what it needs in between.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
import time

import jax
import numpy as np
import scipy  # comes with jax
from scipy.sparse import csgraph, csr_matrix

from searchrl_jax import types
from searchrl_jax.credit import factagent
from searchrl_jax.rewards.ngrams import NgramEmbedding

_THRESHOLD, _RELATION_THRESHOLD = 0.85, 0.6
# NumPy's threads spin for a while after a product, on cores that the next
# contestant needs.
_REST_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class Sizes:
  """What is measured."""

  questions: int = 512
  rollouts: int = 6
  facts: int = 8  # of a rollout: M = rollouts * facts
  width: int = 768  # of an embedding
  turns: int = 8
  rounds: int = 7
  # How M grows, at fewer questions so that the largest fits a laptop.
  grown_questions: int = 128
  grown_facts: tuple[int, ...] = (4, 8, 16, 32)


def _scores(sizes: Sizes, questions: int, facts: int) -> types.Scores:
  """Groups of noisy copies of a quarter as many facts as there are."""
  rng = np.random.default_rng(0)
  many = sizes.rollouts * facts
  shape_BM, shape_BG = (questions, many), (questions, sizes.rollouts)
  shape_BGS = (*shape_BG, sizes.turns)

  def vectors():
    size = (questions, max(many // 4, 1), sizes.width)
    apart = rng.standard_normal(size, np.float32)
    which_BM1 = rng.integers(0, size[1], shape_BM)[..., None]
    noise = rng.standard_normal((*shape_BM, sizes.width), np.float32)
    # cos of two copies: 1 / (1 + .3 ** 2) = .92 on average.
    return np.take_along_axis(apart, which_BM1, axis=1) + 0.3 * noise

  embedding_BME = vectors()
  success_BG = rng.random(shape_BG) < 0.5
  rollout_M = np.repeat(np.arange(sizes.rollouts, dtype=np.int32), facts)
  turn_M = np.tile(np.arange(facts, dtype=np.int32) % sizes.turns, shape_BG[1])
  search_S = np.arange(sizes.turns, dtype=np.float32) - 1
  return types.Scores(
    outcome=success_BG.astype(np.float32),
    success=success_BG,
    valid=rng.random(shape_BG) < 0.95,
    kind=np.full(shape_BGS, types.Kind.ASSERT, np.int32),
    judged=np.ones(shape_BGS, bool),
    signals={
      'search_of_assert': np.broadcast_to(search_S, shape_BGS).copy(),
      'repeated_search': np.zeros(shape_BGS, np.float32),
      'empty_answer': np.zeros(shape_BGS, np.float32),
    },
    facts={
      'embedding': embedding_BME,
      # Relations agree wherever facts do; the rule costs the same.
      'relation': embedding_BME[..., ::-1].copy(),
      'negated': rng.random(shape_BM) < 0.1,
      'numbers': rng.integers(0, 2, shape_BM).astype(np.int32),
      'key': rng.integers(0, many, shape_BM).astype(np.int32),
      'rollout': np.broadcast_to(rollout_M, shape_BM).copy(),
      'turn': np.broadcast_to(turn_M, shape_BM).copy(),
      'mask': rng.random(shape_BM) < 0.9,
    },
  )


def _scipy_clusters(facts) -> np.ndarray:
  """The baseline: cosines, rules and components of one question at a time."""

  def cosines(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T

  names = np.full(facts['mask'].shape, -1, np.int32)
  for b, mask in enumerate(facts['mask']):
    (there,) = np.nonzero(mask)
    negated, numbers = (
      facts[name][b, there] for name in ('negated', 'numbers')
    )
    linked = cosines(facts['embedding'][b, there]) >= _THRESHOLD
    linked &= cosines(facts['relation'][b, there]) >= _RELATION_THRESHOLD
    linked &= negated[:, None] == negated[None, :]
    linked &= numbers[:, None] == numbers[None, :]
    _, label = csgraph.connected_components(csr_matrix(linked), directed=False)
    # Labels are numbered anew; a cluster is named by its first fact.
    _, first = np.unique(label, return_index=True)
    names[b, there] = there[first[label]]
  return names


def _process(scores):
  return factagent.process(
    scores, threshold=_THRESHOLD, relation_threshold=_RELATION_THRESHOLD
  )


def _clusters(facts):
  names = ('embedding', 'relation', 'negated', 'numbers', 'mask')
  return factagent.cluster(
    *(facts[name] for name in names),
    threshold=_THRESHOLD,
    relation_threshold=_RELATION_THRESHOLD,
  )


def _compiled(function, argument):
  """(program, seconds of compiling it, MiB it needs)."""
  began = time.perf_counter()
  program = jax.jit(function).lower(argument).compile()
  seconds = time.perf_counter() - began
  memory = program.memory_analysis()
  needed = memory.argument_size_in_bytes + memory.output_size_in_bytes
  return program, seconds, (needed + memory.temp_size_in_bytes) / 2**20


def _timed(contestants, rounds: int) -> dict[str, dict[str, float]]:
  """Seconds of each contestant; they take turns, once uncounted."""
  seconds = {name: [] for name in contestants}
  for _ in range(rounds + 1):
    for name, run in contestants.items():
      time.sleep(_REST_SECONDS)
      began = time.perf_counter()
      jax.block_until_ready(run())
      seconds[name].append(time.perf_counter() - began)
  return {
    name: {
      'seconds': statistics.median(taken[1:]),
      'seconds_min': min(taken[1:]),
      'seconds_max': max(taken[1:]),
    }
    for name, taken in seconds.items()
  }


def _embedding(sizes: Sizes) -> dict[str, float]:
  """Texts of facts, all distinct, embedded on the host."""
  count = sizes.questions * sizes.rollouts * sizes.facts
  embed = NgramEmbedding(sizes.width)
  texts = [f'person {i} of town {i % 97} was born in {i}' for i in range(count)]
  began = time.perf_counter()
  embed(texts)
  return {'texts': count, 'seconds': time.perf_counter() - began}


def measure(sizes: Sizes) -> dict:
  """All figures.

  Raises:
    RuntimeError: the two roads found different clusters.
  """
  scores = _scores(sizes, sizes.questions, sizes.facts)
  facts = scores.facts
  there = jax.device_put(scores)
  process, compiling, memory = _compiled(_process, there)
  clusters, _, _ = _compiled(_clusters, there.facts)
  ours, theirs = np.asarray(clusters(there.facts)), _scipy_clusters(facts)
  if not np.array_equal(ours, theirs):
    raise RuntimeError('our clusters are not those of SciPy: credit is broken.')
  figures = _timed(
    {
      'process': lambda: process(there),
      'cluster': lambda: clusters(there.facts),
      'cluster_scipy': lambda: _scipy_clusters(facts),
    },
    sizes.rounds,
  )
  figures['process'] |= {'compile_seconds': compiling, 'memory_mib': memory}
  growth = []
  for count in sizes.grown_facts:
    grown = jax.device_put(_scores(sizes, sizes.grown_questions, count))
    program, _, memory = _compiled(_process, grown)
    taken = _timed({'': lambda p=program, s=grown: p(s)}, sizes.rounds)['']
    facts_of_question = sizes.rollouts * count
    growth.append({'M': facts_of_question, 'memory_mib': memory} | taken)
  return {
    'sizes': dataclasses.asdict(sizes),
    'clusters_per_question': len(np.unique(ours[0][ours[0] >= 0])),
    'figures': figures,
    'ratios': {
      'cluster_scipy/cluster': figures['cluster_scipy']['seconds']
      / figures['cluster']['seconds'],
      'cluster_scipy/process': figures['cluster_scipy']['seconds']
      / figures['process']['seconds'],
    },
    'growth_in_M': growth,
    'embedding': _embedding(sizes),
  }


def main(sizes: Sizes = Sizes()) -> None:
  """Measures and prints."""
  machine = (
    f'{platform.processor() or platform.machine()}, {os.cpu_count()} cores, '
    f'{jax.device_count()} x {jax.devices()[0].device_kind}, '
    f'jax {jax.__version__}, scipy {scipy.__version__}'
  )
  print(json.dumps({'machine': machine} | measure(sizes), indent=2))


if __name__ == '__main__':
  main()
