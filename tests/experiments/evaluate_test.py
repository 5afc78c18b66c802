# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""A workdir is evaluated again, and talked to, as it evaluated itself."""

import io
import json
import pathlib
import sys
from unittest import mock

import pytest

from experiments import player as players
from experiments import saved
from searchrl_jax import metrics
from searchrl_jax.evaluation.evaluate import hash_of, stratified

RESULTS = ('n', 'em', 'em_stderr', 'f1', 'answered', 'searches', 'data_hash')


def evaluation(workdir, phase, temperature):
  [row] = [
    row
    for row in metrics.read_rows(workdir / 'evaluation.jsonl')
    if (row['phase'], row['temperature']) == (phase, temperature)
    and row['split'] == 'test'
  ]
  return row


@pytest.mark.parametrize('temperature', [0.0, 1.0])
def test_what_a_run_said_of_itself_is_found_again(start, learned, temperature):
  # Other batches, another process, a random draw: the same trajectories.
  workdir, _ = learned
  ended = start(
    'evaluate', f'--workdir={workdir}', f'--temperature={temperature}'
  )
  assert ended.code == 0, ended.err
  wanted = evaluation(workdir, 'final', temperature)
  *_, row = metrics.read_rows(workdir / 'evaluate.jsonl')
  assert [row[name] for name in RESULTS] == [wanted[name] for name in RESULTS]
  assert row['step'] == 4
  assert row['settings'] == wanted['settings']
  shown = json.loads(ended.out)
  assert shown == {k: v for k, v in row.items() if k != 'settings'}


def test_quick_is_one_flag_and_so_is_more(start, learned):
  workdir, _ = learned
  for count, step in ((3, 3), (9, 4)):
    ended = start(
      'evaluate',
      f'--workdir={workdir}',
      f'--n={count}',
      f'--step={step}',
      '--split=validation',
    )
    assert ended.code == 0, ended.err
    shown = json.loads(ended.out)
    assert (shown['n'], shown['step']) == (count, step)
    assert list(shown['em_by_hops']) == ['1', '2', '3']  # every stratum


def test_questions_from_files(start, learned, written, tmp_path):
  workdir, _ = learned
  corpus, questions = (flag.split('=')[1] for flag in written)
  # Two sources of different size: their means are averaged in two ways.
  lines = pathlib.Path(questions).read_text().splitlines()
  rows = [json.loads(line) for line in lines]
  for number, row in enumerate(rows):
    row['metadata']['source'] = 'few' if number == 0 else 'many'
  mixed = tmp_path / 'mixed.jsonl'
  mixed.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  ended = start(
    'evaluate',
    f'--workdir={workdir}',
    f'--corpus={corpus}',
    f'--questions={mixed}',
  )
  assert ended.code == 0, ended.err
  shown = json.loads(ended.out)
  assert shown['n'] == 5  # all of them
  sources = shown['em_by_source']
  assert shown['em_macro'] == (sources['few'] + sources['many']) / 2
  assert shown['em_micro'] == (sources['few'] + 4 * sources['many']) / 5
  *_, row = metrics.read_rows(workdir / 'evaluate.jsonl')
  assert row['settings']['data']['questions'] == str(mixed)
  assert row['settings']['data']['corpus'] == corpus


def test_quick_evaluation_of_files_is_stratified(learned, written):
  workdir, _ = learned
  changes = dict(flag[len('--config.') :].split('=') for flag in written)
  changes |= {'evaluation.questions': 3, 'evaluation.final_questions': 99}
  run = saved.load(str(workdir), step='newest', changes=changes)
  whole, quick = run.data.test, run.data.validation
  assert len(whole) == 5
  assert quick == stratified(whole, 3)
  assert hash_of(quick) != hash_of(whole)


def test_one_rollout_for_training_and_evaluation(learn, tmp_path):
  # Everything but weights, keys and sampling is the same object.
  template = tmp_path / 'chat.jinja'
  template.write_text(
    '{% for m in messages %}question {{ m.content }} {% endfor %}'
  )
  seen = {}
  play, rollout = players.Player.play, players.rollout

  def playing(self, questions, **how):
    seen[how['purpose']] = set()

    def watched(policy, environment, _, resolve, tokenizer, **rest):
      same = (policy, environment, resolve, tokenizer, rest['template'])
      limits = rest['limits']
      seen[how['purpose']].add((*map(id, same), environment.stops, limits))
      assert rest['template'].prompt('x') == 'question x '
      return rollout(policy, environment, _, resolve, tokenizer, **rest)

    with mock.patch.object(players, 'rollout', watched):
      return play(self, questions, **how)

  with mock.patch.object(players.Player, 'play', playing):
    ended = learn(
      'grpo',
      tmp_path / 'run',
      '--config.training.steps=1',
      f'--config.chat_template={template}',
    )
  assert ended.code == 0, ended.err
  assert set(seen) == {'train', 'evaluation/validation', 'evaluation/test'}
  assert len(set.union(*seen.values())) == 1
  [*_, row] = metrics.read_rows(tmp_path / 'run' / 'traces.jsonl')
  assert row['prompt'].startswith('question question ')


def test_a_partial_batch_compiles_nothing(learned):
  workdir, _ = learned
  run = saved.load(str(workdir), step='newest', changes={})
  questions = run.data.test

  def play(count):
    run.player.play(
      questions[:count],
      group=1,
      purpose='evaluation/test',
      step=0,
      sampling=players.Sampling(0.0),
    )
    return run.player.policy.compiled_programs

  whole = play(6)  # a batch of four, and two more
  assert play(4) == play(3) == play(1) == whole


# --- ask ---------------------------------------------------------------------


def test_ask_one_question(start, learned):
  workdir, _ = learned
  run = saved.load(str(workdir), step='newest', changes={})
  question = run.data.test[0]
  ended = start('ask', f'--workdir={workdir}', f'--ask={question.text}')
  assert ended.code == 0, ended.err
  lines = ended.out.splitlines()
  assert lines[0].startswith('  agent  ')
  assert lines[-2].startswith(('answer: ', 'no answer: '))
  assert lines[-1] == f'gold: {question.answers[0]}'  # it knows the question


def test_the_weights_experience_began_with_can_be_played(learned):
  workdir, _ = learned
  began = saved.load(str(workdir), step='warm_start', changes={})
  newest = saved.load(str(workdir), step='newest', changes={})
  assert began.step < newest.step
  assert began.player.describe() != newest.player.describe()


def test_turns_are_shown_while_they_happen(start, learned):
  # Each is printed, and flushed, before the next one is asked for.
  workdir, _ = learned
  run = saved.load(str(workdir), step='newest', changes={})
  events = []
  ask = players.ModelPolicy.ask
  show = print

  def asking(self, asked):
    events.append('ask')
    return ask(self, asked)

  def printing(*args, **kwargs):
    if str(args[0]).startswith('  agent'):
      assert kwargs['flush']
      events.append('show')
    show(*args, **kwargs)

  with (
    mock.patch.object(players.ModelPolicy, 'ask', asking),
    mock.patch('builtins.print', printing),
  ):
    start('ask', f'--workdir={workdir}', f'--ask={run.data.test[0].text}')
  assert len(events) > 2  # it searched
  assert events == ['ask', 'show'] * (len(events) // 2)


def test_a_dialogue(start, learned):
  workdir, _ = learned
  run = saved.load(str(workdir), step='newest', changes={})
  question = run.data.test[0].text
  typed = io.StringIO(f'what is unheardof ?\n\n{question}\n')
  with mock.patch.object(sys, 'stdin', typed):
    ended = start('ask', f'--workdir={workdir}')
  assert ended.code == 0, ended.err
  assert f'  {question}' in ended.out  # among those shown as examples
  # Neither an unknown word nor an empty line ends it.
  assert "\n> error: 'unheardof' is not among" in ended.out
  assert '\n> >   agent  ' in ended.out
  assert ended.out.endswith('\n> \n')
