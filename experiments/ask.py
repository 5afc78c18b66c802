# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Talks to the weights of a workdir over a corpus, turns printed as they end.

  python -m experiments.ask --workdir=runs/cwgrpo
  python -m experiments.ask --workdir=runs/cwgrpo --ask="who is ... ?"

Without --ask, questions are read from the terminal, one a line; a few that
can be answered are shown first.
"""

import sys

from absl import flags

from experiments import cli, saved
from experiments.data import CORPUS
from searchrl_jax import workdir as workdirs
from searchrl_jax.types import Question, Sampling, Turn

_ASK = flags.DEFINE_string('ask', '', 'One question, instead of a dialogue.')
_STEP = flags.DEFINE_string(
  'step',
  saved.NEWEST,
  'A number, "newest", "best" (by the em of quick evaluations) or '
  '"warm_start".',
)
_TEMPERATURE = flags.DEFINE_float(
  'temperature', 0.0, '0 is greedy.', lower_bound=0.0
)
_CORPUS = flags.DEFINE_string(
  'corpus', '', 'Another corpus file, for a run over files.'
)

_EXAMPLES = 3


def main(config) -> None:
  """Answers one question, or many until the input ends."""
  del config  # that of the workdir counts
  workdir = cli.workdir_of_a_run()
  changes = {
    'evaluation.questions': 1,
    'evaluation.final_questions': _EXAMPLES,
    'rollout.rows': 1,
  }
  if _CORPUS.value:
    if not workdirs.read_config(workdir)['data']['corpus']:
      raise ValueError(
        '--corpus replaces the corpus of a run over files; this run knows the '
        'words of the generated world only.'
      )
    changes['data.corpus'] = _CORPUS.value
  run = saved.load(workdir, step=_STEP.value, changes=changes)
  corpus = run.data.test[0].corpus if run.data.generated else CORPUS
  if _ASK.value:
    _answer(run, _ASK.value, corpus)
    return
  print(f'weights of step {run.step}, corpus {corpus}. Ask in this form:')
  for question in run.data.test[:_EXAMPLES]:
    print(f'  {question.text}')
  print('> ', end='', flush=True)
  for line in sys.stdin:
    if line.strip():
      try:
        _answer(run, line.strip(), corpus)
      except ValueError as error:  # a word it does not know: ask again
        print(f'error: {error}')
    print('> ', end='', flush=True)
  print()


def _answer(run: saved.Saved, text: str, corpus: str) -> None:
  question = Question(id=text, text=text, answers=(), corpus=corpus)
  known = [one for one in run.data.test if one.text == text]
  ((trajectory,),) = run.player.play(
    [question],
    group=1,
    purpose='ask',
    step=0,
    sampling=Sampling(_TEMPERATURE.value),
    watch=_show,
  )
  if trajectory.answer is None:
    print(f'no answer: {trajectory.status.value}')
  else:
    print(f'answer: {trajectory.answer}')
  if known:
    print(f'gold: {" or ".join(known[0].answers)}')


def _show(question: Question, rollout: int, turn: Turn) -> None:
  """One turn as it ends: what was said, what came back."""
  del question, rollout  # there is only one
  print(f'  agent  {turn.text.strip()}', flush=True)
  if turn.reply.strip():
    print(f'  world  {turn.reply.strip()}', flush=True)


if __name__ == '__main__':
  cli.run(main)
