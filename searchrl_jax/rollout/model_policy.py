# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A model that draws, its caches alive across the turns of conversations.

asked ──► row ──► read what is new ──► decode ──► said
                   prompt: once for its G rollouts, then copied
                   reply: appended
                   rebuilt context: from where it differs
"""

import dataclasses
import time
from collections.abc import Iterable, Sequence

import numpy as np

from searchrl_jax import sharding
from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.rollout import sampling as sampler
from searchrl_jax.rollout import stops as stopping
from searchrl_jax.rollout.device import Drawn, Lanes
from searchrl_jax.rollout.device_rows import DeviceRows, Sizes, Text
from searchrl_jax.rollout.patience import Patience
from searchrl_jax.rollout.policy import Asked, Said
from searchrl_jax.rollout.prompts import Prompts
from searchrl_jax.rollout.scheduler import Scheduler
from searchrl_jax.types import Sampling


@dataclasses.dataclass
class Counters:
  """Work done by a model policy."""

  prefilled_tokens: int = 0  # given tokens run through the model
  shared_tokens: int = 0  # prompt tokens copied instead
  decoded_tokens: int = 0  # sampled tokens
  decode_steps: int = 0  # of the longest place, each a pass over the weights
  prefill_seconds: float = 0.0  # reading given tokens, and copying
  decode_seconds: float = 0.0

  @property
  def tokens(self) -> dict[str, int]:
    """What does not depend on timing: the same run counts the same."""
    return {
      'prefilled_tokens': self.prefilled_tokens,
      'shared_tokens': self.shared_tokens,
      'decoded_tokens': self.decoded_tokens,
    }

  @property
  def busy_seconds(self) -> float:
    """Seconds in which devices worked."""
    return self.prefill_seconds + self.decode_seconds


@dataclasses.dataclass
class _Conversation:
  """What a policy remembers of a conversation."""

  asked: Asked
  context: np.ndarray  # what is in the row when its turn begins
  place: int = -1
  row: int = -1  # of its place
  cached: np.ndarray = dataclasses.field(
    default_factory=lambda: np.zeros(0, np.int32)
  )  # tokens of its row
  state: int = stopping.START  # of the stop automaton
  tokens: list[np.ndarray] = dataclasses.field(default_factory=list)
  logps: list[np.ndarray] = dataclasses.field(default_factory=list)
  drawn: int = 0  # tokens of this turn

  def unread(self) -> Text:
    """The end of the context that the row does not hold.

    Where the row holds more than the context, the last token is read again:
    the state after it is gone.
    """
    context = self.context
    most = min(len(context), len(self.cached))
    differs = np.flatnonzero(context[:most] != self.cached[:most])
    keep = int(differs[0]) if len(differs) else most
    if keep == len(context) < len(self.cached):
      keep -= 1
    return Text(self.place, self.row, context[keep:], keep)


class ModelPolicy:
  """Samples from a decoder, W of R conversations at a time.

  Shapes depend on the configuration and on a conversation's own lengths, so
  that neither a partial batch nor the order of events compiles anything new
  or changes a bit of what is drawn.

  Attributes:
    counters: work done so far.
  """

  def __init__(
    self,
    model,
    tokenizer: tokenizers.Tokenizer,
    stops: Sequence[str],
    *,
    rows: int,
    width: int,
    capacity: int,
    max_new_tokens: int,
    mesh,
    reserved: int = 0,
    append_rows: int = 1,
    append_tokens: int = 512,
  ):
    """
    Args:
      model: of `models.decoder`.
      tokenizer, stops: what ends a turn.
      rows: R, trajectories that are in flight.
      width: W, rows that decode together.
      capacity: C, tokens of a row.
      max_new_tokens: of a turn.
      mesh: rows are split over it.
      reserved: rows that only `Generate` requests may take.
      append_rows, append_tokens: see `device_rows.Sizes`.
    """
    self.counters = Counters()
    places = sharding.row_parts(mesh)
    self._scheduler = Scheduler(rows, width, reserved=reserved, places=places)
    self._per_place = (rows + reserved) // places
    append_rows = min(append_rows, self._per_place)
    self._prompts = Prompts(places, append_rows)
    self._rows = DeviceRows(
      model,
      stopping.compile_stops(stops, tokenizer.token_bytes, tokenizer.eos_ids),
      Sizes(
        rows=rows + reserved + places * append_rows,
        width=width,
        capacity=capacity,
        steps=max_new_tokens,
        append_rows=append_rows,
        append_tokens=append_tokens,
      ),
      mesh,
    )
    self._capacity = capacity
    self._sampling = Sampling()
    self._key = None
    self._conversations: dict[int, _Conversation] = {}
    self._patience = Patience(width)
    self._ended: float | None = None  # the last decode call

  # --- weights and settings --------------------------------------------------

  def load(self, params) -> None:
    """Takes the weights to sample with.

    Raises:
      ValueError: conversations are going on.
    """
    if self._conversations:
      raise ValueError(
        f'{len(self._conversations)} conversations are going on; weights are '
        'changed between rollouts.'
      )
    self._prompts.clear()
    self._rows.load(params)

  def use(self, sampling: Sampling, key) -> None:
    """Sets how, and with which key, the next rollouts are drawn."""
    self._sampling = sampling
    self._key = key

  @property
  def compiled_programs(self) -> int:
    """Programs compiled so far for extend, copy and decode."""
    return self._rows.compiled

  def warm_up(self) -> None:
    """Compiles every program that the next rollouts can ask for."""
    self._rows.warm_up()
    self._decode([])

  # --- the protocol ----------------------------------------------------------

  @property
  def busy(self) -> bool:
    return self._scheduler.busy

  def ask(self, asked):
    if len(asked.context) + asked.budget > self._capacity:
      raise ValueError(
        f'{len(asked.context)} tokens and a turn of {asked.budget} do not fit '
        f'into rows of {self._capacity}; raise the context.'
      )
    self._scheduler.ask(asked.id, aside=asked.aside > 0)
    context = np.asarray(asked.context, np.int32)
    known = self._conversations.setdefault(
      asked.id, _Conversation(asked, context)
    )
    known.asked, known.context = asked, context
    known.state, known.drawn = stopping.START, 0
    known.tokens, known.logps = [], []

  def advance(self):
    newcomers = []
    for id, row in self._scheduler.admit():
      known = self._conversations[id]
      known.place, known.row = divmod(row, self._per_place)
      if known.asked.sharing > 1:
        newcomers.append(known)
    picked = [self._conversations[id] for id in self._scheduler.pick()]
    if not picked:
      return []
    began = time.perf_counter()
    try:
      self._share(newcomers)
      self._read(picked)
      self._rows.wait()
      read = time.perf_counter()
      drawn = self._decode(picked)
    except BaseException:
      self._prompts.clear()  # nobody knows what the rows hold
      raise
    self._note(began, read, drawn.count.max())
    return self._hear(picked, drawn)

  def release(self, id):
    if id in self._conversations:
      self._scheduler.release(id)
      del self._conversations[id]

  # --- reading ---------------------------------------------------------------

  def _share(self, newcomers: Iterable[_Conversation]) -> None:
    """Gives newcomers their prompt, read once at each place."""
    waiting = list(newcomers)
    while waiting:
      texts, pairs, later = [], [], []
      used = [set() for _ in range(self._rows.places)]
      for known in waiting:
        prompt, place = known.context, known.place
        name = prompt.tobytes()
        if name not in used[place] and len(used[place]) == self._prompts.slots:
          later.append(known)  # a slot that is read now cannot be given away
          continue
        used[place].add(name)
        slot = self._prompts.find(place, name)
        if slot is None:
          slot = self._prompts.take(place, name)
          texts.append(Text(place, self._per_place + slot, prompt))
        pairs.append((place, self._per_place + slot, known.row))
        known.cached = prompt
        self.counters.shared_tokens += len(prompt)
      self._append(texts)
      self._rows.copy(pairs)
      waiting = later

  def _read(self, picked: Iterable[_Conversation]) -> None:
    """Brings rows to where turns begin; a turn in its midst has nothing new."""
    texts = []
    for known in picked:
      if known.drawn:
        continue
      text = known.unread()
      if len(text.tokens):
        texts.append(text)
        known.cached = known.context
    self._append(texts)

  def _append(self, texts: Sequence[Text]) -> None:
    self._rows.read(texts)
    self.counters.prefilled_tokens += sum(len(text.tokens) for text in texts)

  # --- drawing ---------------------------------------------------------------

  def _decode(self, picked: Sequence[_Conversation]) -> Drawn:
    samplings = [self._sampling] * (self._rows.places * self._rows.width)
    fields = np.zeros((7, len(samplings)), np.int64)
    fields[0] = self._rows.rows  # none
    for lane, known in zip(self._lanes(picked), picked, strict=True):
      asked = known.asked
      samplings[lane] = asked.sampling or self._sampling
      fields[:, lane] = (
        known.row,
        sampler.question_hash(asked.question, asked.aside),
        asked.rollout,
        len(asked.turns),
        known.drawn,
        known.state,
        asked.budget - known.drawn,
      )
    # Rows that rest might take these lanes once their tools have answered.
    empty = min(self._scheduler.resting, len(samplings) - len(picked))
    words, numbers = fields[1:4].astype(np.uint32), fields.astype(np.int32)
    lanes = Lanes(numbers[0], *words, *numbers[4:], sampler.Draws.of(samplings))
    return self._rows.decode(
      self._key,
      lanes,
      empty,
      self._patience.steps,
      truncated=any(map(sampler.truncates, samplings)),
    )

  def _lanes(self, picked: Iterable[_Conversation]) -> list[int]:
    """The lane of each, among those of its place."""
    used = [0] * self._rows.places
    lanes = []
    for known in picked:
      lanes.append(known.place * self._rows.width + used[known.place])
      used[known.place] += 1
    return lanes

  def _hear(self, picked, drawn: Drawn) -> list[tuple[Asked, Said]]:
    """Notes what was drawn; the turns that ended."""
    ended = []
    for lane, known in zip(self._lanes(picked), picked, strict=True):
      count = int(drawn.count[lane])
      known.tokens.append(drawn.tokens[lane, :count])
      known.logps.append(drawn.logps[lane, :count])
      known.cached = np.concatenate([known.cached, known.tokens[-1]])
      known.drawn += count
      known.state = int(drawn.state[lane])
      stopped = known.state == stopping.STOPPED
      if stopped or known.drawn >= known.asked.budget:
        self._scheduler.rest(known.asked.id)
        said = Said(
          np.concatenate(known.tokens), np.concatenate(known.logps), stopped
        )
        ended.append((known.asked, said))
    self.counters.decoded_tokens += int(drawn.count.sum())
    return ended

  def _note(self, began: float, read: float, steps: int) -> None:
    """Measures a round: host, reading, decoding."""
    now = time.perf_counter()
    if self._ended is not None and steps:
      self._patience.note(began - self._ended, (now - read) / steps)
    self._ended = now
    self.counters.decode_steps += int(steps)
    self.counters.prefill_seconds += read - began
    self.counters.decode_seconds += now - read
