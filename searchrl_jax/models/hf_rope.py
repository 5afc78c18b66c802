# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Rotary positions as a published config.json states them.

There are two forms. Files written before `transformers` 5 have `rope_theta`
and `rope_scaling` side by side, later ones have both in `rope_parameters`:

  "rope_theta": 1000000.0,                   "rope_parameters": {
  "rope_scaling": {"rope_type": "yarn",        "rope_type": "yarn",
                   "factor": 4.0, ...}         "rope_theta": 1000000.0,
                                               "factor": 4.0, ...}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from searchrl_jax.models.config import (
  LinearScaling,
  Llama3Scaling,
  RopeScaling,
  YarnScaling,
)
from searchrl_jax.models.rope import yarn_attention_factor

FORMS = ('rope_scaling', 'rope_parameters')
# What `transformers` assumes where a file is silent.
_BASE = 10_000.0


def read(raw: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
  """The base and the scaling that a config.json states.

  Args:
    raw: the whole file.

  Raises:
    ValueError: the two forms contradict each other, a key is missing, or the
      scaling is one the decoder does not do.
  """
  forms = {name: raw[name] for name in FORMS if raw.get(name)}
  bases = set()
  if raw.get('rope_theta') is not None:
    bases.add(_number(raw, 'rope_theta', 'config.json'))
  scalings = set()
  for name, form in forms.items():
    _check_form(name, form)
    if form.get('rope_theta') is not None:
      bases.add(_number(form, 'rope_theta', name))
    scalings.add(_scaling(name, form, raw))
  if len(bases) > 1:
    said = ' and '.join(str(base) for base in sorted(bases))
    raise ValueError(
      f'config.json gives rope_theta as {said}: keep the one that the model '
      'was trained with'
    )
  if len(scalings) > 1:
    raise ValueError(
      f'{" and ".join(FORMS)} of config.json contradict each other: keep one'
    )
  return (bases or {_BASE}).pop(), (scalings or {None}).pop()


def write(base: float, scaling: RopeScaling | None) -> dict[str, Any]:
  """Entries of a config.json, in both forms."""
  match scaling:
    case None:
      return {
        'rope_theta': base,
        'rope_scaling': None,
        'rope_parameters': {'rope_type': 'default', 'rope_theta': base},
      }
    case LinearScaling():
      stated = {'rope_type': 'linear', 'factor': scaling.factor}
    case Llama3Scaling():
      stated = {
        'rope_type': 'llama3',
        'factor': scaling.factor,
        'low_freq_factor': scaling.low_freq_factor,
        'high_freq_factor': scaling.high_freq_factor,
        'original_max_position_embeddings': scaling.original_context,
      }
    case YarnScaling():
      stated = {
        'rope_type': 'yarn',
        'factor': scaling.factor,
        'original_max_position_embeddings': scaling.original_context,
        'attention_factor': scaling.attention_factor,
        'beta_fast': scaling.beta_fast,
        'beta_slow': scaling.beta_slow,
        'truncate': scaling.truncate,
      }
  return {
    'rope_theta': base,
    'rope_scaling': stated,
    'rope_parameters': stated | {'rope_theta': base},
  }


def _check_form(name, form):
  if not isinstance(form, Mapping):
    raise ValueError(f'{name} of config.json is {form!r}: it must be an object')
  if form.get('partial_rotary_factor', 1.0) not in (1.0, None):
    raise ValueError(
      f'partial_rotary_factor of {name} in config.json is '
      f'{form["partial_rotary_factor"]}: this decoder turns whole heads'
    )
  nested = [key for key, value in form.items() if isinstance(value, Mapping)]
  if nested:
    raise ValueError(
      f'{name} of config.json differs by kind of layer ({", ".join(nested)}): '
      'all layers of this decoder turn alike'
    )


def _scaling(name, form, raw):
  kind = form.get('rope_type', form.get('type', 'default'))
  match kind:
    case 'default':
      return None
    case 'linear':
      return LinearScaling(_number(form, 'factor', name))
    case 'llama3':
      return Llama3Scaling(
        factor=_number(form, 'factor', name),
        low_freq_factor=_number(form, 'low_freq_factor', name),
        high_freq_factor=_number(form, 'high_freq_factor', name),
        original_context=_original_context(name, form, raw),
      )
    case 'yarn':
      return _yarn(name, form, raw)
    case _:
      raise ValueError(
        f'rope_type of {name} in config.json is {kind!r}: this decoder does '
        'default, linear, llama3 and yarn'
      )


def _yarn(name, form, raw):
  original = _original_context(name, form, raw)
  if 'factor' in form and form['factor'] is None:  # DeepSeek's way
    factor = _context(name, raw) / original
  else:
    factor = _number(form, 'factor', name)
  if form.get('attention_factor') is not None:
    warmth = _number(form, 'attention_factor', name)
  elif form.get('mscale') and form.get('mscale_all_dim'):
    part, whole = (
      yarn_attention_factor(factor, _number(form, key, name))
      for key in ('mscale', 'mscale_all_dim')
    )
    warmth = part / whole
  else:
    warmth = yarn_attention_factor(factor)
  return YarnScaling(
    factor=factor,
    original_context=original,
    attention_factor=warmth,
    beta_fast=float(form.get('beta_fast') or YarnScaling.beta_fast),
    beta_slow=float(form.get('beta_slow') or YarnScaling.beta_slow),
    truncate=bool(form.get('truncate', True)),
  )


def _original_context(name, form, raw):
  """Positions before the extension; beside the form in some files, and those
  of the whole model where nothing is said."""
  key = 'original_max_position_embeddings'
  for place in (raw, form):
    if place.get(key) is not None:
      return int(_number(place, key, name))
  return _context(name, raw)


def _context(name, raw):
  if raw.get('max_position_embeddings') is None:
    raise ValueError(
      f'{name} of config.json needs max_position_embeddings, which is missing: '
      'add original_max_position_embeddings and factor to it'
    )
  return int(_number(raw, 'max_position_embeddings', 'config.json'))


def _number(form, key, where):
  value = form.get(key)
  if value is None:
    raise ValueError(
      f'{where} has no {key}: take the config.json that came with the weights'
    )
  if isinstance(value, bool) or not isinstance(value, int | float):
    raise ValueError(f'{key} of {where} is {value!r}: it must be a number')
  if not 0 < value < math.inf:
    raise ValueError(f'{key} of {where} is {value}: it must be above 0')
  return float(value)
