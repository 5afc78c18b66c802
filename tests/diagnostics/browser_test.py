# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A turn's colour says the sign and size of its advantage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchrl_jax.diagnostics import browser


def rgb(text):
  return tuple(int(text[i : i + 2], 16) for i in (1, 3, 5))


def test_the_scale_by_hand():
  assert browser.colour(0.0, scale=2.0) == '#ffffff'
  assert browser.colour(2.0, scale=2.0) == '#2166ac'  # full blue
  assert browser.colour(-2.0, scale=2.0) == '#b2182b'  # full red
  assert browser.colour(-9.0, scale=2.0) == '#b2182b'  # and no redder
  # Half way: (255 + 33) / 2, (255 + 102) / 2, (255 + 172) / 2, to even
  assert rgb(browser.colour(1.0, scale=2.0)) == (144, 178, 214)
  assert browser.colour(None, scale=2.0) == browser.NO_ADVANTAGE


@given(st.floats(-5, 5), st.floats(0.01, 5))
def test_sign_decides_the_colour(advantage, scale):
  red, _, blue = rgb(browser.colour(advantage, scale=scale))
  if advantage >= 0:
    assert blue >= red
  else:
    assert red >= blue


@pytest.mark.parametrize('advantage', [-3.0, 0.0, 3.0])
def test_text_is_readable_on_its_tint(advantage):
  """Contrast of at least 7 : 1 (WCAG AAA) with the text's colour."""

  def luminance(text):
    parts = [channel / 255 for channel in rgb(text)]
    parts = [
      p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

  tint = browser.colour(advantage, scale=1.0, strength=browser.TINT)
  contrast = (luminance(tint) + 0.05) / (luminance('#1d242c') + 0.05)
  assert contrast >= 7
