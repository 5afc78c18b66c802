# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Models as pure functions of parameters. The only folder that knows flax."""
