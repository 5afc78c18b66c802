# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What is refused at once, before time is spent on anything.

Parts check what they are made of; here stands what no part sees before it is
too late: numbers that are read in the middle of a run, and questions that the
method, once it has learned to play, could not judge.
"""

import functools
import math
from collections.abc import Iterable

import ml_collections

from searchrl_jax.chat import ChatTemplate, opening
from searchrl_jax.tokenizer import Tokenizer
from searchrl_jax.types import Question, Recipe, Status, Trajectory

# The least and the most a number may be.
_ANY = math.inf
BOUNDS = {
  'devices': (0, _ANY),
  'mesh.fsdp': (1, _ANY),
  'mesh.tensor': (1, _ANY),
  'memory.limit_gib': (0, _ANY),
  'lora.rank': (0, _ANY),
  'environment.max_observation': (1, _ANY),
  'environment.max_facts': (1, _ANY),
  'data.questions_per_world': (1, _ANY),
  'retrieval.title_weight': (0, _ANY),
  'retrieval.k1': (0, _ANY),
  'retrieval.b': (0, 1),
  'rollout.questions': (1, _ANY),
  'rollout.group': (1, _ANY),
  'rollout.temperature': (0, _ANY),
  'rollout.top_k': (0, _ANY),
  'rollout.top_p': (1e-6, 1),
  'rollout.max_new_tokens': (1, _ANY),
  'rollout.max_tokens': (1, _ANY),
  'rollout.context': (2, _ANY),
  'rollout.rows': (0, _ANY),
  'rollout.decode_rows': (0, _ANY),
  'rollout.generate_rows': (0, _ANY),
  'rollout.append_rows': (1, _ANY),
  'rollout.append_tokens': (1, _ANY),
  'tools.concurrency': (1, _ANY),
  'tools.deadline': (1e-3, _ANY),
  'warm_start.drill_steps': (0, _ANY),
  'warm_start.sft_steps': (0, _ANY),
  'warm_start.questions': (2, _ANY),  # one for each kind of drill
  'warm_start.superfluous': (0, 1),
  'warm_start.early': (0, 1),
  'experience.redraws': (0, _ANY),
  'experience.overlong_margin': (0, _ANY),
  'experience.max_invalid_fraction': (0, 1),
  'training.steps': (0, _ANY),
  'training.minibatches': (1, _ANY),
  'training.epochs': (1, _ANY),
  'training.microbatch': (1, _ANY),
  'training.packed_length': (2, _ANY),
  'training.logps_chunk': (1, _ANY),
  'training.max_skipped': (0, _ANY),
  'loss.entropy_weight': (0, _ANY),
  'reward.format_weight': (0, _ANY),
  'reward.success_f1': (0, 1),
  'cwgrpo.alpha': (0, _ANY),
  'factagent.omega': (0, _ANY),
  'factagent.to_search': (0, 1),
  'factagent.prior': (0, _ANY),
  'factagent.threshold': (0, 1),
  'factagent.relation_threshold': (0, 1),
  'factagent.malformed_penalty': (0, _ANY),
  'factagent.repeated_penalty': (0, _ANY),
  'factagent.empty_penalty': (0, _ANY),
  'factagent.embedding_width': (1, _ANY),
  'evaluation.every': (1, _ANY),
  'evaluation.questions': (1, _ANY),
  'evaluation.final_questions': (1, _ANY),
  'checkpoint.every': (1, _ANY),
  'traces.every': (1, _ANY),
  'traces.groups': (0, _ANY),
}


_MAY_BE_INFINITE = ('cwgrpo.alpha',)  # equal shares among the best


def require_sense(config: ml_collections.ConfigDict) -> None:
  """Refuses numbers that cannot be meant.

  Raises:
    ValueError: naming the first such key and what it may be.
  """
  for key, (least, most) in BOUNDS.items():
    value = functools.reduce(getattr, key.split('.'), config)
    infinite = value == _ANY and key not in _MAY_BE_INFINITE
    if infinite or not least <= value <= most:
      allowed = f'from {least} to {most}' if most < _ANY else f'{least} or more'
      raise ValueError(f'{key} is {value}; choose {allowed}.')
  margin, limit = config.experience.overlong_margin, config.rollout.max_tokens
  if margin > limit:
    raise ValueError(
      f'experience.overlong_margin is {margin}; choose at most '
      f'rollout.max_tokens, {limit}.'
    )
  hops = tuple(config.data.hops)
  if not hops or not all(type(n) is int and n > 0 for n in hops):
    raise ValueError(
      f'data.hops is {hops}; give whole numbers above 0, such as "(1, 2)".'
    )


def require_playable(
  recipe: Recipe,
  tokenizer: Tokenizer,
  template: ChatTemplate | None,
  questions: Iterable[Question],
  *,
  context: int,
) -> None:
  """Asks questions in vain: nobody answers, yet all of it must be possible.

  Raises:
    ValueError: of the tokenizer or of the score, whichever cannot; or a
      prompt fills the context.
  """
  for question in questions:
    _, prompt = recipe.environment.start(question)
    _, ids = opening(tokenizer, template, prompt)
    if len(ids) >= context:
      raise ValueError(
        f'the prompt of question {question.id!r} has {len(ids)} tokens and '
        f'rollout.context is {context}; raise it or drop the question.'
      )
    silence = Trajectory(question, 0, prompt, (), (), Status.TURN_LIMIT)
    recipe.score([[silence]])
