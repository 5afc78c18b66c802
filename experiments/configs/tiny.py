# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The default: a tiny policy from random weights, minutes on two cores."""

from experiments.configs import base

RUNS_ON_CPU = True


def get_config():
  return base.get_config()
