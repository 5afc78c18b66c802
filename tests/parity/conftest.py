# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Live comparisons with PyTorch: `make parity`. Without it, nothing here runs.

Everything else is tested without PyTorch, the same models against what it
gave once: tests/models/recorded.
"""

import importlib.util

collect_ignore_glob = []
if importlib.util.find_spec('torch') is None:
  collect_ignore_glob.append('*_test.py')
