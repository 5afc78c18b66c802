# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Configuration sections become the parts of a run.

The edge between data and types: every section ends as keyword arguments of
one dataclass or function, so a misspelt key or a wrong type dies here.
"""

import contextlib
import dataclasses

import jax
import ml_collections

from experiments.grammars.grammar import Grammar
from experiments.player import Player, Rows
from experiments.policy import Named
from searchrl_jax import model_files, pretrained_tokenizer, sharding
from searchrl_jax import tokenizer as tokenizers
from searchrl_jax.byte_level import PretrainedTokenizer
from searchrl_jax.chat import ChatTemplate
from searchrl_jax.data.world import WorldConfig, vocabulary
from searchrl_jax.model_files import ModelFiles
from searchrl_jax.rollout.engine import Limits
from searchrl_jax.rollout.requests import Tools
from searchrl_jax.types import Sampling

_ASKED = 'what is asked'  # whether a chat template passes it on
MODEL = 'model'  # the tokenizer or the chat template that comes with it


def make_tokenizer(
  config: ml_collections.ConfigDict, named: Named, grammar: Grammar
) -> tokenizers.Tokenizer:
  """The tokenizer a config names, as wide as the weights it speaks for.

  A word list holds the words of the grammar and of generated worlds.

  Raises:
    ValueError: there is no such tokenizer.
  """
  if config.tokenizer == 'bytes':
    return tokenizers.ByteTokenizer()
  if config.tokenizer == 'words':
    words = (*grammar.words(config), *vocabulary(WorldConfig(**config.world)))
    return tokenizers.WordTokenizer(tuple(dict.fromkeys(words)))
  return pretrained_tokenizer.load(
    _tokenizer_files(config, named),
    vocabulary=named.decoder.vocabulary if named.decoder else 0,
  )


def _tokenizer_files(config, named: Named) -> ModelFiles:
  if config.tokenizer == MODEL:
    return _files_of_model('tokenizer', named)
  return model_files.find(config.tokenizer, model_files.TOKENIZER)


def _files_of_model(key: str, named: Named) -> ModelFiles:
  if named.files is not None:
    return named.files
  if not named.tokenizer_name:
    raise ValueError(
      f'{key} is "model" but model.name is empty; name a published model, or '
      f'set {key} to something else.'
    )
  return model_files.find(named.tokenizer_name, model_files.TOKENIZER)


def make_template(
  config: ml_collections.ConfigDict,
  named: Named,
  tokenizer: tokenizers.Tokenizer,
) -> ChatTemplate | None:
  """The chat template of a config, None where prompts are plain text.

  Raises:
    ValueError: there is none where it is sought.
  """
  if not config.chat_template:
    return None
  if config.chat_template == MODEL:
    name = 'the chat template of the model'
    template = pretrained_tokenizer.chat_template(
      _files_of_model('chat_template', named)
    )
  else:
    name = config.chat_template
    template = ChatTemplate.from_file(name)
    if isinstance(tokenizer, PretrainedTokenizer):
      tokens = tokenizer.published.special_tokens_map
      template = dataclasses.replace(template, variables=tokens)
  if _ASKED not in template.prompt(_ASKED):
    raise ValueError(
      f'{name} leaves out what the user says; it cannot ask a question.'
    )
  if not template.prefix_preserving:
    print(
      f'{name} changes earlier turns when a conversation grows; here it '
      'renders the first prompt only, never history.'
    )
  return template


def make_devices(config: ml_collections.ConfigDict) -> None:
  """Splits the CPU into as many devices as asked for.

  Must come before anything else asks JAX for a device; on accelerators it
  changes nothing.
  """
  if config.devices > 1:
    # Refused where devices are in use already; `make_mesh` counts them.
    with contextlib.suppress(RuntimeError):
      jax.config.update('jax_num_cpu_devices', config.devices)


def make_mesh(config: ml_collections.ConfigDict) -> jax.sharding.Mesh:
  """The mesh of a config.

  Raises:
    ValueError: devices are missing, or something does not divide over them.
  """
  count = config.devices or jax.device_count()
  if count > jax.device_count():
    raise ValueError(
      f'devices is {count}, but JAX sees {jax.device_count()}; ask for fewer.'
    )
  sizes = mesh_sizes(config, count)
  return sharding.make_mesh(**sizes, devices=jax.devices()[:count])


def mesh_sizes(config: ml_collections.ConfigDict, count: int) -> dict[str, int]:
  """How `count` devices, here or elsewhere, share the work of a config.

  Raises:
    ValueError: they or the rows do not divide.
  """
  fsdp, tensor = config.mesh.fsdp, config.mesh.tensor
  if count % (fsdp * tensor):
    raise ValueError(
      f'mesh.fsdp x mesh.tensor is {fsdp} x {tensor} and does not divide '
      f'{count} devices; choose factors of {count}.'
    )
  rows = count // tensor  # groups of devices with rows of their own
  for name, size in (
    ('rollout.questions', config.rollout.questions),
    ('training.microbatch', config.training.microbatch),
  ):
    if size % rows:
      raise ValueError(
        f'{name} is {size} and cannot be split over {rows} devices; choose a '
        f'multiple of {rows}.'
      )
  return {'data': count // (fsdp * tensor), 'fsdp': fsdp, 'tensor': tensor}


def make_limits(config: ml_collections.ConfigDict) -> Limits:
  """The token budgets of a trajectory."""
  section = config.rollout
  if section.context > config.training.packed_length:
    raise ValueError(
      f'rollout.context is {section.context} and training.packed_length '
      f'{config.training.packed_length}; a trajectory must fit into a row.'
    )
  return Limits(section.max_new_tokens, section.max_tokens, section.context)


def make_sampling(config: ml_collections.ConfigDict) -> Sampling:
  """How training rollouts are drawn."""
  section = config.rollout
  return Sampling(section.temperature, section.top_k, section.top_p)


def make_rows(config: ml_collections.ConfigDict) -> Rows:
  """How many rollouts are in flight, and how many of them decode."""
  section = config.rollout
  rows = section.rows or section.questions * section.group
  return Rows(
    rows=rows,
    width=min(section.decode_rows or rows, rows),
    reserved=section.generate_rows,
    append_rows=section.append_rows,
    append_tokens=section.append_tokens,
  )


def make_player(
  config,
  policy,
  environment,
  tokenizer,
  template,
  resolve,
  mesh,
  *,
  seed: int,
  rows: Rows,
) -> Player:
  """Plays with the budgets of a config."""
  return Player(
    policy,
    environment,
    tokenizer,
    resolve,
    seed=seed,
    rows=rows,
    limits=make_limits(config),
    tools=Tools(**config.tools),
    template=template,
    mesh=mesh,
  )
