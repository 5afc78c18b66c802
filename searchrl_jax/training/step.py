# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One update: any number of rows through a fixed set of programs.

  rows      r r r r r r r r r r r          N = 11, whatever packing made
  padded    r r r r|r r r r|r r r .        micro-batches of 4 rows each
               |       |       |
  count        +-------+-------+->  counts       once, before anything else
  accumulate   +-------+-------+->  gradients, metrics
  apply                          ->  new state, or the old one bit for bit

Denominators are counted over the whole update first, so neither the size of
micro-batches nor the number of devices changes the loss. One program per
micro-batch shape [rows, L] does the work, whatever N is.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding

from searchrl_jax import sharding
from searchrl_jax.rollout.programs import Program
from searchrl_jax.training import losses
from searchrl_jax.training.aggregation import Counts, count
from searchrl_jax.training.logps import token_logps
from searchrl_jax.training.minibatches import pad_rows, slices
from searchrl_jax.training.state import TrainState
from searchrl_jax.types import Batch, Targets

# The model, as an update sees it:
# (params that learn, frozen params, batch) -> (logps_NL, entropy_NL).
TokenScores = Callable[[Any, Any, Batch], tuple[jax.Array, jax.Array]]
# (frozen params, params that learn) -> params of the model.
Join = Callable[[Any, Any], Any]


def all_learn(frozen: Any, params: Any) -> Any:
  """The `Join` of a model of which nothing is frozen."""
  del frozen  # nothing
  return params


def make_token_scores(
  apply: Callable[..., jax.Array],
  unembedding: Callable[[Any], jax.Array],
  *,
  join: Join,
  chunk: int,
  temperature: float,
) -> TokenScores:
  """Joins the two functions of a model into the one that training needs.

  Args:
    apply: (params, tokens, positions, segment_ids) -> hidden_NLD.
    unembedding: params -> [V, D].
    join: makes the model's params of those that learn and those that do not.
    chunk: tokens whose logits exist at a time; see `token_logps`.
    temperature: what the sampler divided its logits by.
  """

  def scores(params, frozen, batch):
    params = join(frozen, params)
    hidden_NLD = apply(params, batch.tokens, batch.positions, batch.segment_ids)
    return token_logps(
      hidden_NLD,
      unembedding(params),
      batch.tokens,
      chunk=chunk,
      temperature=temperature,
    )

  return scores


@dataclasses.dataclass(frozen=True)
class Gradients:
  """`gradients(params, batch, targets) -> (grads, metrics)`.

  See `make_gradients`.
  """

  _begin: Program
  _count: Program
  _accumulate: Program
  _mesh: Mesh
  _micro_rows: int
  _frozen: Any

  def __call__(
    self, params: Any, batch: Batch, targets: Targets
  ) -> tuple[Any, losses.Metrics]:
    batch, targets = pad_rows(batch, targets, self._micro_rows)
    micros = [
      sharding.put_rows(self._mesh, micro)
      for micro in slices((batch, targets), self._micro_rows)
    ]
    grads, sums, counts = self._begin(params, self._frozen, *micros[0])
    for micro in micros:
      counts = self._count(counts, *micro)
    for micro in micros:
      grads, sums = self._accumulate(
        params, self._frozen, grads, sums, *micro, counts
      )
    return grads, sums

  def compiled_programs(self) -> dict[str, int]:
    """Programs compiled so far: one each per L."""
    return {
      'begin': self._begin.compiled,
      'count': self._count.compiled,
      'accumulate': self._accumulate.compiled,
    }


def make_gradients(
  scores: TokenScores,
  loss: losses.Loss,
  mesh: Mesh,
  shardings: TrainState,
  *,
  micro_rows: int,
  frozen: Any,
) -> Gradients:
  """Gradients and metrics of a loss over any number of rows.

  Phases that share a loss share these programs, whatever their optimizers.

  Args:
    scores: of `make_token_scores`.
    loss: additive over micro-batches, see `losses.evaluate`.
    mesh: of `sharding.make_mesh`; rows are split over 'data' and 'fsdp'.
    shardings: of `state_shardings`.
    micro_rows: rows of one forward and backward pass, all devices together.
    frozen: params on the mesh that have no gradient; {} where all learn.

  Raises:
    ValueError: micro_rows does not split over the mesh.
  """
  sharding.require_splittable_rows(mesh, micro_rows, 'training.microbatch')
  whole = NamedSharding(mesh, sharding.REPLICATED)
  grads_and_sums = (shardings.params, whole)

  def objective(params, frozen, batch, targets, counts):
    return loss(*scores(params, frozen, batch), batch, targets, counts)

  def begin(params, frozen, batch, targets):
    counts = jax.eval_shape(count, batch, targets)
    _, sums = jax.eval_shape(objective, params, frozen, batch, targets, counts)
    return (
      jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params),
      {name: _neutral(name) for name in {**sums, 'loss': None}},
      jax.tree.map(lambda c: jnp.zeros(c.shape, c.dtype), counts),
    )

  def add_counts(counts: Counts, batch, targets):
    return jax.tree.map(jnp.add, counts, count(batch, targets))

  def accumulate(params, frozen, grads, sums, batch, targets, counts):
    (value, metrics), new = jax.value_and_grad(objective, has_aux=True)(
      params, frozen, batch, targets, counts
    )
    # Sums of many bfloat16 gradients would lose the small ones.
    grads = jax.tree.map(lambda g, d: g + d.astype(jnp.float32), grads, new)
    return grads, losses.combine(sums, {**metrics, 'loss': value})

  return Gradients(
    Program(begin, out_shardings=(*grads_and_sums, whole)),
    Program(add_counts, donate_argnums=0, out_shardings=whole),
    Program(accumulate, donate_argnums=(2, 3), out_shardings=grads_and_sums),
    mesh,
    micro_rows,
    frozen,
  )


@dataclasses.dataclass(frozen=True)
class Update:
  """`update(state, batch, targets) -> (state, metrics)`; see `make_update`."""

  gradients: Gradients
  _apply: Program

  def __call__(
    self, state: TrainState, batch: Batch, targets: Targets
  ) -> tuple[TrainState, dict[str, jax.Array]]:
    return self._apply(state, *self.gradients(state.params, batch, targets))

  def compiled_programs(self) -> dict[str, int]:
    """Programs compiled so far, those of the (shared) gradients included."""
    applied = {'apply': self._apply.compiled}
    return self.gradients.compiled_programs() | applied


def make_update(
  gradients: Gradients,
  optimizer: optax.GradientTransformation,
  mesh: Mesh,
  shardings: TrainState,
) -> Update:
  """Compiles (lazily) the programs drawn at the top of this file.

  The state given to an update is donated: use the one it returns. Its metrics
  are those of the loss plus `grad_norm`, the global norm before clipping, and
  `skipped`, 1 where loss or gradient were not finite and the state was kept.
  They stay on the device until the caller fetches them.

  Args:
    gradients: of `make_gradients`.
    optimizer: of `make_optimizer`.
    mesh: of `sharding.make_mesh`.
    shardings: of `state_shardings`.
  """
  whole = NamedSharding(mesh, sharding.REPLICATED)

  def apply(state, grads, sums):
    grad_norm = optax.global_norm(grads)
    finite = jnp.isfinite(sums['loss']) & jnp.isfinite(grad_norm)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    keep = functools.partial(jnp.where, finite)
    done = finite.astype(jnp.int32)
    state = TrainState(
      params=jax.tree.map(keep, params, state.params),
      opt_state=jax.tree.map(keep, opt_state, state.opt_state),
      step=state.step + done,
      skipped=state.skipped + 1 - done,
      skipped_in_row=jnp.where(finite, 0, state.skipped_in_row + 1),
    )
    return state, {**sums, 'grad_norm': grad_norm, 'skipped': 1 - done}

  # Nothing of the result has room for the gradients: only the state, which
  # the result replaces, can be donated.
  apply = Program(apply, donate_argnums=0, out_shardings=(shardings, whole))
  return Update(gradients, apply)


@dataclasses.dataclass(frozen=True)
class LearnerLogps:
  """`logps(params, batch) -> logps_NL`; see `make_learner_logps`."""

  _forward: Program
  _mesh: Mesh
  _micro_rows: int
  _frozen: Any

  def __call__(self, params: Any, batch: Batch) -> np.ndarray:
    rows = len(batch.tokens)
    zeros = np.zeros(np.shape(batch.tokens), np.float32)
    padded, _ = pad_rows(
      batch, Targets(zeros, zeros, zeros, zeros), self._micro_rows
    )
    # All passes are dispatched before the first result is waited for.
    parts = [
      self._forward(params, self._frozen, sharding.put_rows(self._mesh, micro))
      for micro in slices(padded, self._micro_rows)
    ]
    return np.concatenate(jax.device_get(parts))[:rows]

  def compiled_programs(self) -> dict[str, int]:
    return {'forward': self._forward.compiled}


def make_learner_logps(
  scores: TokenScores, mesh: Mesh, *, micro_rows: int, frozen: Any
) -> LearnerLogps:
  """Log-probabilities of a batch by given parameters, without gradient.

  For the old and reference log-probs of `Targets`. The result is a numpy
  array [N, L] float32 in nats, meaningful on sampled tokens.

  Raises:
    ValueError: micro_rows does not split over the mesh.
  """
  sharding.require_splittable_rows(mesh, micro_rows, 'training.microbatch')
  whole = NamedSharding(mesh, sharding.REPLICATED)

  def forward(params, frozen, batch):
    return scores(params, frozen, batch)[0]

  program = Program(forward, out_shardings=whole)
  return LearnerLogps(program, mesh, micro_rows, frozen)


def _neutral(name):
  """What leaves a metric as it is when combined with it."""
  return jnp.float32(-jnp.inf if name.endswith('_max') else 0.0)
