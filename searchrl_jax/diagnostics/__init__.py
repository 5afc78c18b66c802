# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Looks at a run: alarms while it trains, where the time went, report.html.

Reads rows and traces only. What is drawn here can be drawn again from a
workdir copied to another machine.
"""
