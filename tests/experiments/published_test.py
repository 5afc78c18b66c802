# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A published model, from its directory to a directory of our own.

It is published here: a small decoder of random weights with a byte-level
tokenizer and a chat template, as the files of a hub repository.
"""

import json
import pathlib

import jax
import numpy as np
import pytest
import tokenizers
import transformers

from searchrl_jax import metrics, traces
from searchrl_jax.data.world import WorldConfig, Worlds
from searchrl_jax.models import export, safetensors_files
from searchrl_jax.models.config import DecoderConfig
from searchrl_jax.models.decoder import make_model

ENDS = ('<|end|>', '<|start|>', '<|stop|>')  # ids 0, 1, 2
TEMPLATE = (
  '{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|stop|>\n'
  '{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}'
)
SIZES = DecoderConfig(
  vocabulary=320,  # more rows than tokens, as published models have
  width=16,
  layers=2,
  heads=4,
  kv_heads=2,
  head_width=8,
  mlp_width=24,
  rope_base=1000.0,
  attention_bias=True,
  tied=False,
  context=512,
  embedding_std=0.125,
)


@pytest.fixture(scope='module')
def published(tmp_path_factory):
  """Its directory."""
  folder = tmp_path_factory.mktemp('hub') / 'small'
  params = make_model(SIZES).init(jax.random.key(1))
  export.export(folder, params, SIZES, token_ids={'eos_token_id': 2})
  said = [page.contents for page in Worlds(WorldConfig()).world(7).documents]
  trained = tokenizers.ByteLevelBPETokenizer()
  trained.train_from_iterator(
    said, 300, special_tokens=list(ENDS), show_progress=False
  )
  tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizers.Tokenizer.from_str(trained.to_str()),
    eos_token=ENDS[2],
  )
  tokenizer.chat_template = TEMPLATE
  tokenizer.save_pretrained(folder)
  return folder


@pytest.fixture(scope='module')
def flags_of(mini, published):
  """Flags of a run of it; a model like this needs longer turns than words."""
  own = [flag for flag in mini if not flag.startswith('--config.model')]
  return (
    *own,
    f'--config.model.name={published}',
    '--config.tokenizer=model',
    '--config.chat_template=model',
    '--config.rollout.max_new_tokens=24',
    '--config.rollout.max_tokens=48',
    '--config.rollout.context=384',
    '--config.rollout.append_rows=4',
    '--config.rollout.append_tokens=64',  # few widths to compile
    '--config.training.packed_length=384',
    '--config.training.steps=2',
    '--config.training.minibatches=1',  # old weights are the learner's
    '--config.environment.max_turns=2',
    '--config.warm_start.drill_steps=0',
    '--config.warm_start.sft_steps=2',
    '--config.experience.overlong_margin=40',
    '--config.experience.skip_zero_advantage=False',
  )


ADAPTERS = (
  '--config.lora.rank=2',
  '--config.lora.targets=("q", "v", "down")',
  '--config.loss.kl=k3',
)


@pytest.fixture(scope='module')
def trained(start, flags_of, tmp_path_factory):
  """A finished run in which all weights learned."""
  workdir = tmp_path_factory.mktemp('whole') / 'grpo'
  ended = start('grpo', *flags_of, f'--workdir={workdir}')
  assert ended.code == 0, ended.err
  return workdir


@pytest.fixture(scope='module')
def adapted(start, flags_of, tmp_path_factory):
  """A finished run in which adapters learned."""
  workdir = tmp_path_factory.mktemp('adapted') / 'grpo'
  ended = start('grpo', *flags_of, *ADAPTERS, f'--workdir={workdir}')
  assert ended.code == 0, ended.err
  return workdir


def weights(folder):
  source = safetensors_files.SafetensorsFiles(folder)
  return {name: source.read(name) for name in source.names_in_order()}


def moved_by(start, workdir, published, out):
  """Exports a workdir; names the weights that are no longer as published."""
  ended = start('export', f'--workdir={workdir}', f'--out={out}')
  assert ended.code == 0, ended.err
  assert str(out) in ended.out
  before, after = weights(published), weights(out)
  assert before.keys() == after.keys()
  moved = {k for k in before if not np.array_equal(before[k], after[k])}
  return moved, set(before)


def rows(workdir, name):
  return list(metrics.read_rows(workdir / name))


# --- all weights learn -------------------------------------------------------


@pytest.mark.slow
def test_its_prompts_are_those_of_its_chat_template(trained):
  for trace in traces.read(trained / 'traces.jsonl'):
    prompt = trace.trajectory.prompt
    assert prompt.startswith('<|start|>user\n')
    assert prompt.endswith('<|stop|>\n<|start|>assistant\n')


@pytest.mark.slow
def test_the_sampler_and_the_learner_agree_on_its_weights(trained):
  learning = [r for r in rows(trained, 'metrics.jsonl') if r['phase'] == 'rl']
  assert len(learning) == 2
  for row in learning:
    assert row['sampler_learner_gap'] < 1e-3


@pytest.mark.slow
def test_what_was_learned_is_exported_with_its_tokenizer(
  start, trained, published, tmp_path
):
  out = tmp_path / 'out'
  moved, whole = moved_by(start, trained, published, out)
  assert len(moved) > len(whole) // 2  # a bias of k has no gradient
  config = transformers.AutoConfig.from_pretrained(out)
  assert (config.model_type, config.vocab_size) == ('qwen2', 320)
  tokenizer = transformers.AutoTokenizer.from_pretrained(out)
  assert tokenizer.chat_template == TEMPLATE
  assert config.eos_token_id in (2, [2])
  # A run may begin with what another has learned.
  ended = start('evaluate', f'--workdir={trained}', '--n=2')
  assert ended.code == 0, ended.err
  # The directory is not written over.
  ended = start('export', f'--workdir={trained}', f'--out={out}')
  assert ended.code == 2 and 'not empty' in ended.err


@pytest.mark.slow
def test_a_narrower_dtype_is_written_on_demand(start, trained, tmp_path):
  ended = start(
    'export',
    f'--workdir={trained}',
    f'--out={tmp_path}/out',
    '--dtype=bfloat16',
  )
  assert ended.code == 0, ended.err
  found = {array.dtype.name for array in weights(tmp_path / 'out').values()}
  assert found == {'bfloat16'}


# --- adapters learn ----------------------------------------------------------


@pytest.mark.slow
def test_a_checkpoint_of_adapters_holds_nothing_else(adapted, saved_tree):
  tree = saved_tree(adapted, 4, 'params')
  names = {
    jax.tree_util.keystr(path, simple=True, separator='/')
    for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]
  }
  assert names == {
    f'layers/{part}_{side}'
    for part in ('attention/q', 'attention/v', 'mlp/down')
    for side in 'ab'
  }


@pytest.mark.slow
def test_the_sampler_follows_the_adapters(adapted):
  learning = [r for r in rows(adapted, 'metrics.jsonl') if r['phase'] == 'rl']
  assert len({row['sampler_fingerprint'] for row in learning}) == 2
  for row in learning:
    assert row['sampler_learner_gap'] < 1e-3
    assert row['kl'] > 0  # from the base: the demonstrations moved away


@pytest.mark.slow
def test_exported_adapters_are_merged_into_their_matrices(
  start, adapted, published, tmp_path
):
  moved, _ = moved_by(start, adapted, published, tmp_path / 'out')
  assert {name.split('.')[-2] for name in moved} == {
    'q_proj',
    'v_proj',
    'down_proj',
  }


@pytest.mark.slow
def test_adapters_go_on_where_they_stopped(
  start, flags_of, interrupted, end_of, adapted, tmp_path
):
  command = (*flags_of, *ADAPTERS, f'--workdir={tmp_path}/run')
  with interrupted(3):
    assert start('grpo', *command).code == 130
  ended = start('grpo', *command)
  assert ended.code == 0, ended.err
  assert end_of(tmp_path / 'run') == end_of(adapted)


@pytest.mark.slow
def test_adapters_are_refused_beside_other_weights(
  start, adapted, published, tmp_path
):
  noted = adapted / 'base.json'
  kept = noted.read_text()
  noted.write_text(json.dumps(json.loads(kept) | {'fingerprint': 1}))
  try:
    ended = start('evaluate', f'--workdir={adapted}', '--n=2')
  finally:
    noted.write_text(kept)
  assert ended.code == 2
  assert 'adapters' in ended.err and str(published) in ended.err


@pytest.mark.slow
def test_adapters_are_shared_beside_the_same_weights_only(
  start, flags_of, adapted, tmp_path
):
  shared = f'--config.init_from={adapted}'
  command = (*flags_of, *ADAPTERS, shared, '--config.training.steps=1')
  ended = start('grpo', *command, f'--workdir={tmp_path}/same')
  assert ended.code == 0, ended.err
  scaled = '--config.lora.alpha=16.0'
  ended = start('grpo', *command, scaled, f'--workdir={tmp_path}/other')
  assert ended.code == 2 and 'lora.alpha' in ended.err
  assert not (tmp_path / 'other').exists()


# --- refused before anything is begun ----------------------------------------


@pytest.mark.parametrize(
  ('flags', 'said'),
  [
    (['--config.model.name=qwen3-0.6'], ['no preset', 'qwen3-0.6b']),
    (['--config.model.name=model.gguf'], ['model.gguf']),
    (['--config.tokenizer=words'], ['tokenizer', '"model"']),
    (['--config.rollout.context=1024'], ['rollout.context', '512']),
    (['--config.model.param_dtype=bfloat16'], ['lora.rank']),
    (['--config.lora.rank=2', '--config.lora.targets=("x",)'], ['targets']),
    (['--config.model.remat=some'], ['model.remat', '"layer"']),
    (['--config.model.name='], ['model.name is empty']),
    (['--config.model.name=~nobody/x'], ['~nobody/x']),
    (['--config.lora.rank=2', '--config.lora.alpha=nan'], ['alpha', 'nan']),
    (['--config.chat_template=silent.jinja'], ['what the user says']),
  ],
)
def test_what_does_not_fit_together(
  start, flags_of, tmp_path, monkeypatch, flags, said
):
  monkeypatch.chdir(tmp_path)
  pathlib.Path('silent.jinja').write_text('<|start|>')
  packed = '--config.training.packed_length=1024'
  ended = start('grpo', *flags_of, packed, f'--workdir={tmp_path}/x', *flags)
  assert ended.code == 2
  assert ended.err.count('\n') == 1
  for words in said:
    assert words in ended.err
  assert not pathlib.Path(tmp_path / 'x').exists()


def test_only_workdirs_of_runs_are_exported(start, published, tmp_path):
  ended = start('export', f'--workdir={published}', f'--out={tmp_path}/x')
  assert ended.code == 2 and 'no workdir of a run' in ended.err
