# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A model that speaks: shared prompts, living caches, rows that never meet."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import packing, sharding, types
from searchrl_jax.rollout import engine
from searchrl_jax.rollout.model_policy import ModelPolicy
from searchrl_jax.rollout.policy import Asked, ScriptPolicy
from searchrl_jax.testing import Notebook, Script, ToyTokenizer
from searchrl_jax.training import logps

KEY = jax.random.key(3)
TURN_TOKENS = 6  # of a turn, at most


@pytest.fixture(autouse=True)
def same_draws(sampler):
  sampler.use(types.Sampling(), KEY)


def same(one, other, **tolerance):
  """Two trajectories with equal tokens and log-probs, bit for bit unless a
  tolerance says otherwise."""
  assert len(one.rows) == len(other.rows)
  for a, b in zip(one.rows, other.rows, strict=True):
    np.testing.assert_array_equal(a.tokens, b.tokens)
    np.testing.assert_array_equal(a.turn_id, b.turn_id)
    if tolerance:
      np.testing.assert_allclose(a.logps, b.logps, **tolerance)
    else:
      np.testing.assert_array_equal(a.logps, b.logps)
  assert one.status == other.status
  assert [t.text for t in one.turns] == [t.text for t in other.turns]


# --- one prompt, many rows ---------------------------------------------------


def draw(policy, asked):
  """The turns asked for, in that order."""
  for one in asked:
    policy.ask(one)
  said = {}
  while policy.busy:
    said |= {one.id: turn for one, turn in policy.advance()}
  return [said[one.id] for one in asked]


def converse(policy, prompts, question, sharing):
  """Two turns of four rows with a given reply between them; their draws."""
  contexts = [list(prompt) for prompt in prompts]
  said = []
  for turn in range(2):
    asked = [
      Asked(row, question, row, (None,) * turn, context, 6, sharing)
      for row, context in enumerate(contexts)
    ]
    said.append(draw(policy, asked))
    for row, one in enumerate(said[-1]):
      contexts[row] = contexts[row] + one.tokens.tolist()
      contexts[row] += [5, 6, 7][: row % 3 + 1]
  for row in range(4):
    policy.release(row)
  return said


def test_rows_share_the_prefill_of_their_prompt(world, sampler, questions):
  prompt = world.tokenizer.encode('question who ada bob who')
  replies = 1 + 2 + 3 + 1
  spent = sampler.counters.prefilled_tokens
  together = converse(sampler, [prompt] * 4, questions[0], sharing=4)
  once = sampler.counters.prefilled_tokens - spent
  alone = converse(sampler, [prompt] * 4, questions[0], sharing=1)
  four_times = sampler.counters.prefilled_tokens - spent - once
  assert once == len(prompt) + replies
  assert four_times == 4 * len(prompt) + replies
  for turn, other_turn in zip(together, alone, strict=True):
    for said, other in zip(turn, other_turn, strict=True):
      assert said.tokens.tolist() == other.tokens.tolist()
      assert said.stopped == other.stopped
      np.testing.assert_allclose(said.logps, other.logps, atol=1e-5)
  # The rows said different things: sharing a cache is not sharing a voice.
  first = {tuple(said.tokens) for said in together[0]}
  assert len(first) == 4


def test_a_turn_costs_only_its_new_tokens(world, sampler, questions):
  before = dataclasses.replace(sampler.counters)
  groups = world.play(sampler, questions[:2], group=4)
  played = [trajectory for members in groups for trajectory in members]
  assert max(len(trajectory.turns) for trajectory in played) > 2
  prompts = sum(
    len(world.tokenizer.encode(members[0].prompt)) for members in groups
  )
  # A reply after which nothing was said is never read.
  replies = sum(
    len(world.tokenizer.encode(turn.reply))
    for trajectory in played
    for turn in trajectory.turns[:-1]
  )
  sampled = sum(int(t.rows[0].sampled.sum()) for t in played)
  spent = sampler.counters
  assert spent.prefilled_tokens - before.prefilled_tokens == prompts + replies
  assert spent.decoded_tokens - before.decoded_tokens == sampled
  shared = spent.shared_tokens - before.shared_tokens
  assert shared == 4 * prompts
  # Rows decode together: fewer steps than tokens, none longer than a turn.
  turns = max(len(trajectory.turns) for trajectory in played)
  steps = spent.decode_steps - before.decode_steps
  assert sampled / 8 <= steps <= turns * TURN_TOKENS * 8


def test_more_than_a_row_holds_is_one_line(sampler, questions):
  with pytest.raises(ValueError, match='raise the context') as error:
    sampler.ask(Asked(0, questions[0], 0, (), [2] * 95, 6))
  assert '\n' not in str(error.value)
  assert not sampler.busy


def test_weights_change_between_rollouts_only(world, sampler, questions):
  sampler.ask(Asked(0, questions[0], 0, (), [2], 6))
  with pytest.raises(ValueError, match='between rollouts') as error:
    sampler.load(world.params)
  assert '\n' not in str(error.value)
  sampler.release(0)
  sampler.load(world.params)


# --- a trajectory is its own -------------------------------------------------


def test_the_same_key_twice_is_the_same_rollout(world, sampler, questions):
  one = world.play(sampler, questions[:2], group=4)
  again = world.play(sampler, questions[:2], group=4)
  for members, others in zip(one, again, strict=True):
    for trajectory, other in zip(members, others, strict=True):
      same(trajectory, other)
  sampler.use(types.Sampling(), jax.random.key(4))
  new = world.play(sampler, questions[:2], group=4)
  texts = [[t.response for t in members] for members in (one[0], new[0])]
  assert texts[0] != texts[1]


@pytest.mark.parametrize('place', range(4))
def test_a_trajectory_does_not_know_its_neighbours(
  world, sampler, questions, place
):
  """Question 1 alone in a padded batch, and at every place among others."""
  ((alone_0, alone_1),) = world.play(sampler, questions[1:2], group=2)
  others = [questions[i] for i in (0, 2, 3)]
  among = [*others[:place], questions[1], *others[place:]]
  groups = world.play(sampler, among, group=2)
  same(groups[place][0], alone_0)
  same(groups[place][1], alone_1)
  assert len(alone_0.turns) > 1  # its cache lived on beside the others'


def test_a_short_prompt_beside_a_long_one_is_as_alone(
  world, sampler, questions
):
  """Equal but for rounding where the neighbour makes the padding longer."""
  long = types.Question('long', ' '.join(['ada'] * 20), ('bob',))
  alone = world.play(sampler, questions[1:2], group=2)[0]
  beside = world.play(sampler, [long, questions[1]], group=2)[1]
  for one, other in zip(alone, beside, strict=True):
    same(one, other, atol=1e-5)


def test_rollout_and_turn_have_draws_of_their_own(world, sampler, questions):
  (members,) = world.play(sampler, questions[1:2], group=8)
  assert len({t.turns[0].text for t in members}) > 4
  again = world.play(sampler, questions[1:2], group=2)[0]
  for one, other in zip(members[:2], again, strict=True):
    same(one, other, atol=1e-5)  # the size of the group is no seed


def test_one_device_is_eight(world, sampler, questions):
  """Every device decodes a row of its own."""
  one = world.play(sampler, questions)
  eight = world.play(world.policy(rows=8, devices=8), questions)
  for (trajectory,), (other,) in zip(one, eight, strict=True):
    same(trajectory, other, atol=1e-5)


# --- contexts that are rebuilt -----------------------------------------------


@dataclasses.dataclass(frozen=True)
class Diary:
  """Every turn replaces the context by a prompt of the last thing said."""

  stops: tuple[str, ...] = ('>',)

  def start(self, question):
    return (question.text, 0), f'question {question.text}'

  def act(self, state, text):
    action = types.Action(types.Kind.ASSERT, {'triples': [text]})
    return (state[0], state[1] + 1), action, ()

  def reply(self, state, results):
    if state[1] == 3:
      return state, types.Stop(types.Status.TURN_LIMIT)
    return state, types.Rebuild('question who' + ' bob' * state[1])

  def render(self, action):
    return action.arguments['triples'][0]


def test_a_model_in_rebuilt_contexts_speaks_as_if_they_were_new(
  world, sampler, questions
):
  groups = world.play(sampler, questions[:2], group=4, environment=Diary())
  for members in groups:
    for trajectory in members:
      assert len(trajectory.rows) == len(trajectory.turns) == 3
      for t, row in enumerate(trajectory.rows):
        assert set(row.turn_id) == {-1, t}
  batch = packing.pack(groups, length=64)

  @jax.jit
  def score(params, batch):
    hidden = world.model.apply(
      params, batch.tokens, batch.positions, batch.segment_ids
    )
    head = world.model.unembedding(params)
    return logps.token_logps(hidden, head, batch.tokens, chunk=64)[0]

  expected_NL = np.asarray(score(world.params, batch))
  np.testing.assert_allclose(
    batch.sampler_logps[batch.sampled], expected_NL[batch.sampled], atol=1e-4
  )


def test_a_rebuilt_context_is_read_from_where_it_differs(
  world, sampler, questions
):
  sampler.load(world.params)  # forgets the prompts of other tests
  before = dataclasses.replace(sampler.counters)
  (members,) = world.play(sampler, questions[:1], 2, environment=Diary())
  read = len(world.tokenizer.encode(members[0].prompt))  # once for both
  for trajectory in members:
    for row, after in itertools.pairwise(trajectory.rows):
      context = after.tokens[~after.sampled].tolist()
      same = itertools.takewhile(
        lambda pair: pair[0] == pair[1],
        zip(row.tokens.tolist(), context, strict=False),
      )
      shared = min(len(list(same)), len(context) - 1)
      assert shared > 1  # 'question who' at least
      read += len(context) - shared
  spent = sampler.counters.prefilled_tokens - before.prefilled_tokens
  assert spent == read


def test_a_script_in_rebuilt_contexts(world):
  notes = [
    types.Action(types.Kind.ASSERT, {'triples': [word]}) for word in ('a', 'b')
  ]
  answer = types.Action(types.Kind.ANSWER, {'answer': 'c'})
  toy = ToyTokenizer(('note ', 'answer '))
  policy = ScriptPolicy(Script((*notes, answer)), Notebook(), toy)
  question = types.Question('q', 'why', ('c',))
  ((trajectory,),) = world.play(
    policy, [question], environment=Notebook(), tokenizer=toy
  )
  texts = [toy.decode(row.tokens) for row in trajectory.rows]
  assert texts == ['why|note a.', 'why|a|note b.', 'why|a,b|answer c.']
  assert [set(row.turn_id) for row in trajectory.rows] == [
    {-1, 0},
    {-1, 1},
    {-1, 2},
  ]
  assert trajectory.answer == 'c'


# --- scripts -----------------------------------------------------------------


def test_a_script_draws_with_certainty_and_within_its_budget(world, questions):
  search = types.Action(types.Kind.SEARCH, {'query': 'ada'})
  script = ScriptPolicy(Script((search,)), world.environment, world.tokenizer)
  text = world.environment.render(search)
  whole = world.tokenizer.encode(text)
  for budget, stopped in ((len(whole), True), (len(whole) - 1, False)):
    (said,) = draw(script, [Asked(0, questions[0], 0, (), (), budget)])
    assert said.tokens.tolist() == whole[:budget]
    assert said.logps.tolist() == [0.0] * budget
    assert said.stopped == stopped


# --- programs ----------------------------------------------------------------


@pytest.fixture(scope='module')
def parrots(parrot):
  """A policy that says 'abc.' for ever, cheap to compile."""
  toy = ToyTokenizer()
  size = len(toy.token_bytes)
  policy = ModelPolicy(
    parrot(size),
    toy,
    ('.',),
    rows=8,
    width=8,
    capacity=100,
    max_new_tokens=4,
    append_rows=4,
    append_tokens=100,
    mesh=sharding.make_mesh(devices=jax.devices()[:1]),
  )
  said = jnp.array(toy.encode('abc.' * 25), jnp.int32)
  policy.load({'script': said})
  policy.use(types.Sampling(temperature=0), KEY)
  return policy


def talk(policy, lengths, replies):
  """One batch: prompts of these lengths, a turn, replies, a turn."""
  question = types.Question('q', 'q', ('q',))
  contexts = [[2] * n for n in lengths for _ in range(2)]
  for turn in range(2):
    asked = [
      Asked(r, question, r % 2, (None,) * turn, context, 4, sharing=2)
      for r, context in enumerate(contexts)
    ]
    for r, said in enumerate(draw(policy, asked)):
      reply = [2] * replies[r % len(replies)]
      contexts[r] = contexts[r] + said.tokens.tolist() + reply
  for r in range(len(contexts)):
    policy.release(r)


def test_a_warm_up_compiles_everything(parrots):
  parrots.warm_up()
  # 16, 24, 32, 48, 64, 96 and 100 tokens, a copy, and decoding.
  assert parrots.compiled_programs == 7 + 2
  # Prompts and replies of any length, a last, partial batch, any number of
  # living rows: nothing new.
  for longest in range(1, 41, 3):
    talk(parrots, [longest, 1, 5], [longest, 2])
  talk(parrots, [7], [3])
  talk(parrots, [7, 9, 11, 13], [40, 1, 1, 1])
  assert parrots.compiled_programs == 7 + 2


def test_a_context_may_fill_the_cache_but_for_one_token(parrots):
  """99 of 100 columns: the bucket above 96 would be 128."""
  question = types.Question('q', 'q', ('q',))
  toy = ToyTokenizer()
  for sharing in (1, 2):  # into the row itself; by way of a prompt slot
    (said,) = draw(parrots, [Asked(0, question, 0, (), [2] * 99, 1, sharing)])
    assert toy.decode(said.tokens) == ('abc.' * 25)[98]
    assert not said.stopped
    parrots.release(0)
  draw(parrots, [Asked(0, question, 0, (), [2], 1)])
  (said,) = draw(parrots, [Asked(0, question, 0, (None,), [2] * 99, 1)])
  assert toy.decode(said.tokens) == ('abc.' * 25)[98]
  parrots.release(0)


def test_the_weights_that_are_loaded_are_those_that_speak(
  world, sampler, questions
):
  before = world.play(sampler, questions[:1], group=4)[0]
  sampler.load(jax.tree.map(lambda x: 0.9 * x, world.params))
  other = world.play(sampler, questions[:1], group=4)[0]
  assert [t.response for t in before] != [t.response for t in other]
  sampler.load(world.params)
  again = world.play(sampler, questions[:1], group=4)[0]
  for one, two in zip(before, again, strict=True):
    same(one, two)


def test_limits_of_a_turn_hold_for_a_model(world, sampler, questions):
  limits = engine.Limits(max_new_tokens=3, max_tokens=5, context=96)
  (members,) = world.play(sampler, questions[:1], group=4, limits=limits)
  for trajectory in members:
    sizes = [t.span.stop - t.span.start for t in trajectory.turns]
    assert sum(sizes) <= 5
    assert max(sizes) <= 3
  assert types.Status.TOKEN_LIMIT in {t.status for t in members}
