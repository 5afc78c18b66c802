# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Our side: a directory that `transformers` wrote, read and run by us."""

import dataclasses
import functools
import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from searchrl_jax.models import decoder, hf_config, hf_names, loading
from searchrl_jax.models.safetensors_files import SafetensorsFiles


@dataclasses.dataclass(frozen=True)
class Loaded:
  """A model, its parameters, and how to run them."""

  model: decoder.Model
  params: Any

  @functools.cached_property
  def _apply(self):
    return jax.jit(self.model.apply)

  def run(self, tokens, positions, segment_ids):
    """Hidden states and logits of packed rows `[N, L]`, float32 numpy."""
    rows = (tokens, positions, segment_ids)
    rows = [jnp.asarray(x, jnp.int32) for x in rows]
    hidden = np.asarray(self._apply(self.params, *rows), np.float32)
    return hidden, self.logits(hidden)

  def logits(self, hidden):
    """Hidden states `[..., D]` times the head, in float32."""
    head = np.asarray(self.model.unembedding(self.params), np.float32)
    product = jnp.einsum('...d,vd->...v', jnp.asarray(hidden), head)
    return np.asarray(product, np.float32)

  def alone(self, tokens, positions=None):
    """One row with nothing around it; arrays without the axis of rows."""
    positions = np.arange(len(tokens)) if positions is None else positions
    hidden, logits = self.run(
      np.array([tokens]), np.array([positions]), np.ones((1, len(tokens)))
    )
    return hidden[0], logits[0]

  def first_layers(self, count: int) -> 'Loaded':
    """The model that ends after `count` layers, with the same final norm."""
    config = dataclasses.replace(self.model.config, layers=count)
    layers = jax.tree.map(lambda x: x[:count], self.params['layers'])
    return Loaded(decoder.make_model(config), self.params | {'layers': layers})


def load(directory: pathlib.Path, **changes) -> Loaded:
  """Reads config.json and the weights; `changes` are fields of the config."""
  raw = json.loads((directory / 'config.json').read_text())
  config = dataclasses.replace(hf_config.from_hf(raw), **changes)
  params = loading.load(SafetensorsFiles(directory), config, None)
  return Loaded(decoder.make_model(config), params)


def published(config, params) -> dict[str, np.ndarray]:
  """A tree like the parameters under its published names and orientation."""
  weights = {}
  for name, place in hf_names.places(config).items():
    leaf = functools.reduce(lambda node, key: node[key], place.path, params)
    array = np.asarray(leaf if place.layer is None else leaf[place.layer])
    weights[name] = array.T if place.transposed else array
  return weights
