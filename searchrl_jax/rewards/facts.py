# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The facts that trajectories tell, as arrays.

A fact is a triple (subject, relation, object) told at a turn. FactAgent's
credit (`credit/factagent.py`) asks which facts of a group say the same; all
that takes reading is done here, on the host, so that credit stays numeric.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from searchrl_jax import types
from searchrl_jax.rewards import answers, negation, numbers

Triple = tuple[str, str, str]
# The facts of a trajectory, one tuple of triples a turn.
Extract = Callable[[types.Trajectory], tuple[tuple[Triple, ...], ...]]
# Texts -> [n, E].
Embed = Callable[[Sequence[str]], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Told:
  """A fact, told at `turn` by the rollout at place `rollout` of its group."""

  rollout: int
  turn: int
  triple: Triple


def asserted(trajectory: types.Trajectory) -> tuple[tuple[Triple, ...], ...]:
  """The triples that Assert turns enter into the store."""
  return tuple(
    tuple(
      (subject, relation, object_)
      for subject, relation, object_ in turn.action.arguments['triples']
    )
    if turn.action.kind == types.Kind.ASSERT
    else ()
    for turn in trajectory.turns
  )


def stated(trajectory: types.Trajectory) -> tuple[tuple[Triple, ...], ...]:
  """The triples that thoughts state about the search before them, by rule.

  A thought that begins with the words in which the latest earlier query ends
  takes up what was asked and adds a value:

    query "vepev founder"   thought "founder zurep"
    -> ("vepev", "founder", "zurep"), told at the turn of the thought

  The longest such overlap of whole words is the relation, whatever the case;
  words must be left for subject and value. Whether the search brought anything
  does not matter: a value made up was stated all the same.
  """
  query, facts = '', []
  for turn in trajectory.turns:
    fact = _stated(query, turn.action.arguments.get('thought', ''))
    facts.append((fact,) if fact else ())
    if turn.action.kind == types.Kind.SEARCH:
      query = turn.action.arguments['query']
  return tuple(facts)


def _stated(query: str, thought: str) -> Triple | None:
  asked, said = query.split(), thought.split()
  for size in reversed(range(1, min(len(asked), len(said)))):
    relation = ' '.join(asked[-size:])
    if relation.lower() == ' '.join(said[:size]).lower():
      return ' '.join(asked[:-size]), relation, ' '.join(said[size:])
  return None


def told(
  group: Sequence[types.Trajectory], extract: Extract
) -> tuple[Told, ...]:
  """The facts of a group, by rollout, turn and order within the turn.

  What a trajectory has told before, word for word in normal form, is left
  out: it adds nothing to its store.

  Raises:
    ValueError: where `extract` does not give one tuple a turn.
  """
  found = []
  for rollout, trajectory in enumerate(group):
    known = set()
    for turn, triples in enumerate(_by_turn(trajectory, extract)):
      for triple in triples:
        if (form := _normal(triple)) not in known:
          known.add(form)
          found.append(Told(rollout, turn, triple))
  return tuple(found)


def facts_of(
  groups: types.Groups,
  embed: Embed,
  *,
  max_facts: int,
  extract: Extract = asserted,
) -> dict[str, np.ndarray]:
  """The facts of B groups of G rollouts, padded to M = G * max_facts.

    rollout  0 0 1 1 1 3 . .     turn  1 3 1 1 5 1 . .     mask  1 1 1 1 1 1 0 0

  The rules of FactAgent that no embedding can be trusted with stand beside it:
  `negated` says whether relation or object deny, but not both ("not born in"
  Rome, born in "no city"); a name such as "Dr. No" is in either wording.

  Args:
    groups: B groups of G trajectories.
    embed: texts -> `[n, E]`; called once, with every distinct text once.
    max_facts: the most facts a trajectory may tell.
    extract: the facts of a trajectory, turn by turn.

  Returns:
    `embedding` `[B, M, E]` of "subject relation object" and `relation`
    `[B, M, E]` of the relation, float32; `negated` `[B, M]`; `numbers` and
    `key` `[B, M]` int32, equal within the batch where two facts name the same
    set of numbers, and where their normal forms are equal; `rollout` and
    `turn` `[B, M]` int32; `mask` `[B, M]`. Padding is 0 and comes last.

  Raises:
    ValueError: where a trajectory tells more than max_facts facts, or `embed`
      returns anything but one finite vector a text.
  """
  groups_told = [told(group, extract) for group in groups]
  _check(groups_told, max_facts)
  place = _embedded(groups_told, embed)
  size = (len(groups), len(groups[0]) * max_facts)
  width = place.vectors.shape[1]
  arrays = {
    'embedding': np.zeros((*size, width), np.float32),
    'relation': np.zeros((*size, width), np.float32),
    'negated': np.zeros(size, bool),
    'numbers': np.zeros(size, np.int32),
    'key': np.zeros(size, np.int32),
    'rollout': np.zeros(size, np.int32),
    'turn': np.zeros(size, np.int32),
    'mask': np.zeros(size, bool),
  }
  number_ids, key_ids = {}, {}
  for b, facts in enumerate(groups_told):
    for m, fact in enumerate(facts):
      row = {
        'embedding': place.of(_sentence(fact.triple)),
        'relation': place.of(fact.triple[1]),
        'negated': _denies(fact.triple),
        'numbers': _id(number_ids, _numbers(fact.triple)),
        'key': _id(key_ids, _normal(fact.triple)),
        'rollout': fact.rollout,
        'turn': fact.turn,
        'mask': True,
      }
      for name, value in row.items():
        arrays[name][b, m] = value
  return arrays


def add_facts(
  scores: types.Scores,
  groups: types.Groups,
  embed: Embed,
  *,
  max_facts: int,
  extract: Extract = asserted,
) -> types.Scores:
  """Adds the facts of `facts_of` and what credit must know of their turns.

  Args:
    scores: of these groups.
    groups: B groups of G trajectories.
    embed: see `facts_of`.
    max_facts: see `facts_of`.
    extract: see `facts_of`.

  Returns:
    Scores with `facts`, and with the signals `[B, G, S]` float32:
      search_of_assert: the turn of the search whose passages a turn's facts
        were read from, the latest one before it; -1 where the turn has no
        facts, or that search is missing or brought nothing.
      repeated_search: 1 where the normalised query was asked before.
      empty_answer: 1 where a turn answers and no fact was told until then.

  Raises:
    ValueError: as `facts_of`.
  """
  signals = np.zeros((3, *scores.kind.shape), np.float32)
  signals[0] = -1
  for b, group in enumerate(groups):
    for g, trajectory in enumerate(group):
      triples = _by_turn(trajectory, extract)
      for t, marks in enumerate(_marks(trajectory, triples)):
        signals[:, b, g, t] = marks
  search_of_assert_BGS, repeated_BGS, empty_BGS = signals
  return dataclasses.replace(
    scores,
    facts=facts_of(groups, embed, max_facts=max_facts, extract=extract),
    signals={
      **scores.signals,
      'search_of_assert': search_of_assert_BGS,
      'repeated_search': repeated_BGS,
      'empty_answer': empty_BGS,
    },
  )


def fact_recall(trajectory: types.Trajectory, extract: Extract) -> float | None:
  """The share of the question's hops that were told.

  A hop counts where one fact has its subject as subject and its object as
  object, in normal form; how the relation is worded is free.

  Returns:
    The share, None where the question has no hops.
  """
  hops = trajectory.question.hops
  if not hops:
    return None
  ends = {
    (_form(subject), _form(object_))
    for triples in extract(trajectory)
    for subject, _, object_ in triples
  }
  found = [(_form(hop.subject), _form(hop.object)) in ends for hop in hops]
  return sum(found) / len(hops)


def _by_turn(trajectory: types.Trajectory, extract: Extract):
  triples = extract(trajectory)
  if len(triples) != len(trajectory.turns):
    raise ValueError(
      f'extract gave facts of {len(triples)} turns for a trajectory of '
      f'{len(trajectory.turns)}; it must give one tuple a turn'
    )
  return triples


def _marks(trajectory, triples) -> Iterable[tuple[float, float, float]]:
  """The three signals of every turn."""
  source, asked, any_fact = -1, set(), False
  for t, turn in enumerate(trajectory.turns):
    any_fact |= bool(triples[t])
    repeated = False
    search_of_assert = source if triples[t] else -1
    if turn.action.kind == types.Kind.SEARCH:
      query = _form(turn.action.arguments['query'])
      repeated = query in asked
      asked.add(query)
      # A later search that failed hides the passages of an earlier one.
      source = t if any(item.documents for item in turn.evidence) else -1
    empty = turn.action.kind == types.Kind.ANSWER and not any_fact
    yield search_of_assert, repeated, empty


def _check(groups_told: Sequence[Sequence[Told]], max_facts: int) -> None:
  for facts in groups_told:
    counts = np.bincount([fact.rollout for fact in facts] or [0])
    if facts and counts.max() > max_facts:
      raise ValueError(
        f'a trajectory tells {counts.max()} facts, more than max_facts = '
        f'{max_facts}; raise it or let the environment take fewer'
      )


@dataclasses.dataclass(frozen=True)
class _Embedded:
  """Vectors by text."""

  row: Mapping[str, int]
  vectors: np.ndarray  # [n, E]

  def of(self, text: str) -> np.ndarray:
    return self.vectors[self.row[text]]


def _embedded(groups_told: Sequence[Sequence[Told]], embed: Embed):
  triples = [fact.triple for facts in groups_told for fact in facts]
  texts = [text for one in triples for text in (_sentence(one), one[1])]
  # Without facts, one empty text tells the width.
  texts = list(dict.fromkeys(texts)) or ['']
  vectors = np.asarray(embed(texts))
  if vectors.ndim != 2 or len(vectors) != len(texts):
    raise ValueError(
      f'embed returned an array of shape {vectors.shape} for {len(texts)} '
      f'texts; it must be [{len(texts)}, E]'
    )
  if not np.isfinite(vectors).all():
    raise ValueError('embed returned numbers that are not finite')
  return _Embedded({text: i for i, text in enumerate(texts)}, vectors)


def _sentence(triple: Triple) -> str:
  return ' '.join(triple)


@functools.lru_cache(maxsize=1 << 14)
def _denies(triple: Triple) -> bool:
  _, relation, object_ = triple
  return negation.negated(relation) != negation.negated(object_)


@functools.lru_cache(maxsize=1 << 14)
def _numbers(triple: Triple) -> frozenset:
  # Part by part: digits of two parts are never one number.
  return frozenset().union(*map(numbers.numbers_in, triple))


def _normal(triple: Triple) -> Triple:
  subject, relation, object_ = triple
  return _form(subject), _form(relation), _form(object_)


def _form(text: str) -> str:
  """The normal form of answers; as it stands where that would be empty."""
  return answers.normalise(text) or ' '.join(text.lower().split())


def _id(ids: dict, value) -> int:
  """A number for a value, the same whenever it comes back."""
  return ids.setdefault(value, len(ids))
