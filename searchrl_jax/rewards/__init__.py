# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A finished trajectory to raw numbers: answers, format, judges, scores."""
