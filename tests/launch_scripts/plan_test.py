# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The command that tells what a run needs, as a person starts it."""

import json
import pathlib
import re
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LARGE = (
  '--config.model.name=qwen2.5-7b',
  '--config.tokenizer=model',
  '--config.model.compute_dtype=bfloat16',
  '--config.rollout.context=4096',
  '--config.training.packed_length=4096',
  '--config.training.microbatch=16',
  '--devices=8',
  '--memory_gib=80',
)
# Beside what the command prints: the most memory its process has had.
MEASURED = """
import atexit, runpy, sys
def peak():
  for line in open('/proc/self/status'):
    if line.startswith('VmHWM'):
      print('peak KiB', line.split()[1], file=sys.stderr)
atexit.register(peak)
runpy.run_module('launch_scripts.plan', run_name='__main__')
"""


def plan(*flags):
  return subprocess.run(
    [sys.executable, '-m', 'launch_scripts.plan', *flags],
    cwd=ROOT,
    capture_output=True,
    text=True,
  )


def row(out, name):
  """The amount beside a name of the table."""
  return re.search(rf'^ *{re.escape(name)} {{2,}}(.+)$', out, re.M)[1].strip()


def test_the_default_run_is_told_and_fits():
  ended = plan('--config=experiments/configs/tiny.py')
  assert ended.returncode == 0, ended.stderr
  assert ended.stdout.endswith('fits.\n')
  # Two moments of each float32 number; the policy is told of in the README.
  assert '145,632 parameters learn' in ended.stdout
  assert row(ended.stdout, 'parameters') == '569 KiB'
  assert row(ended.stdout, 'optimizer') == '1.11 MiB'
  for name in (
    'sampler copy',
    'KV cache',
    'gradients',
    'activations',
    'logits of a chunk',
    'remat layer',
    'remat products',
    'remat nothing',
    'total',
    'limit',
  ):
    assert row(ended.stdout, name)


def test_a_large_model_is_planned_in_seconds_and_what_is_proposed_fits():
  began = time.perf_counter()
  first = subprocess.run(
    [sys.executable, '-c', MEASURED, *LARGE],
    cwd=ROOT,
    capture_output=True,
    text=True,
  )
  seconds = time.perf_counter() - began
  assert first.returncode == 1, first.stderr
  # The weights would be 28 GiB, one matrix of its head 2 GiB.
  peak = int(re.search(r'peak KiB (\d+)', first.stderr)[1])
  assert peak < 1024**2, f'{peak} KiB'
  assert seconds < 60
  assert row(first.stdout, 'parameters') == '28.4 GiB'
  proposed = re.findall(r'--config[.\w]+=\w+', first.stdout.splitlines()[-1])
  assert proposed
  second = plan(*LARGE, *proposed)
  assert second.returncode == 0, second.stdout + second.stderr
  assert 'fsdp=8' in second.stdout or 'fsdp=4' in second.stdout


@pytest.mark.parametrize(
  'flags, told',
  [
    (['--devices=6', '--config.mesh.fsdp=4'], 'does not divide 6 devices'),
    (['--devices=32'], 'rollout.questions is 16'),
    (['--config.model.remat=some'], 'model.remat'),
    (['--config.rollout.group=0'], 'rollout.group is 0'),
    (['--devices=none'], 'devices'),
  ],
  ids=str,
)
def test_bad_input_ends_in_one_line(flags, told):
  ended = plan(*flags)
  assert ended.returncode == 2
  (line,) = ended.stderr.splitlines()
  assert line.startswith('error: ') and told in line


def test_of_a_directory_the_config_alone_is_read(tmp_path):
  # Sizes of SmolLM2-135M; there are no weights beside it.
  raw = {
    'model_type': 'llama',
    'architectures': ['LlamaForCausalLM'],
    'vocab_size': 49152,
    'hidden_size': 576,
    'num_hidden_layers': 30,
    'num_attention_heads': 9,
    'num_key_value_heads': 3,
    'intermediate_size': 1536,
    'rope_theta': 100000,
    'rms_norm_eps': 1e-5,
    'max_position_embeddings': 8192,
    'tie_word_embeddings': True,
    'hidden_act': 'silu',
  }
  (tmp_path / 'config.json').write_text(json.dumps(raw))
  (tmp_path / 'model.safetensors').write_bytes(b'')
  ended = plan(
    f'--config.model.name={tmp_path}',
    '--config.tokenizer=model',
    '--config.lora.rank=8',
    '--config.model.param_dtype=bfloat16',
    '--memory_gib=16',
  )
  assert ended.returncode == 0, ended.stdout + ended.stderr
  # 30 layers of 8 (in + out) numbers: q, k, v, o, gate, up, down.
  inner = 2 * (576 + 576) + 2 * (576 + 192) + 3 * (576 + 1536)
  learned = 30 * 8 * inner
  assert f'{learned:,} of {134_515_008 + learned:,}' in ended.stdout
  assert row(ended.stdout, 'frozen parameters') == '257 MiB'
