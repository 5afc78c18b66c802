# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""One short file per method; `assembly.py` and `run.py` serve them all."""
