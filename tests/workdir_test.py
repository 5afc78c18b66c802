# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A workdir belongs to one config."""

import json

import pytest

from searchrl_jax import workdir

CONFIG = {
  'seed': 1,
  'rollout': {'group': 8, 'stops': ('</search>', '</answer>')},
  'empty': {},
}


def test_config_is_json_for_people(tmp_path):
  place = tmp_path / 'new' / 'run'
  workdir.write_config(place, CONFIG)
  text = (place / 'config.json').read_text()
  assert '  "rollout": {\n    "group": 8,' in text
  # Tuples are lists from now on.
  assert json.loads(text)['rollout']['stops'] == ['</search>', '</answer>']
  assert workdir.read_config(place) == json.loads(text)
  assert [path.name for path in place.iterdir()] == ['config.json']


def test_the_same_config_passes_and_so_does_an_unused_workdir(tmp_path):
  workdir.require_same_config(tmp_path, CONFIG)
  workdir.write_config(tmp_path, CONFIG)
  workdir.require_same_config(tmp_path, CONFIG)


def test_another_config_is_refused_with_the_keys_that_differ(tmp_path):
  workdir.write_config(tmp_path, CONFIG)
  other = {
    'seed': 1,
    'rollout': {'group': 4, 'stops': CONFIG['rollout']['stops'], 'top_k': 5},
    'empty': {},
  }
  with pytest.raises(ValueError, match='another config') as error:
    workdir.require_same_config(tmp_path, other)
  message = str(error.value)
  assert 'rollout.group (8 there, 4 now)' in message
  assert 'rollout.top_k (absent there, 5 now)' in message
  assert 'seed' not in message and 'stops' not in message
  assert '\n' not in message


def test_sections_may_be_allowed_to_differ(tmp_path):
  workdir.write_config(tmp_path, {'log': {'every': 1}, 'logs': 2, 'a': None})
  now = {'log': {'every': 5}, 'logs': 2, 'a': None}
  workdir.require_same_config(tmp_path, now, may_differ=['log'])
  workdir.require_same_config(tmp_path, now, may_differ=['log.every'])
  # A name that begins alike is another key; None is not "absent".
  with pytest.raises(ValueError, match=r'logs \(2 there, 3 now'):
    workdir.require_same_config(tmp_path, now | {'logs': 3}, may_differ=['log'])
  with pytest.raises(ValueError, match=r'a \(null there, absent now'):
    workdir.require_same_config(
      tmp_path, {'log': {'every': 1}, 'logs': 2}, may_differ=['log']
    )


def test_many_differences_are_counted(tmp_path):
  workdir.write_config(tmp_path, {f'k{i}': 0 for i in range(8)})
  with pytest.raises(ValueError, match=r'k4 .* and 3 more; choose'):
    workdir.require_same_config(tmp_path, {f'k{i}': 1 for i in range(8)})


def test_missing_or_broken_config_is_one_line(tmp_path):
  with pytest.raises(ValueError, match='does not exist; choose the workdir'):
    workdir.read_config(tmp_path)
  (tmp_path / 'config.json').write_text('{"seed": ')
  with pytest.raises(ValueError, match='is not JSON'):
    workdir.require_same_config(tmp_path, CONFIG)
