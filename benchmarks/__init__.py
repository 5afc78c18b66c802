# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One script per claim of speed, each beside a baseline of the same run."""
