# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Every knob once in `base.py`; other files change what differs."""
