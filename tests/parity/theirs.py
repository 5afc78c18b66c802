# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side: models of `transformers` with random weights, and runs."""

import pathlib
from typing import NamedTuple

import numpy as np
import torch
import transformers


class Run(NamedTuple):
  """What a model made of rows of tokens, as float32 numpy arrays."""

  layers: list[np.ndarray]  # residual stream after each layer, [N, T, D]
  hidden: np.ndarray  # after the final norm, [N, T, D]
  logits: np.ndarray  # [N, T, V]


def make(fields: dict, seed: int):
  """A model of a config, float32, in which nothing has a special value.

  Norm scales leave 1 and biases 0; matrices keep activations near 1, where
  float32 numbers of two programs agree to about 1e-6.
  """
  config = transformers.AutoConfig.for_model(**fields)
  model = transformers.AutoModelForCausalLM.from_config(
    config, dtype=torch.float32, attn_implementation='eager'
  )
  rng = np.random.default_rng(seed)
  with torch.no_grad():
    for name, weight in model.named_parameters():
      values = rng.normal(size=tuple(weight.shape))
      if name.endswith('norm.weight'):
        values = 1 + 0.2 * values
      elif name.endswith('bias'):
        values = 0.3 * values
      elif 'embed_tokens' in name or 'lm_head' in name:
        values = 0.4 * values
      else:
        values = values * weight.shape[1] ** -0.5
      weight.copy_(torch.from_numpy(values))
  return model.eval()


def save(model, directory: pathlib.Path, **options) -> pathlib.Path:
  """Writes config.json and safetensors as `transformers` does."""
  model.save_pretrained(directory, **options)
  return directory


def load(directory: pathlib.Path, dtype=torch.float32):
  """What `transformers` makes of a directory."""
  return transformers.AutoModelForCausalLM.from_pretrained(
    directory, dtype=dtype, attn_implementation='eager'
  ).eval()


@torch.no_grad()
def run(model, tokens, positions, attended) -> Run:
  """Runs rows of tokens, none of them packed.

  Args:
    model: of `make` or `load`.
    tokens: `[N, T]`.
    positions: `[N, T]`; they need not begin at 0 or be consecutive.
    attended: `[N, T]`, 0 where a row is padded.
  """
  given = model(
    input_ids=torch.as_tensor(tokens, dtype=torch.long),
    position_ids=torch.as_tensor(positions, dtype=torch.long),
    # Without a mask, positions that jump would be taken for packed rows.
    attention_mask=torch.as_tensor(attended, dtype=torch.long),
    output_hidden_states=True,
    use_cache=False,
  )
  states = [state.float().numpy() for state in given.hidden_states]
  return Run(states[1:-1], states[-1], given.logits.float().numpy())


def alone(model, tokens, positions=None) -> Run:
  """Runs one row with nothing around it; arrays without the axis of rows."""
  positions = np.arange(len(tokens)) if positions is None else positions
  rows = run(
    model, np.array([tokens]), np.array([positions]), np.ones((1, len(tokens)))
  )
  return Run([x[0] for x in rows.layers], rows.hidden[0], rows.logits[0])


@torch.no_grad()
def final_norm(model, states: np.ndarray) -> np.ndarray:
  """The model's last norm of a residual stream."""
  return model.model.norm(torch.from_numpy(states)).numpy()
