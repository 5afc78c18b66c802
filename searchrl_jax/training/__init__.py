# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Models and rollouts -> learning: losses, updates, and the story of a step.

Everything but the loop is pure functions of pytrees under `jit`.
"""
