# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Extend, copy and decode on a device, with a model that says a script."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.rollout import device, stops
from searchrl_jax.rollout.sampling import Draws
from searchrl_jax.testing import ToyTokenizer
from searchrl_jax.types import Sampling

TOY = ToyTokenizer(('</search>', '>\n', 'stop!', '</', 'sear', 'ch', 'world'))
V = len(TOY.token_bytes)
GREEDY = Sampling(temperature=0)
# The script's token has logit 3, all others 0.
SAID = 3 - np.log(np.exp(3) + V - 1)
LENGTH, CAPACITY = 7, 24


def ids(*pieces):
  return [1 if piece == '<eos>' else TOY.id(piece) for piece in pieces]


@pytest.fixture(scope='module', params=[True, False], ids=['in place', 'taken'])
def programs(parrot, request):
  model = parrot(V, in_place=request.param)
  decode = functools.partial(
    device.decode, model, steps=LENGTH, truncated=False
  )
  extend = functools.partial(device.extend, model)
  return model, jax.jit(extend), jax.jit(device.copy), jax.jit(decode)


def table(*strings):
  """A stop table of one size, so that one program serves all tests."""
  states = stops.compile_stops(strings, TOY.token_bytes, TOY.eos_ids)
  padding = np.zeros((24 - len(states), V), np.int32)
  return np.concatenate([states, padding])


def script(*pieces):
  """A parrot's parameters: after a prompt of 2 tokens it says the pieces."""
  said = [0, *ids(*pieces)]
  return {'script': jnp.array(said + [0] * (CAPACITY - len(said)), jnp.int32)}


def start(programs, params, counts=(2,)):
  """Two rows for every prompt of so many tokens."""
  model, extend, copy, _ = programs
  prompts = len(counts)
  rows = device.empty(model, 2 * prompts, CAPACITY)
  tokens = np.full((prompts, 4), TOY.id('x'), np.int32)
  first = np.arange(prompts, dtype=np.int32) * 2
  nothing = np.zeros(prompts, np.int32)
  rows = extend(params, rows, first, tokens, np.int32(counts), nothing)
  return copy(rows, first, first + 1)


def draw(programs, params, rows, budget, stop_table, **other):
  size = len(budget)
  numbers = np.zeros(size, np.uint32)
  fields = {
    'row': np.arange(size, dtype=np.int32),
    'question': numbers,
    'rollout': np.arange(size, dtype=np.uint32),
    'turn': numbers,
    'position': np.zeros(size, np.int32),
    'state': np.ones(size, np.int32),
    'budget': np.int32(budget),
    'draws': Draws.of([GREEDY] * size),
  }
  empty = np.int32(other.pop('empty', 0))
  patience = np.int32(other.pop('patience', 10**6))
  lanes = device.Lanes(**{**fields, **other})
  return programs[3](
    params, rows, jax.random.key(0), lanes, empty, patience, stop_table
  )


def say(programs, pieces, strings, budget=LENGTH):
  """(ids drawn, log-probs, whether it stopped) of the first of two rows."""
  params = script(*pieces)
  rows = start(programs, params)
  rows, drawn = draw(programs, params, rows, (budget, budget), table(*strings))
  drawn = jax.device_get(drawn)
  n = drawn.count[0]
  assert (drawn.tokens[:, n:] == 0).all()
  assert (rows.cache.length_R == 2 + n).all()  # the last token is in it too
  return (
    drawn.tokens[0, :n].tolist(),
    drawn.logps[0, :n],
    drawn.state[0] == stops.STOPPED,
  )


def test_the_token_that_closes_is_kept_whole(programs):
  pieces = ('a', '</', 'sear', 'ch', '>\n', 'b')
  said, logps, stopped = say(programs, pieces, ('</search>',))
  assert said == ids('a', '</', 'sear', 'ch', '>\n')
  np.testing.assert_allclose(logps, [SAID] * 5, rtol=1e-5)
  assert stopped
  text = TOY.decode(said)
  assert text == 'a</search>\n'
  assert stops.cut(text, ('</search>',)) == 'a</search>'


def test_a_stop_string_inside_a_longer_token_stops(programs):
  said, _, stopped = say(programs, ('a', 'stop!', 'b'), ('stop',))
  assert (said, stopped) == (ids('a', 'stop!'), True)


def test_a_stop_string_over_three_tokens_stops(programs):
  said, _, stopped = say(programs, ('</', 'sear', 'ch', 'y'), ('/search',))
  assert (said, stopped) == (ids('</', 'sear', 'ch'), True)
  said, _, stopped = say(programs, ('s', 't', 'o', 'p', 'b'), ('top',))
  assert (said, stopped) == (ids('s', 't', 'o', 'p'), True)


def test_eos_stops_and_is_drawn(programs):
  said, _, stopped = say(programs, ('a', '<eos>', 'b'), ('stop',))
  assert (said, stopped) == (ids('a', '<eos>'), True)


def test_a_budget_ends_a_turn_that_did_not_stop(programs):
  said, _, stopped = say(programs, ('a', 'b', 'c', 'd'), ('stop',), budget=3)
  assert (said, stopped) == (ids('a', 'b', 'c'), False)


def test_stopping_with_the_last_token_of_the_budget_is_stopping(programs):
  said, _, stopped = say(programs, ('a', 'b', 'stop!'), ('stop',), budget=3)
  assert (said, stopped) == (ids('a', 'b', 'stop!'), True)


def test_no_turn_is_longer_than_the_buffer(programs):
  said, _, stopped = say(programs, 'abcdefghij', ('stop',))
  assert (said, stopped) == (ids(*'abcdefg'), False)


def test_rows_of_unequal_budgets_and_lengths_do_not_meet(programs):
  """Budgets 3 and 0 on one prompt, 5 and 2 on a longer one."""
  params = script(*'abcdefgh')
  rows = start(programs, params, counts=(2, 4))
  before = jax.device_get(rows)
  rows, drawn = draw(programs, params, rows, (3, 0, 5, 2), table('stop'))
  drawn, after = jax.device_get(drawn), jax.device_get(rows)
  said = [
    TOY.decode(t[:n]) for t, n in zip(drawn.tokens, drawn.count, strict=True)
  ]
  assert said == ['abc', '', 'cdefg', 'cd']
  assert after.cache.length_R.tolist() == [5, 2, 9, 6]
  # A row that rests stays as it is.
  np.testing.assert_array_equal(after.hidden[1], before.hidden[1])
  assert not np.array_equal(after.hidden[0], before.hidden[0])


def test_a_turn_goes_on_after_a_reply(programs):
  """Row 0 appends 2 given tokens, row 1 none, then both speak again."""
  params = script(*'abcdefgh')
  rows = start(programs, params)
  rows, _ = draw(programs, params, rows, (1, 1), table('stop'))
  given = np.full((2, 4), TOY.id('x'), np.int32)
  lengths, both = np.int32([3, 3]), np.int32([0, 1])
  rows = programs[1](params, rows, both, given, np.int32([2, 0]), lengths)
  assert rows.cache.length_R.tolist() == [5, 3]
  _, drawn = draw(programs, params, rows, (2, 2), table('stop'))
  said = [TOY.decode(t[:2]) for t in np.asarray(drawn.tokens)]
  assert said == ['de', 'bc']  # columns 3 and 4 of row 0 were given


def test_a_rebuilt_row_forgets_and_its_neighbour_does_not(programs):
  params = script(*'abcdefgh')
  rows = start(programs, params)
  rows, _ = draw(programs, params, rows, (4, 4), table('stop'))
  given = np.full((2, 4), TOY.id('x'), np.int32)
  counts, keep = np.int32([3, 0]), np.int32([0, 6])
  # Row 1 is named by nobody: the second number is none of the rows.
  rows = programs[1](params, rows, np.int32([0, 2]), given, counts, keep)
  assert rows.cache.length_R.tolist() == [3, 6]
  _, drawn = draw(programs, params, rows, (2, 2), table('stop'))
  said = [TOY.decode(t[:2]) for t in np.asarray(drawn.tokens)]
  assert said == ['bc', 'ef']


# --- lanes -------------------------------------------------------------------


def test_lanes_are_rows_in_any_order_and_others_stay_as_they_are(programs):
  params = script(*'abcdefgh')
  rows = start(programs, params, counts=(2, 4))
  before = jax.device_get(rows)
  # Row 2 speaks, then row 0; the last lane is padding.
  rows, drawn = draw(
    programs, params, rows, (2, 3, 0), table('stop'), row=np.int32([2, 0, 4])
  )
  said = [
    TOY.decode(t[:n]) for t, n in zip(*jax.device_get(drawn[:3:2]), strict=True)
  ]
  assert said == ['cd', 'abc', '']
  after = jax.device_get(rows)
  assert after.cache.length_R.tolist() == [5, 2, 6, 4]
  for rest in (1, 3):
    np.testing.assert_array_equal(after.hidden[rest], before.hidden[rest])


def test_a_turn_drawn_in_two_calls_is_the_turn_drawn_in_one(programs):
  """The stop automaton and the number of the token are carried over."""
  params = script('a', '</', 'sear', 'ch', '>\n', 'b')
  rows = start(programs, params)
  stop_table = table('</search>')
  rows, first = draw(programs, params, rows, (3, 0), stop_table)
  state = np.asarray(first.state)
  assert state[0] not in (stops.STOPPED, 1)  # in the middle of '</search>'
  _, second = draw(
    programs,
    params,
    rows,
    (4, 0),
    stop_table,
    state=state,
    position=np.int32([3, 0]),
  )
  said = [*np.asarray(first.tokens)[0, :3], *np.asarray(second.tokens)[0, :2]]
  assert said == ids('a', '</', 'sear', 'ch', '>\n')
  assert second.count.tolist() == [2, 0]
  assert second.state[0] == stops.STOPPED


@pytest.mark.parametrize(
  'patience, empty, steps',
  [
    (1, 0, 2),  # the first lane ends with step 2: enough
    (3, 0, 4),  # it is idle in steps 3 and 4, too
    (100, 0, 6),  # to the end
    (4, 2, 2),  # two lanes are empty: each step counts two
  ],
)
def test_a_call_ends_when_idle_lanes_have_cost_enough(
  programs, patience, empty, steps
):
  """Budgets of 2 and 6 tokens."""
  params = script(*'abcdefgh')
  rows = start(programs, params)
  _, drawn = draw(
    programs,
    params,
    rows,
    (2, 6),
    table('stop'),
    patience=patience,
    empty=empty,
  )
  assert drawn.count.tolist() == [2, steps]
