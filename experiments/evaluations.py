# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""When a run evaluates itself, and on what.

warm start ends   validation and test, sampled and greedy on test
every k steps     validation, sampled: a fixed, stratified, quick subset
the run ends      test, sampled and greedy; nothing is ever chosen on it
"""

from experiments import parts
from experiments.data import Data
from experiments.phases import RL, WARM_START
from experiments.player import Player
from experiments.records import Records
from searchrl_jax.evaluation.evaluate import Beside, evaluate, hash_of
from searchrl_jax.training.clock import Clock
from searchrl_jax.types import Recipe, Sampling

FINAL = 'final'
QUICK = 'em'  # the result that decides which checkpoint is the best


class Evaluations:
  """Evaluates at the right moments and remembers the quick results."""

  def __init__(
    self,
    config,
    settings: dict,
    data: Data,
    recipe: Recipe,
    player: Player,
    clock: Clock,
    records: Records,
    beside: Beside,
  ):
    self._config = config
    self._settings = settings
    self._data = data
    self._recipe = recipe
    self._player = player
    self._clock = clock
    self._records = records
    self._beside = beside
    self._quick: dict[int, float] = {}  # step -> em of the quick evaluation

  def __call__(self, step, phase, in_phase, state, *, last: int) -> None:
    """After every step; does nothing at most of them."""
    ends = in_phase == phase.steps
    if phase.kind == WARM_START:
      if ends and phase.name == 'demonstrations':
        self.warm_start(step, state)
      return
    if in_phase % self._config.evaluation.every == 0 or ends:
      self._validate(step, RL, state)
    if step == last:
      self._test(step, FINAL, state)

  def warm_start(self, step: int, state) -> None:
    """Where reinforcement learning begins."""
    self._validate(step, WARM_START, state)
    self._test(step, WARM_START, state)

  def metrics_of(self, step: int) -> dict[str, float]:
    """The quick result of this very step, for choosing the best checkpoint."""
    return {QUICK: self._quick[step]} if step in self._quick else {}

  def _validate(self, step, phase, state):
    sampling = parts.make_sampling(self._config)
    row = self._run(step, phase, state, 'validation', sampling)
    self._quick[step] = row['em']

  def _test(self, step, phase, state):
    for sampling in (parts.make_sampling(self._config), Sampling(0.0)):
      self._run(step, phase, state, 'test', sampling)

  def _run(self, step, phase, state, split, sampling):
    questions = getattr(self._data, split)
    compiled = self._compiled()
    with self._clock('evaluation'):
      self._player.load(state.params)
      row = evaluate(
        self._player.evaluating(split, sampling),
        self._recipe.score,
        questions,
        split=split,
        phase=phase,
        step=step,
        temperature=sampling.temperature,
        settings=self._settings,
        data_hash=hash_of(questions),
        batch=len(questions),
        beside=self._beside,
      )
    row['seconds_compilation'] = self._compiled() - compiled
    self._records.evaluation(row)
    print(
      f'step {step}: {split} at temperature {sampling.temperature:g}: '
      f'em {row["em"]:.3f} ± {row["em_stderr"] or 0:.3f} (n={row["n"]}), '
      f'searches {row["searches"]:.2f}',
      flush=True,
    )
    return row

  def _compiled(self) -> float:
    return self._clock.snapshot().get('compilation', 0.0)
