# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A turn ends with the token that completes a stop string."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax.rollout import stops as stops_lib
from searchrl_jax.testing import ToyTokenizer

TOY = ToyTokenizer(('</search>', '>\n', 'stop!', '</', 'sear', 'ch'))


def stop_after(table, ids):
  """Number of tokens drawn until the table stops; None if it does not."""
  state = 1
  for n, token in enumerate(ids, 1):
    state = table[state, token]
    if state == stops_lib.STOPPED:
      return n
  return None


def run(stops, pieces):
  table = stops_lib.compile_stops(stops, TOY.token_bytes, TOY.eos_ids)
  return stop_after(table, [TOY.id(piece) for piece in pieces])


def test_a_stop_string_that_is_one_token():
  assert run(('</search>',), ['</search>', 'a']) == 1


def test_the_closing_token_may_carry_more_characters():
  pieces = ['</', 'sear', 'ch', '>\n', 'a']
  assert run(('</search>',), pieces) == 4
  text = TOY.decode([TOY.id(p) for p in pieces[:4]])
  assert text == '</search>\n'  # the record keeps the newline
  assert stops_lib.cut(text, ('</search>',)) == '</search>'  # the view not


def test_a_stop_string_inside_a_longer_token():
  assert run(('stop',), ['a', 'stop!', 'b']) == 2


def test_a_stop_string_over_three_tokens():
  assert run(('</search>',), ['x', '</', 'sear', 'ch', '>']) == 5


def test_a_false_start_is_forgotten_but_its_tail_is_not():
  # "<</search>" and "</</search>": after the mismatch the match starts anew.
  assert run(('</search>',), ['<', '</', 'sear', 'ch', '>']) == 5
  assert run(('</search>',), ['</', '</', 'sear', 'ch', '>']) == 5


def test_eos_stops_by_itself_and_padding_does_nothing():
  table = stops_lib.compile_stops(('zz',), TOY.token_bytes, TOY.eos_ids)
  assert stop_after(table, [0, TOY.id('z'), 0, TOY.id('z')]) == 4
  assert stop_after(table, [TOY.id('a'), 1]) == 2


def test_an_empty_stop_string_is_refused():
  with pytest.raises(ValueError, match='empty'):
    stops_lib.compile_stops(('',), TOY.token_bytes, TOY.eos_ids)


@given(
  st.lists(st.text('abc', min_size=1, max_size=4), max_size=3),
  st.lists(st.sampled_from(['a', 'b', 'c', 'ab', 'bc', 'cab']), max_size=12),
)
def test_the_table_agrees_with_searching_the_text(stops, pieces):
  tokenizer = ToyTokenizer(('ab', 'bc', 'cab'))
  table = stops_lib.compile_stops(
    stops, tokenizer.token_bytes, tokenizer.eos_ids
  )
  ids = [tokenizer.id(piece) for piece in pieces]
  expected = next(
    (
      n
      for n in range(1, len(ids) + 1)
      if any(stop in tokenizer.decode(ids[:n]) for stop in stops)
    ),
    None,
  )
  assert stop_after(table, ids) == expected


@given(st.text('ab<>/', max_size=12), st.sampled_from(['</a>', 'ab', '>']))
def test_cut_ends_with_the_first_stop(text, stop):
  view = stops_lib.cut(text, (stop, '</b>'))
  assert text.startswith(view)
  if stop in text or '</b>' in text:
    assert view.endswith((stop, '</b>'))
    assert not any(s in view[:-1] for s in (stop, '</b>'))
  else:
    assert view == text
