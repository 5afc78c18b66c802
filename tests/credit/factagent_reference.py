# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""FactAgent's credit for one group, slow and obvious: loops, sets, floats.

Facts are dicts with `embedding`, `relation`, `negated`, `numbers`, `key`,
`rollout`, `turn`; None stands where a fact is masked. Nothing here is shared
with the code it checks.
"""

import math
import statistics


def cosine(one, other):
  dot = sum(a * b for a, b in zip(one, other, strict=True))
  lengths = math.hypot(*one) * math.hypot(*other)
  return dot / lengths if lengths else 0.0


def link(one, other, threshold, relation_threshold):
  if one['negated'] != other['negated'] or one['numbers'] != other['numbers']:
    return False
  values = [*one['embedding'], *other['embedding']]
  values += [*one['relation'], *other['relation']]
  if not all(map(math.isfinite, values)):
    return False
  if not any(one['embedding']) or not any(other['embedding']):
    return False
  return (
    cosine(one['embedding'], other['embedding']) >= threshold - 1e-6
    and cosine(one['relation'], other['relation']) >= relation_threshold - 1e-6
  )


def components(facts, linked):
  """Spreads the smallest index along links until nothing changes."""
  name = [-1 if fact is None else i for i, fact in enumerate(facts)]
  pairs = [
    (i, j)
    for i, one in enumerate(facts)
    for j, other in enumerate(facts)
    if i < j and one is not None and other is not None and linked(one, other)
  ]
  changed = True
  while changed:
    changed = False
    for i, j in pairs:
      if name[i] != name[j]:
        name[i] = name[j] = min(name[i], name[j])
        changed = True
  return name


def cluster(facts, threshold, relation_threshold):
  return components(
    facts, lambda one, other: link(one, other, threshold, relation_threshold)
  )


def cluster_exact(facts):
  return components(facts, lambda one, other: one['key'] == other['key'])


def utilities(facts, name, success, valid, prior):
  trusted = [g for g, good in enumerate(valid) if good]
  result = []
  for fact, mine in zip(facts, name, strict=True):
    if fact is None or not trusted:
      result.append(0.0)
      continue
    appears = {
      other['rollout']
      for other, its in zip(facts, name, strict=True)
      if other is not None and its == mine
    } & set(trusted)
    n, s = len(appears), sum(success[g] for g in appears)
    rate = sum(success[g] for g in trusted) / len(trusted)
    result.append(
      (s + prior) / (n + 2 * prior) - rate if n + 2 * prior > 0 else 0.0
    )
  return result


def shaping(facts, name, utility, asserts, search_of, to_search):
  """Plays every rollout's turns in order; also the final potentials."""
  rewards, finals = [], []
  for g, turns in enumerate(asserts):
    store, reward = {}, [0.0] * len(turns)
    for t, writes in enumerate(turns):
      before = math.tanh(sum(store.values()))
      for fact, mine, worth in zip(facts, name, utility, strict=True):
        if fact is not None and (fact['rollout'], fact['turn']) == (g, t):
          store.update({mine: worth} if writes else {})
      earned = math.tanh(sum(store.values())) - before
      search = search_of[g][t]
      if search >= 0:
        reward[search] += to_search * earned
        earned *= 1 - to_search
      reward[t] += earned
    rewards.append(reward)
    finals.append(math.tanh(sum(store.values())))
  return rewards, finals


def normalized(reward, exists):
  """`exists[g][t]`: the turns of valid rollouts."""
  values = [
    value
    for row, turns in zip(reward, exists, strict=True)
    for value, there in zip(row, turns, strict=True)
    if there
  ]
  if len(values) < 2 or max(values) - min(values) <= 1e-6:
    return [[0.0] * len(row) for row in reward]
  mean, std = statistics.mean(values), statistics.stdev(values)
  return [
    [
      (value - mean) / (std + 1e-6) if there else 0.0
      for value, there in zip(row, turns, strict=True)
    ]
    for row, turns in zip(reward, exists, strict=True)
  ]
