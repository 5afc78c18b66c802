# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What the facts of a question were worth: its clusters, in words.

Methods that credit facts note on every turn the facts it told, the cluster of
each among the facts of the question's rollouts, and the cluster's utility:

  {"facts": [{"fact": [subject, relation, object], "cluster": 4,
              "utility": 0.3333, "new": true}, ...], ...}
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence

from searchrl_jax import traces

CLUSTERS = 40  # of a question, shown
WORDINGS = 6  # of a cluster, shown
LONGEST = 300  # characters of any one text


@dataclasses.dataclass(frozen=True)
class Cluster:
  """Facts that were taken for one.

  Attributes:
    utility: None where it was not finite.
    rollouts: of the group, how many told it.
    successes: how many of those succeeded.
    wordings: its distinct facts in words, those told first.
    more: further distinct facts that are not shown.
  """

  utility: float | None
  rollouts: int
  successes: int
  wordings: Sequence[str]
  more: int


@dataclasses.dataclass(frozen=True)
class Question:
  """A question of a step, its group and the clusters of what it told.

  `invalid` rollouts are without a trustworthy outcome and no part of
  `successes`. `clusters` begin with the highest utility; `more` of them, with
  utilities nearest to 0, are not shown.
  """

  step: int
  text: str
  answers: Sequence[str]
  rollouts: int
  successes: int
  invalid: int
  clusters: Sequence[Cluster]
  more: int


class Clusters:
  """The last questions of a stream whose turns note their facts.

  Args:
    limit: questions kept.
  """

  def __init__(self, *, limit: int):
    self._kept = collections.deque(maxlen=limit)
    self._key = None
    self._last_rollout = -1
    self._open: _Group | None = None

  def add(self, trace: traces.Trace) -> None:
    """Takes in the next trajectory of the stream; groups are consecutive."""
    trajectory = trace.trajectory
    key = trace.phase, trace.step, trajectory.question.id
    # A question drawn twice in a step has two groups: rollouts start anew.
    if key != self._key or trajectory.rollout <= self._last_rollout:
      self._open = _Group(trace)
    self._key, self._last_rollout = key, trajectory.rollout
    self._open.add(trace)
    # Rollouts without a turn note nothing and still count in their group.
    noted = any('facts' in note for note in trace.notes)
    if noted and not (self._kept and self._kept[-1] is self._open):
      self._kept.append(self._open)

  def questions(self) -> list[Question]:
    """What was kept so far, in the order of time."""
    return [group.question() for group in self._kept]


def words(fact: Sequence[str]) -> str:
  """A triple as people read it: `Ann —spouse→ Bob`."""
  subject, relation, object_ = fact
  return cut(f'{subject} —{relation}→ {object_}')


def cut(text: str) -> str:
  return text if len(text) <= LONGEST else text[:LONGEST] + '…'


class _Group:
  """The rollouts of one question, added up as they come."""

  def __init__(self, trace: traces.Trace):
    question = trace.trajectory.question
    self._step = trace.step
    self._text = cut(question.text)
    self._answers = [cut(answer) for answer in question.answers[:20]]
    self._rollouts = self._successes = self._invalid = 0
    self._tallies: dict[int, _Tally] = {}

  def add(self, trace: traces.Trace) -> None:
    success = bool(trace.success and trace.valid)
    self._rollouts += 1
    self._successes += success
    self._invalid += not trace.valid
    told = set()
    for note in trace.notes:
      for fact in note.get('facts', ()):
        if fact['cluster'] < 0:  # a fact that was taken for none
          continue
        tally = self._tallies.setdefault(fact['cluster'], _Tally())
        tally.utility = fact['utility']
        tally.wordings[words(fact['fact'])] = None
        told.add(fact['cluster'])
    for cluster in told:
      self._tallies[cluster].rollouts += 1
      self._tallies[cluster].successes += success

  def question(self) -> Question:
    clusters = [tally.cluster() for tally in self._tallies.values()]
    # Those that decide credit are shown; sorting is stable.
    clusters.sort(key=lambda one: -abs(one.utility or 0.0))
    shown = sorted(clusters[:CLUSTERS], key=_highest_first)
    return Question(
      step=self._step,
      text=self._text,
      answers=self._answers,
      rollouts=self._rollouts,
      successes=self._successes,
      invalid=self._invalid,
      clusters=shown,
      more=len(clusters) - len(shown),
    )


@dataclasses.dataclass
class _Tally:
  """A cluster while its group is read."""

  utility: float | None = None
  rollouts: int = 0
  successes: int = 0
  # An ordered set: a dictionary whose values say nothing.
  wordings: dict[str, None] = dataclasses.field(default_factory=dict)

  def cluster(self) -> Cluster:
    shown = list(self.wordings)[:WORDINGS]
    return Cluster(
      utility=self.utility,
      rollouts=self.rollouts,
      successes=self.successes,
      wordings=shown,
      more=len(self.wordings) - len(shown),
    )


def _highest_first(cluster: Cluster) -> tuple[float, int]:
  """By utility, then by the rollouts that told it; unknown ones last."""
  utility = -math.inf if cluster.utility is None else cluster.utility
  return -utility, -cluster.rollouts
