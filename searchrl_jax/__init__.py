# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Reinforcement learning of search agents, with credit per turn."""
