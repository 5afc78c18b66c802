# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark of rollouts plays what it says, and prints what it promises."""

import dataclasses
import json
from unittest import mock

import numpy as np
import pytest

from benchmarks import lock_step, rollout, workload
from benchmarks.workload import Setting, Workload
from searchrl_jax.rollout.policy import Said
from searchrl_jax.types import Question
from tests.benchmarks.models_test import TINY

SMALL = Workload(prompt=6, shortest=2, longest=7, reply=9, searches=2, group=2)


class Babble(lock_step.InStep):
  """Draws as much as it may."""

  def _draw(self, asked, *, fresh):
    self.counters.prefilled_tokens += sum(
      len(a.context) for a in asked.values()
    )
    return [
      Said(np.zeros(one.budget, np.int32), np.zeros(one.budget), stopped=False)
      for one in asked.values()
    ]

  def _forget(self):
    pass


def test_the_default_conversation_has_2400_tokens_at_most():
  # 200 + 5 * 120 + 4 * 400
  assert Workload().capacity == 2400
  contexts = Workload().contexts()
  # Before turn 1: 200 + 400 + one turn of 40 to 120.
  assert set(range(640, 721)) <= set(contexts)
  assert not set(range(201, 640)) & set(contexts)
  assert max(contexts) == 2400 - 120


def test_lengths_are_even_and_belong_to_a_turn():
  lengths = [
    Workload().length(Question(f'q{i}', '', ()), rollout, turn)
    for i in range(40)
    for rollout in range(8)
    for turn in range(5)
  ]
  assert min(lengths) == 40 and max(lengths) == 120
  assert np.mean(lengths) == pytest.approx(80, abs=2)
  assert np.std(lengths) == pytest.approx(np.sqrt((81**2 - 1) / 12), rel=0.05)
  again = Workload().length(Question('q0', '', ()), 0, 1)
  assert again == lengths[1]


@pytest.mark.parametrize('latency', [0, 5])
def test_everybody_draws_what_the_script_says(latency):
  setting = Setting(SMALL, rows=4, latency_ms=latency, trajectories=8)
  figures = workload.play(Babble(4), 61, setting)
  wanted = sum(
    SMALL.length(question, rollout, turn)
    for question in setting.questions()
    for rollout in range(2)
    for turn in range(3)
  )
  assert figures['sampled_tokens'] == wanted
  seconds = figures['seconds']
  # Two batches wait twice each.
  assert seconds > 4 * latency / 1000
  assert figures['sampled_tokens_per_s'] * seconds == pytest.approx(wanted)
  assert figures['seconds_per_trajectory'] * 8 == pytest.approx(seconds)
  assert 0 <= figures['device_busy_share'] <= 1


def test_texts_have_the_lengths_they_name():
  texts = workload.Texts(61)
  assert len(texts.encode('400 tokens 3')) == 400
  assert texts.encode('9 tokens 3') == texts.encode('9 tokens 3')
  assert texts.encode('9 tokens 3') != texts.encode('9 tokens 4')


def test_ratios_stand_beside_what_was_aimed_at():
  def row(part, contestant, latency, speed, searches=4):
    return {
      'part': part,
      'contestant': contestant,
      'latency_ms': latency,
      'searches': searches,
      'rows': 64 if part == 'many' else 16,
      'sampled_tokens_per_s': speed,
    }

  found = rollout.ratios(
    [
      row('latency', 'ours', 0, 30.0),
      row('latency', 'again', 0, 10.0),
      row('latency', 'torch', 0, 5.0),
      row('latency', 'again', 50, 10.0),  # ours was not measured
      row('many', 'ours', 0, 40.0),
      row('many', 'ours', 500, 30.0),
      row('searches', 'ours', 0, 9.0, searches=8),
      row('searches', 'again', 0, 2.0, searches=8),
      {'part': 'floor', 'ratio': 1.5},
    ]
  )
  assert {name: entry['value'] for name, entry in found.items()} == {
    'ours/again, 0 ms': 3.0,
    'ours/torch, 0 ms': 6.0,
    'lost at 500 ms, R = 64': 0.25,
    'ours/again, 8 searches': 4.5,
    'decode/floor': 1.5,
  }
  assert found['ours/again, 0 ms']['bound'] == 'at least'
  assert set(rollout.TARGETS) >= {
    name for name, entry in found.items() if 'target' in entry
  }


def test_without_pytorch_nobody_asks_it():
  plan = rollout.plans()[rollout.TINY]
  with mock.patch.object(rollout, 'pytorch_is_there', return_value=False):
    names = {name for name, _ in rollout.jobs(plan, 'latency')}
  assert names == {'ours', 'again'}


def test_flags_choose_models_and_parts():
  chosen = rollout._chosen(['--model=tiny', '--parts=many,floor'])
  assert {name: plan.parts for name, plan in chosen.items()} == {
    'tiny': ['many', 'floor']
  }
  assert set(rollout._chosen([])) == {'tiny', 'smollm2-135m'}
  with pytest.raises(SystemExit):
    rollout._chosen(['--parts=all'])


@pytest.mark.slow
def test_all_parts_are_measured(capsys):
  plan = rollout.Plan(
    TINY.decoder,
    latencies={'ours': (0,), 'again': (0,)},
    trajectories=8,
    in_step=4,
    many=16,
    many_latencies=(0, 5),
    rounds=1,
    setting=Setting(SMALL, rows=4, width=4),
    many_rows=8,
  )
  # A floor needs turns of 112 tokens.
  longer = dataclasses.replace(SMALL, longest=112)
  floor = dataclasses.replace(
    plan, parts=('floor',), setting=Setting(longer, rows=4, width=4)
  )
  others = dataclasses.replace(plan, parts=('latency', 'many'))
  rollout.main({'small': others, 'floor': floor})
  result = json.loads(capsys.readouterr().out)
  assert [row['contestant'] for row in result['figures']] == [
    *('ours', 'again'),
    *('ours', 'ours'),
    'floor',
  ]
  for row in result['figures'][:-1]:
    assert row['sampled_tokens_per_s_min'] <= row['sampled_tokens_per_s']
  assert set(result['ratios']['small']) == {
    'ours/again, 0 ms',
    'lost at 5 ms, R = 8',
  }
  floor = result['figures'][-1]
  pieces = ('products_ms', 'head_ms', 'attention_ms', 'sampling_ms')
  assert all(floor[piece] > 0 for piece in pieces)
  assert floor['floor_ms'] > max(floor[piece] for piece in pieces)
