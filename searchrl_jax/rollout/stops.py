# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Stop strings, compiled once into a table that runs on device.

A turn ends with the token that completes a stop string, wherever in the token
the string ends and over however many tokens it is spread. The table is the
byte automaton of the strings, advanced by whole tokens:

  stops = ("</s>",)     state = length of the matched part of "</s>"
  token   "</"   "s"   ">\\n"          state 0 -> 2 -> 3 -> stopped
"""

from collections.abc import Sequence

import numpy as np

STOPPED, START = 0, 1  # states; STOPPED absorbs


def _automaton(stops: Sequence[bytes]) -> np.ndarray:
  """Aho-Corasick: next state by (state, byte), any completed stop absorbing.

  States are the proper prefixes of the stop strings, numbered from 1 (the
  empty prefix); `STOPPED` stands for every completed string.
  """
  # The empty prefix is there without any stop string, too.
  prefixes = {b''} | {stop[:n] for stop in stops for n in range(len(stop))}
  prefixes = sorted(prefixes, key=len)
  number = {prefix: i + 1 for i, prefix in enumerate(prefixes)}
  table = np.full((len(prefixes) + 1, 256), STOPPED, np.int32)
  for prefix, state in number.items():
    for byte in range(256):
      text = prefix + bytes([byte])
      if any(stop in text for stop in stops):
        continue  # stays STOPPED
      while text not in number:
        text = text[1:]
      table[state, byte] = number[text]
  return table


def compile_stops(
  stops: Sequence[str], token_bytes: Sequence[bytes], eos_ids: frozenset[int]
) -> np.ndarray:
  """The state after a token, by (state, token id).

  Args:
    stops: strings that end a turn; none may be empty.
    token_bytes: the bytes of every id of the vocabulary.
    eos_ids: ids that end a turn by themselves.

  Returns:
    int32 array [states, V]; state 1 is the start, `STOPPED` absorbs.

  Raises:
    ValueError: a stop string is empty.
  """
  encoded = [stop.encode() for stop in stops]
  if not all(encoded):
    raise ValueError('a stop string is empty; remove it.')
  byte_table = _automaton(encoded)
  lengths = np.array([len(data) for data in token_bytes])
  padded = np.zeros((len(token_bytes), max(1, lengths.max())), np.int32)
  for token, data in enumerate(token_bytes):
    padded[token, : len(data)] = np.frombuffer(data, np.uint8)
  states = np.repeat(
    np.arange(len(byte_table), dtype=np.int32)[:, None], len(token_bytes), 1
  )
  for i in range(padded.shape[1]):
    states = np.where(i < lengths, byte_table[states, padded[:, i]], states)
  states[:, sorted(eos_ids)] = STOPPED
  return states


def cut(text: str, stops: Sequence[str]) -> str:
  """The text view of a turn: up to the end of its first complete stop string.

  The token that closes a stop string may carry characters beyond it. They
  stay in the record (ids, log-probs) and are cut from the view only.
  """
  ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
  return text[: min(ends)] if ends else text
