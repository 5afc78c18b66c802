# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What the agent may say and what the world replies, one file a grammar."""
