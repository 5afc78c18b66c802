# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Sizes that do not fit together die at once, in one line."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from searchrl_jax.models import config, decoder


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'heads': 5, 'kv_heads': 2}, 'heads 5 is no multiple of kv_heads 2'),
    ({'head_width': 7}, 'head_width 7 is odd'),
    ({'layers': 0}, 'layers is 0'),
    ({'kv_heads': 0}, 'kv_heads is 0'),
    ({'rope_base': 0.0}, 'rope_base is 0.0'),
    ({'param_dtype': jnp.int32}, 'choose a floating-point type'),
  ],
)
def test_impossible_sizes_are_refused_in_one_line(plain, change, message):
  with pytest.raises(ValueError, match=message) as error:
    dataclasses.replace(plain, **change)
  assert '\n' not in str(error.value)


def test_the_tiny_preset_has_146k_parameters():
  # Embedding 543 * 64 = 34,752 and final norm 64. A layer: q and o 64 * 64
  # each, k and v 64 * 32 each, gate, up, down 64 * 128 each, norms 2 * 64 and
  # 2 * 16: 8,192 + 4,096 + 24,576 + 160 = 37,024.
  model = decoder.make_model(config.tiny(543))
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  count = sum(leaf.size for leaf in jax.tree.leaves(shapes))
  assert count == 34_752 + 64 + 3 * 37_024 == 145_888


@pytest.mark.parametrize(
  'change', [{'rope_base': float('nan')}, {'layers': 10**9}]
)
def test_misprints_are_refused_in_one_line(change):
  with pytest.raises(ValueError, match=next(iter(change))) as error:
    dataclasses.replace(config.tiny(5), **change)
  assert '\n' not in str(error.value)
