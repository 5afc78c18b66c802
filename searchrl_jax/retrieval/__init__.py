# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Queries to documents: reading corpora, indexing and searching them."""
