# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rotary frequencies and rotations in hand-worked numbers."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax.models import rope
from searchrl_jax.models.config import (
  LinearScaling,
  Llama3Scaling,
  YarnScaling,
)


def test_frequencies_fall_from_one_by_equal_ratios():
  # H = 8, base 10,000: 10^0, 10^-1, 10^-2, 10^-3. Exponents i / H instead of
  # 2i / H would end at .0316.
  got = rope.inverse_frequencies(8, 10_000.0, None)
  np.testing.assert_allclose(got, [1, 0.1, 0.01, 0.001], rtol=1e-6)
  assert got.dtype == np.float32


def test_linear_scaling_divides_every_frequency():
  got = rope.inverse_frequencies(8, 10_000.0, LinearScaling(4.0))
  np.testing.assert_allclose(got, [0.25, 0.025, 0.0025, 0.00025], rtol=1e-6)


def test_llama3_scaling_by_hand():
  # Wavelengths 2 pi / f: 6.28, 62.8, 628, 6283. Of an original context of 400
  # those below 400 / 8 = 50 are short and stay, those above 400 / 2 = 200 are
  # long and are divided by 5. Between them lies 62.8, which turns 400 / 62.83 =
  # 6.3662 times: its share is (6.3662 - 2) / (8 - 2) = .72770, and .1 becomes
  # .1 (.72770 + .27230 / 5) = .078216.
  scaling = Llama3Scaling(5.0, 2.0, 8.0, 400)
  got = rope.inverse_frequencies(8, 10_000.0, scaling)
  np.testing.assert_allclose(got, [1, 0.078216, 0.002, 0.0002], rtol=1e-5)


@pytest.mark.parametrize(
  ('truncate', 'kept'),
  # Dimension that turns r times in 6283 = 1000 * 2 pi positions:
  # 8 log(1000 / r) / (2 log 10^4) = 3 - log10 r. For r = 30 that is 1.5229, for
  # r = 3 it is 2.5229. Rounded outwards the ramp is 1..3, which keeps 1, 1, .5,
  # 0 of the four dimensions; unrounded it keeps .5229 of dimension 2.
  [(True, [1, 1, 0.5, 0]), (False, [1, 1, 0.5229, 0])],
)
def test_yarn_scaling_by_hand(truncate, kept):
  scaling = YarnScaling(4.0, 6283, 1.25, 30.0, 3.0, truncate)
  got = rope.inverse_frequencies(8, 10_000.0, scaling)
  base, kept = np.array([1, 0.1, 0.01, 0.001]), np.array(kept)
  np.testing.assert_allclose(got, base * (kept + (1 - kept) / 4), rtol=1e-4)


def test_yarn_ramp_of_no_width_is_a_step():
  # Both ends round to dimension 0, everything after it is divided.
  scaling = YarnScaling(4.0, 6, 1.0, 32.0, 1.0)
  got = rope.inverse_frequencies(8, 10_000.0, scaling)
  np.testing.assert_allclose(got, [1, 0.025, 0.0025, 0.00025], rtol=1e-6)


def test_only_yarn_multiplies_cosines_and_sines():
  assert rope.attention_factor(None) == 1
  assert rope.attention_factor(LinearScaling(4.0)) == 1
  assert rope.attention_factor(Llama3Scaling(8.0, 1.0, 4.0, 8192)) == 1
  yarn = YarnScaling(4.0, 6283, 1.25)
  assert rope.attention_factor(yarn) == 1.25
  frequencies = rope.inverse_frequencies(8, 10_000.0, None)
  cos, sin = rope.rotation(jnp.array([[3]]), frequencies, 1.25)
  np.testing.assert_allclose(cos[0, 0], 1.25 * np.cos(3 * frequencies), 1e-6)
  np.testing.assert_allclose(sin[0, 0], 1.25 * np.sin(3 * frequencies), 1e-6)


@hypothesis.settings(deadline=None)
@hypothesis.given(
  half=st.integers(1, 64),
  base=st.floats(100, 1e7),
  factor=st.floats(1, 64),
  context=st.integers(64, 200_000),
)
def test_scaling_never_leaves_the_range_it_interpolates(
  half, base, factor, context
):
  plain = rope.inverse_frequencies(2 * half, base, None)
  for scaling in (
    Llama3Scaling(factor, 1.0, 4.0, context),
    YarnScaling(factor, context, 1.0),
  ):
    got = rope.inverse_frequencies(2 * half, base, scaling)
    assert (got <= plain * 1.000001).all()
    assert (got >= plain / factor * 0.999999).all()


def test_angles_of_long_positions_are_exact():
  # The product position * frequency in float32, as published implementations
  # form it, then cosines without further error, here to 131,072 positions.
  frequencies = rope.inverse_frequencies(128, 1e6, None)
  positions = np.array([[32_767, 40_961, 99_991, 131_071]])
  turn = jax.jit(lambda p: rope.rotation(p, frequencies, 1.0))(positions)
  angles = np.float32(positions)[..., None] * frequencies
  for got, exact in zip(turn, (np.cos, np.sin), strict=True):
    expected = exact(angles.astype(np.float64))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


def test_powers_are_exact_to_the_last_bit():
  # A float32 power that is off by one bit moves angles at 131,072 by .008.
  exponents = np.float32(np.arange(0, 128, 2)) / np.float32(128)
  exact = [float(np.float32(5e5 ** float(e))) for e in exponents]
  got = rope.inverse_frequencies(128, 5e5, None)
  np.testing.assert_array_equal(got, np.float32(1) / np.float32(exact))


def test_rotation_pairs_the_two_halves_of_a_head():
  # H = 4, base 100: pair 0 = (x0, x2) turns by p, pair 1 = (x1, x3) by p / 10.
  # (x0, x2) = (1, 0) at p = 2 becomes (cos 2, sin 2). Pairing neighbours
  # (x0, x1) would put sin 2 into x1.
  frequencies = rope.inverse_frequencies(4, 100.0, None)
  turn = rope.rotation(jnp.array([[2]]), frequencies, 1.0)
  x = jnp.array([[[[1.0, 0.0, 0.0, 3.0]]]])
  y = rope.rotate(x, turn)[0, 0, 0]
  expected = [np.cos(2), -3 * np.sin(0.2), np.sin(2), 3 * np.cos(0.2)]
  np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_only_the_distance_of_two_positions_matters():
  rng = np.random.default_rng(0)
  q, k = (jnp.asarray(rng.normal(size=(1, 1, 1, 6)), jnp.float32) for _ in 'qk')
  frequencies = rope.inverse_frequencies(6, 1000.0, None)

  def product(q_position, k_position):
    turned = (
      rope.rotate(x, rope.rotation(jnp.array([[position]]), frequencies, 1.0))
      for x, position in ((q, q_position), (k, k_position))
    )
    return float(jnp.sum(next(turned) * next(turned)))

  np.testing.assert_allclose(product(7, 3), product(104, 100), rtol=1e-4)
  assert abs(product(7, 3) - product(7, 4)) > 1e-3
