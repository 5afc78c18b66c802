# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The decoder gives what PyTorch gave; see tests/models/recorded/README.md."""

import dataclasses
import hashlib
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from searchrl_jax import model_files, pretrained_tokenizer, sharding
from searchrl_jax.model_files import Kind, ModelFiles
from searchrl_jax.models import decoder, loading, pretrained
from searchrl_jax.rollout.model_policy import ModelPolicy
from searchrl_jax.rollout.policy import Asked
from searchrl_jax.types import Question, Sampling

RECORDED = pathlib.Path(__file__).parent / 'recorded'
MODELS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
CLOSE = {'rtol': 1e-4, 'atol': 1e-4}


def load(name, **changes):
  """(model, parameters, recorded arrays)."""
  files = ModelFiles(name, RECORDED / name, Kind.DIRECTORY, 'recorded')
  config = dataclasses.replace(pretrained.read_config(files), **changes)
  params = loading.load(pretrained.open_weights(files), config, None)
  with np.load(files.path / 'reference.npz') as arrays:
    return decoder.make_model(config), params, dict(arrays)


def run(model, params, reference):
  """(hidden, logits) of the real tokens of the packed rows."""
  rows = (reference[key] for key in ('tokens', 'positions', 'segment_ids'))
  hidden = jax.jit(model.apply)(params, *rows)
  hidden = np.asarray(hidden, np.float32)[reference['segment_ids'] > 0]
  return hidden, hidden @ np.asarray(model.unembedding(params), np.float32).T


def test_every_family_is_recorded():
  families = {'llama', 'qwen2', 'qwen3'}
  configs = [
    json.loads((RECORDED / name / 'config.json').read_text()) for name in MODELS
  ]
  assert {config['model_type'] for config in configs} == families
  kinds = {config['rope_parameters']['rope_type'] for config in configs}
  assert kinds == {'default', 'linear', 'llama3', 'yarn'}


@pytest.mark.parametrize('name', MODELS)
def test_hidden_states_and_logits_agree(name):
  model, params, reference = load(name)
  real = reference['segment_ids'] > 0
  hidden, logits = run(model, params, reference)
  np.testing.assert_allclose(hidden, reference['hidden'][real], **CLOSE)
  np.testing.assert_allclose(logits, reference['logits'][real], **CLOSE)


@pytest.mark.parametrize('name', MODELS)
def test_rows_of_a_cache_agree(name):
  # The segments that begin at position 0, in two unequal calls:
  #   a a a|a a      b b|b      c|.      d d d d d d|d d d d d
  model, params, reference = load(name)
  places = ((0, 0, 5), (0, 5, 3), (0, 8, 1), (1, 5, 11))
  first = np.array([3, 2, 1, 6])
  second = np.array([length for *_, length in places]) - first
  tokens = np.zeros((2, 4, 6), np.int32)
  for r, (row, start, _) in enumerate(places):
    middle = start + first[r]
    own = reference['tokens'][row]
    tokens[0, r, : first[r]] = own[start:middle]
    tokens[1, r, : second[r]] = own[middle : middle + second[r]]
  step = jax.jit(model.apply_cached)
  rollout, cache = model.unstack(params), model.empty_cache(4, 16)
  hidden = []
  for columns, count in zip(tokens, (first, second), strict=True):
    given = (jnp.asarray(columns), jnp.asarray(count, jnp.int32))
    made, cache = step(rollout, *given, cache)
    hidden.append(np.asarray(made))
  for r, (row, start, length) in enumerate(places):
    got = [
      part[r, : count[r]]
      for part, count in zip(hidden, (first, second), strict=True)
    ]
    wanted = reference['hidden'][row, start : start + length]
    np.testing.assert_allclose(np.concatenate(got), wanted, **CLOSE)


def test_bfloat16_rounds_no_worse_than_pytorch():
  kind = jnp.bfloat16
  model, params, reference = load(
    'bfloat16', param_dtype=kind, compute_dtype=kind
  )
  real = reference['segment_ids'] > 0
  for name, got in zip(
    ('hidden', 'logits'), run(model, params, reference), strict=True
  ):
    error = np.sqrt(np.mean(np.square(got - reference[name][real])))
    theirs = reference[f'{name}_error']
    assert 0.3 * theirs < error < 1.3 * theirs


@pytest.mark.slow
def test_smollm2_answers_as_pytorch_does():
  recorded = json.loads((RECORDED / 'smollm2_greedy.json').read_text())
  files = model_files.find(recorded['model'], ())
  with files.path.open('rb') as file:
    found = hashlib.file_digest(file, 'sha256').hexdigest()
  assert found == recorded['sha256'], f'{files.path} has other weights'
  config = pretrained.read_config(files)
  tokenizer = pretrained_tokenizer.load(files, vocabulary=config.vocabulary)
  template = pretrained_tokenizer.chat_template(files)
  answers = recorded['answers']
  prompts = [
    template.encode_prompt(tokenizer, answer['prompt']) for answer in answers
  ]
  assert prompts == [answer['prompt_ids'] for answer in answers]
  said = _greedily(config, files, tokenizer, prompts, new_tokens=24)
  for tokens, answer in zip(said, answers, strict=True):
    assert tokens == answer['ids'], answer['prompt']
    assert tokenizer.decode(tokens) == answer['answer']


def _greedily(config, files, tokenizer, prompts, new_tokens):
  """One turn of each prompt, by the programs of a run, up to an end."""
  policy = ModelPolicy(
    decoder.make_model(config),
    tokenizer,
    (),
    rows=len(prompts),
    width=len(prompts),
    capacity=96,
    max_new_tokens=new_tokens,
    mesh=sharding.make_mesh(devices=jax.devices()[:1]),
  )
  policy.load(loading.load(pretrained.open_weights(files), config, None))
  policy.use(Sampling(temperature=0), jax.random.key(0))
  question = Question(id='', text='', answers=())
  for row, prompt in enumerate(prompts):
    policy.ask(Asked(row, question, 0, (), prompt, new_tokens))
  said = {}
  while policy.busy:
    for asked, turn in policy.advance():
      said[asked.id] = turn.tokens.tolist()
      policy.release(asked.id)
  return [said[row] for row in range(len(prompts))]
