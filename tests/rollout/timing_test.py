# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a trajectory says does not depend on when things happen.

Tools answer late and out of order, rows are many or few, conversations wait,
are overtaken, share a row one after another: tokens and log-probs stay, bit
for bit where the shapes of the devices' arrays stay.
"""

import dataclasses
import threading
import time

import jax
import numpy as np
import pytest

from benchmarks.lock_step import LockStep
from searchrl_jax import types
from searchrl_jax.rollout.requests import Tools
from searchrl_jax.testing import DictionarySearch

KEY = jax.random.key(3)
GROUP = 4


@dataclasses.dataclass(frozen=True)
class Late:
  """A resolver whose calls take random times; every one on its own thread."""

  inner: types.Resolver
  seed: int
  most: float = 0.03  # seconds
  lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
  calls: list[int] = dataclasses.field(default_factory=list)

  def __call__(self, requests):
    with self.lock:
      self.calls.append(len(requests))
      number = len(self.calls)
    wait = np.random.default_rng((self.seed, number)).uniform(0, self.most)
    time.sleep(wait)
    return self.inner(requests)


@dataclasses.dataclass(frozen=True)
class Musing:
  """Asks itself twice before every reply, in contexts of its own."""

  stops: tuple[str, ...] = ('>',)
  all_turns: int = 3

  def start(self, question):
    return (question.text, 0), f'question {question.text}'

  def act(self, state, text):
    text_before, turn = state
    requests = (
      types.Generate(f'who {text_before}', types.Sampling(temperature=0.5)),
      types.Search('ada', topk=1, corpus=''),
      types.Generate('bob', types.Sampling(temperature=0)),
    )
    action = types.Action(types.Kind.SEARCH, {'query': text})
    return (text_before, turn + 1), action, requests

  def reply(self, state, results):
    if state[1] == self.all_turns:
      return state, types.Stop(types.Status.TURN_LIMIT)
    return state, types.Append(' who bob')

  def render(self, action):
    return action.arguments['query']


@dataclasses.dataclass(frozen=True)
class Diary:
  """Rebuilds its context: the question, the last turn, how many there were."""

  stops: tuple[str, ...] = ('>',)
  all_turns: int = 3

  def start(self, question):
    return (question.text, 0), f'question {question.text} who ada'

  def act(self, state, text):
    requests = (types.Search('bob', topk=1, corpus=''),)
    action = types.Action(types.Kind.ASSERT, {'triples': [text]})
    return (state[0], state[1] + 1), action, requests

  def reply(self, state, results):
    if state[1] == self.all_turns:
      return state, types.Stop(types.Status.TURN_LIMIT)
    told = ' bob' * state[1]
    return state, types.Rebuild(f'question {state[0]} who{told}')

  def render(self, action):
    return action.arguments['triples'][0]


def flat(groups):
  return [trajectory for members in groups for trajectory in members]


def same(groups, others, **tolerance):
  """Equal trajectories in equal places; log-probs to the bit unless told."""
  for one, other in zip(flat(groups), flat(others), strict=True):
    assert (one.question.id, one.rollout) == (other.question.id, other.rollout)
    assert one.status == other.status
    for turn, twin in zip(one.turns, other.turns, strict=True):
      assert (turn.text, turn.reply) == (twin.text, twin.reply)
      assert turn.evidence == twin.evidence
    for row, twin in zip(one.rows, other.rows, strict=True):
      np.testing.assert_array_equal(row.tokens, twin.tokens)
      np.testing.assert_array_equal(row.turn_id, twin.turn_id)
      if tolerance:
        np.testing.assert_allclose(row.logps, twin.logps, **tolerance)
      else:
        np.testing.assert_array_equal(row.logps, twin.logps)


@pytest.fixture(scope='module', params=['append', 'rebuild', 'muse'])
def environment(request, world):
  """Search-R1, a rebuilt context, and one that asks itself."""
  return {
    'append': world.environment,
    'rebuild': Diary(),
    'muse': Musing(),
  }[request.param]


@pytest.fixture(scope='module')
def few(world, environment):
  """Eight rows of which three decode; programs shared by the tests."""
  return world.policy(8, width=3, reserved=2, stops=environment.stops)


def play(world, policy, questions, environment, **other):
  policy.use(types.Sampling(), KEY)
  other.setdefault('resolve', world.resolve)
  return world.play(policy, questions, GROUP, environment=environment, **other)


def test_late_tools_change_no_bit(world, few, environment, questions):
  calm = play(world, few, questions, environment)
  turns = [turn for one in flat(calm) for turn in one.turns]
  assert len({turn.text for turn in turns}) > 12
  assert any(turn.evidence for turn in turns)
  work = work_of(few, lambda: play(world, few, questions, environment))
  orders = set()
  for seed in range(3):
    late = Late(world.resolve, seed)
    hurried, order = [], []

    def hurry(late=late, hurried=hurried, order=order):
      hurried += play(
        world,
        few,
        questions,
        environment,
        resolve=late,
        tools=Tools(concurrency=16),
        watch=lambda question, rollout, turn: order.append(
          (question.id, rollout)
        ),
      )

    # No token is read or drawn twice, whoever had to wait.
    assert work_of(few, hurry) == work
    same(calm, hurried)
    orders.add(tuple(order))
  assert len(orders) > 1  # things did happen in another order


def work_of(policy, run):
  """Tokens that a policy reads, copies and draws while something runs."""
  names = ('prefilled_tokens', 'shared_tokens', 'decoded_tokens')
  before = [getattr(policy.counters, name) for name in names]
  run()
  after = [getattr(policy.counters, name) for name in names]
  return [b - a for a, b in zip(before, after, strict=True)]


@pytest.mark.parametrize(
  'rows, width, devices', [(4, 4, 1), (32, 5, 1), (16, 16, 4)]
)
def test_rows_and_lanes_change_nothing_but_rounding(
  world, few, environment, questions, rows, width, devices
):
  calm = play(world, few, questions, environment)
  other = world.policy(
    rows, devices, width=width, reserved=devices, stops=environment.stops
  )
  same(calm, play(world, other, questions, environment), atol=1e-5)


@pytest.mark.parametrize('environment', ['append', 'rebuild'], indirect=True)
def test_the_first_engine_says_the_same(world, few, environment, questions):
  """In lock step, with a living cache and with contexts read anew; it knows
  no requests to itself."""
  calm = play(world, few, questions, environment)
  for again in (False, True):
    referee = LockStep(
      world.model,
      world.tokenizer,
      environment.stops,
      rows=8,
      capacity=96,
      max_new_tokens=6,
      again=again,
    )
    referee.load(world.params)
    same(calm, play(world, referee, questions, environment), atol=1e-5)


def test_questions_in_another_order_are_answered_alike(
  world, few, environment, questions
):
  calm = play(world, few, questions, environment)
  turned = play(world, few, questions[::-1], environment)
  same(calm, turned[::-1])


def test_a_hung_tool_costs_its_own_trajectory(world, sampler, questions):
  """It fails at its deadline, for that turn; nobody else says another word."""
  few = sampler
  calm = play(world, few, questions, world.environment)
  never = threading.Event()

  class Hanging(DictionarySearch):
    def __call__(self, requests):
      if any(request.query == 'bob' for request in requests):
        never.wait()
      return super().__call__(requests)

  hanging = Hanging(world.resolve.passages, failing=world.resolve.failing)
  groups = play(
    world,
    few,
    questions,
    world.environment,
    resolve=hanging,
    tools=Tools(concurrency=2, deadline=0.2),
  )
  hung = 0
  for one, other in zip(flat(calm), flat(groups), strict=True):
    queries = [t.action.arguments.get('query') for t in one.turns]
    if 'bob' in queries[:-1]:
      turn = other.turns[queries.index('bob')]
      if turn.evidence == () and turn.failures:
        hung += 1
        assert 'no answer within' in turn.failures[0]
    else:
      same([[one]], [[other]])
  assert hung > 0
