# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Raw numbers of trajectories -> advantages of turns.

Pure, jittable jnp on small arrays `[B, G]` and `[B, G, S]`, float32, never
differentiated through. Which turn deserves the credit is decided here.
"""
