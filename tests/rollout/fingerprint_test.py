# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Any change of the weights changes their fingerprint."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.rollout.fingerprint import fingerprint


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_any_single_weight_changes_the_fingerprint(dtype):
  params = {'a': jnp.ones((3, 4), dtype), 'b': jnp.zeros((5,), dtype)}
  whole = fingerprint(params)
  assert whole == fingerprint(jax.tree.map(jnp.copy, params))
  seen = {int(whole)}
  for name, leaf in params.items():
    for place in np.ndindex(*leaf.shape):
      nudged = leaf.at[place].add(jnp.asarray(2**-7, dtype))
      seen.add(int(fingerprint(params | {name: nudged})))
  assert len(seen) == 1 + 12 + 5


def test_swapped_weights_change_the_fingerprint():
  """Round weights far apart: differences are multiples of large powers of 2."""
  params = jnp.where(jnp.arange(4096) % 512 < 256, 1.0, 2.0)
  swapped = params.at[0].set(2.0).at[256].set(1.0)
  assert fingerprint([params]) != fingerprint([swapped])
  one, other = jnp.ones(3), jnp.full((3,), 2.0)
  assert fingerprint([one, other]) != fingerprint([other, one])


def test_swapped_rows_of_bfloat16_change_the_fingerprint():
  rows = jax.random.normal(jax.random.key(0), (16, 4096)).astype(jnp.bfloat16)
  seen = {int(fingerprint(rows[np.roll(np.arange(16), n)])) for n in range(16)}
  assert len(seen) == 16
