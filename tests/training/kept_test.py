# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What a forward pass keeps, worked by hand and asked of JAX."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from searchrl_jax.models import decoder as decoders
from searchrl_jax.models.config import DecoderConfig, Lora, Remat
from searchrl_jax.training.kept import kept_bytes, layer_bytes
from searchrl_jax.training.weigh import Backend, Devices

CPU = Devices(1, 1, 1, Backend.CPU)
SMALL = DecoderConfig(
  vocabulary=97,
  width=24,
  layers=6,
  heads=4,
  kv_heads=2,
  head_width=10,
  mlp_width=36,
  rope_base=1e4,
)


@pytest.mark.parametrize(
  'remat, numbers',
  [
    # The residual stream D that enters a layer.
    (Remat.LAYER, 24),
    # That, q, k, v, mixed, o, gate and up; down is added and never read again.
    (Remat.PRODUCTS, 24 + 40 + 20 + 20 + 40 + 24 + 36 + 36),
  ],
)
def test_a_layer_keeps_what_its_policy_says(remat, numbers):
  decoder = dataclasses.replace(SMALL, remat=remat)
  taller = dataclasses.replace(decoder, layers=7)
  rows, length = 3, 64
  more = kept_bytes(taller, CPU, rows, length)
  more -= kept_bytes(decoder, CPU, rows, length)
  assert more == rows * length * numbers * 4
  narrow = dataclasses.replace(decoder, compute_dtype=jnp.dtype(jnp.bfloat16))
  device = dataclasses.replace(CPU, backend=Backend.ACCELERATOR)
  less = kept_bytes(dataclasses.replace(narrow, layers=7), device, rows, length)
  less -= kept_bytes(narrow, device, rows, length)
  assert 2 * less == more  # CPU computes bfloat16 in float32


def test_what_is_kept_is_what_jax_keeps():
  # Counted at one and two layers and rows, and here at five and three.
  decoder = dataclasses.replace(SMALL, layers=5, remat=Remat.NOTHING)
  model = decoders.build_model(decoder, unrolled=True)
  params = jax.eval_shape(model.init, jax.random.key(0))
  ids = jax.ShapeDtypeStruct((3, 128), jnp.int32)

  def backward(params, *batch):
    return jax.vjp(lambda params: model.apply(params, *batch), params)[1]

  handed = jax.eval_shape(backward, params, ids, ids, ids)
  matrices = {x.shape for x in jax.tree.leaves(params)}
  kept = [x for x in jax.tree.leaves(handed) if x.shape not in matrices]
  assert sum(x.size * x.dtype.itemsize for x in kept) == kept_bytes(
    decoder, CPU, 3, 128
  )


def test_a_device_of_the_tensor_axis_keeps_its_heads_and_inner_widths():
  decoder = dataclasses.replace(SMALL, remat=Remat.PRODUCTS)
  taller = dataclasses.replace(decoder, layers=7)
  device = dataclasses.replace(CPU, tensor=2)
  more = kept_bytes(taller, device, 3, 64) - kept_bytes(decoder, device, 3, 64)
  # x and o whole; half of q, k, v, mixed, gate and up.
  numbers = 24 + 24 + (40 + 20 + 20 + 40 + 36 + 36) // 2
  assert more == 3 * 64 * numbers * 4


def test_long_rows_are_ruled_by_their_scores():
  # A block of scores, [rows, Q, L / 4, L] in float32, grows with the square.
  def scores(length):
    return 2 * 4 * (length // 4) * length * 4

  more = layer_bytes(SMALL, CPU, 2, 8192) - 2 * layer_bytes(SMALL, CPU, 2, 4096)
  assert more == pytest.approx(4 * (scores(8192) - 2 * scores(4096)), rel=1e-5)


def test_adapters_give_numbers_beside_those_of_their_matrices():
  plain = dataclasses.replace(SMALL, lora=Lora(rank=3, targets=('q',)))
  both = dataclasses.replace(SMALL, lora=Lora(rank=3, targets=('q', 'down')))
  more = layer_bytes(both, CPU, 2, 64) - layer_bytes(plain, CPU, 2, 64)
  # At least what the adapter of `down` gives: D numbers for each token.
  assert more >= 2 * 64 * 24 * 4
