# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Questions and documents: generated worlds, their experts, real sets."""
