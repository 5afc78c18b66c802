# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rows that keep a prompt for the rollouts of its question still to come."""

from collections import OrderedDict


class Prompts:
  """Which prompt each of a few slots holds, the least recently used first out.

  Rollouts of a question begin one after another as rows become free; its
  prompt waits here meanwhile. Every place (device) has slots of its own.
  """

  def __init__(self, places: int, slots: int):
    self.slots = slots
    self._held = [OrderedDict() for _ in range(places)]

  def find(self, place: int, prompt: bytes) -> int | None:
    """The slot that holds a prompt, now the most recently used."""
    held = self._held[place]
    if prompt not in held:
      return None
    held.move_to_end(prompt)
    return held[prompt]

  def take(self, place: int, prompt: bytes) -> int:
    """A slot for a prompt that no slot holds."""
    held = self._held[place]
    slot = len(held)
    if slot == self.slots:
      _, slot = held.popitem(last=False)
    held[prompt] = slot
    return slot

  def clear(self) -> None:
    """Forgets all: the weights have changed."""
    for held in self._held:
      held.clear()
