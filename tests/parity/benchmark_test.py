# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of real models runs beside PyTorch."""

import json

from benchmarks import models
from tests.benchmarks.models_test import OURS, TINY, assert_figures

THEIRS = {*models.THEIRS_DECODE, *models.THEIRS_UPDATE}


def test_both_sides_are_measured(capsys):
  models.main(TINY)
  result = json.loads(capsys.readouterr().out)
  assert_figures(result, OURS | THEIRS)
  assert set(result['ratios']) == {
    f'{above}/{below}'
    for pairs in models.RATIOS.values()
    for above, below in pairs
  }
