# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A policy and an environment in, trajectories out.

`engine.py` is the tool loop and the only file that touches the world;
`device.py`, `sampling.py` and `stops.py` are pure.
"""
