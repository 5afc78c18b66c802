# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Plays questions nobody learns from: one row per split and temperature.

Rows stand in `evaluation.jsonl`; tables of them compare runs and methods.
"""
