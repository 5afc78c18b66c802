# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What an agent may say, and how it is taught from nothing: one file each."""
