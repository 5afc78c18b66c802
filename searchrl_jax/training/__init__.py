# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Models and rollouts -> learning: losses, updates, and the story of a step.

Losses, log-probs and the optimizer are pure functions of pytrees under `jit`;
sources, clock and loop are where a run touches the world.
"""
