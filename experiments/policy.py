# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The policy of a run: which decoder, with which weights, what of it learns.

  model.name     weights                      tokenizer = 'model'
  ''             random, `model.sizes`        none
  a preset       random, the preset's sizes   that of the preset's hub id
  a hub id, a directory, a .gguf file: all three from there

With `lora.rank` above 0 the weights are frozen and adapters learn beside them.
"""

import dataclasses
import functools
from collections.abc import Callable
from os.path import exists
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
from jax.sharding import Mesh

from searchrl_jax import model_files, sharding
from searchrl_jax.model_files import ModelFiles
from searchrl_jax.models import loading, lora, presets, pretrained
from searchrl_jax.models.config import DecoderConfig, Lora, Remat
from searchrl_jax.models.decoder import Model, make_model
from searchrl_jax.rollout.fingerprint import fingerprint
from searchrl_jax.tokenizer import Tokenizer
from searchrl_jax.training import step

_DTYPES = ('float32', 'bfloat16')


@dataclasses.dataclass(frozen=True)
class Named:
  """What `model.name` stands for; both None where it is empty.

  Attributes:
    decoder: the sizes that belong to the name.
    files: its config, and what lies beside it; None where weights are random.
    tokenizer_name: where its tokenizer is sought, '' where it has none.
  """

  decoder: DecoderConfig | None
  files: ModelFiles | None
  tokenizer_name: str

  @functools.cached_property
  def weights(self) -> ModelFiles:
    """The files of the weights. Sought only now: a plan, or a refusal, needs
    none of them.

    Raises:
      ValueError: they are missing.
    """
    return model_files.find(self.files.name, model_files.WEIGHTS)


def read_name(config: ml_collections.ConfigDict) -> Named:
  """Looks up `model.name`; reads its sizes, not its weights.

  Raises:
    ValueError: there is no such model, or it is of no known family.
  """
  name = config.model.name
  if not name:
    return Named(None, None, '')
  if name in presets.PRESETS:
    preset = presets.PRESETS[name]
    return Named(preset.config, None, preset.hub_id)
  if '/' not in name and not name.endswith('.gguf') and not exists(name):
    known = ', '.join(presets.PRESETS)
    raise ValueError(
      f'model.name is {name!r}: no file or directory here, no hub id (as '
      f'"Qwen/Qwen3-0.6B"), and no preset; presets are {known}.'
    )
  files = model_files.find(name, (model_files.CONFIG,))
  return Named(pretrained.read_config(files), files, name)


def make_decoder(
  config: ml_collections.ConfigDict, named: Named, tokenizer: Tokenizer
) -> DecoderConfig:
  """The decoder of a config, with the vocabulary of its tokenizer.

  Raises:
    ValueError: sizes or dtypes that cannot be meant, or do not fit together.
  """
  section = config.model
  rows = len(tokenizer.token_bytes)
  decoder = named.decoder or DecoderConfig(vocabulary=rows, **section.sizes)
  if named.files is None:  # random weights take any vocabulary
    decoder = dataclasses.replace(decoder, vocabulary=rows)
  if decoder.vocabulary != rows:
    raise ValueError(
      f'the weights of {named.files.name} have {decoder.vocabulary} tokens and '
      f'tokenizer {config.tokenizer!r} has {rows}; set tokenizer to "model".'
    )
  if decoder.context and config.rollout.context > decoder.context:
    raise ValueError(
      f'rollout.context is {config.rollout.context} and {section.name} was '
      f'made for {decoder.context} tokens; choose fewer.'
    )
  adapters = _lora(config)
  param_dtype = _dtype('model.param_dtype', section.param_dtype)
  if adapters is None and param_dtype != jnp.float32:
    raise ValueError(
      'model.param_dtype is "bfloat16" and all weights learn: small updates '
      'would be rounded away; keep float32 (compute_dtype may be bfloat16), or '
      'set lora.rank.'
    )
  return dataclasses.replace(
    decoder,
    lora=adapters,
    remat=_remat(section.remat),
    param_dtype=param_dtype,
    compute_dtype=_dtype('model.compute_dtype', section.compute_dtype),
  )


@dataclasses.dataclass(frozen=True)
class Policy:
  """A decoder and its weights, parted into what learns and what is frozen.

  Attributes:
    model: takes `join(frozen, learned)`.
    base: the same decoder without adapters; `model` where there are none.
    learned: shapes of the params that learn, with their shardings.
    frozen: params on the mesh that do not learn; {} where all do.
    join: (frozen, learned) -> params of `model`.
    begin: makes the params that learn, as they are before any training.
    origin: where frozen weights come from, for people; empty without any.
  """

  model: Model
  base: Model
  learned: Any
  frozen: Any
  join: step.Join
  begin: Callable[[], Any]
  origin: str

  def complete(self, learned: Any) -> Any:
    """The params of `model`."""
    return self.join(self.frozen, learned)

  @functools.cached_property
  def base_fingerprint(self) -> int:
    """A checksum of the frozen params."""
    return int(fingerprint(self.frozen))


def make_policy(
  decoder: DecoderConfig, named: Named, mesh: Mesh, seed: int
) -> Policy:
  """Places the frozen weights on the mesh; the others wait for `begin`.

  Raises:
    ValueError: weights are missing or not those of this decoder, or a matrix
      cannot be split over the mesh.
  """
  key = jax.random.key(seed)
  place = sharding.keep_rows(mesh)
  base = make_model(dataclasses.replace(decoder, lora=None), place)
  model = make_model(decoder, place)
  shapes = _placed(mesh, base, key)
  begin = functools.partial(_weights, base, named, shapes, key)
  if decoder.lora is None:
    return Policy(model, base, shapes, {}, step.all_learn, begin, '')
  learned, _ = lora.split(_placed(mesh, model, key))
  frozen = begin()

  def begin_adapters():
    make = jax.jit(
      functools.partial(lora.init, config=decoder, base=shapes),
      out_shardings=_shardings(learned),
    )
    return make(jax.random.fold_in(key, 1))

  return Policy(
    model,
    base,
    learned,
    frozen,
    lora.join,
    begin_adapters,
    named.weights.source if named.files else f'seed {seed}',
  )


def _weights(model: Model, named: Named, shapes: Any, key) -> Any:
  """The weights of the files, or random ones, in their places."""
  if named.files is None:
    return jax.jit(model.init, out_shardings=_shardings(shapes))(key)
  files = named.weights
  print(f'reading the weights of {files.name} from {files.source}.')
  return loading.load(
    pretrained.open_weights(files), model.config, _shardings(shapes)
  )


def _placed(mesh: Mesh, model: Model, key) -> Any:
  """Shapes of a model's params, with their shardings."""
  shapes = jax.eval_shape(model.init, key)
  return jax.tree.map(
    lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
    shapes,
    sharding.param_shardings(mesh, shapes, model.axes(shapes)),
  )


def _shardings(shapes: Any) -> Any:
  return jax.tree.map(lambda x: x.sharding, shapes)


def _lora(config) -> Lora | None:
  section = config.lora
  # Checked also where it is off: a misprint must not wait for the day it is on.
  adapters = Lora(max(1, section.rank), section.alpha, tuple(section.targets))
  return adapters if section.rank else None


def _remat(name: str) -> Remat:
  try:
    return Remat(name)
  except ValueError:
    known = ', '.join(f'"{member.value}"' for member in Remat)
    raise ValueError(
      f'model.remat is {name!r}: choose one of {known}.'
    ) from None


def _dtype(key: str, name: str) -> Any:
  if name not in _DTYPES:
    raise ValueError(f'{key} is {name!r}: choose "float32" or "bfloat16".')
  return jnp.dtype(name)
