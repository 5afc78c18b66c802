# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""How well an answer agrees with the gold answers.

All scores take prediction and gold by keyword only, so that the two cannot be
swapped. Gold is a list, a tuple, an array or one bare string; the best gold
counts. No answer (None) and an empty one score 0 everywhere.

  prediction        gold    exact_match   f1    contains
  the Paris.        Paris        1        1        1
  Paris or Lyon     Paris        0        1/2      1
  Parisian          Paris        0        0        0
"""

import collections
import functools
import re
import string
from collections.abc import Sequence

import numpy as np

Gold = str | Sequence[str] | np.ndarray

_PUNCTUATION = str.maketrans('', '', string.punctuation)
_ARTICLES = re.compile(r'\b(a|an|the)\b')


# Names and passages come back many times within a step.
@functools.lru_cache(maxsize=1 << 14)
def normalise(text: str) -> str:
  """Lower-case, without ASCII punctuation, articles and spare white space.

  The normal form of SQuAD (arXiv:1606.05250), which open-domain question
  answering took over.
  """
  text = text.lower().translate(_PUNCTUATION)
  return _squeeze(_ARTICLES.sub(' ', text))


def golds(gold: Gold) -> tuple[str, ...]:
  """The gold answers as a tuple; a bare string is one of them.

  Raises:
    ValueError: where there is none.
  """
  if isinstance(gold, str):
    return (gold,)
  if isinstance(gold, np.ndarray):
    gold = gold.ravel().tolist()
  if not len(gold):
    raise ValueError('there is no gold answer to compare with')
  return tuple(str(one) for one in gold)


def exact_match(*, prediction: str | None, gold: Gold) -> bool:
  """Whether the prediction equals a gold answer in normal form."""
  return any(said == one for said, one in _pairs(prediction, gold))


def contains(*, prediction: str | None, gold: Gold) -> bool:
  """Whether a gold answer stands in the prediction, on word boundaries.

  Reported, not trained on by default: naming everything would earn it.
  """
  pairs = _pairs(prediction, gold)
  return any(f' {one} ' in f' {said} ' for said, one in pairs)


def f1(*, prediction: str | None, gold: Gold) -> float:
  """The best F1 between the words of the prediction and of a gold answer."""
  return max(
    (_f1(said, one) for said, one in _pairs(prediction, gold)), default=0.0
  )


def _pairs(prediction: str | None, gold: Gold) -> list[tuple[str, str]]:
  """Prediction and gold, comparable: one pair for each gold with words.

  A gold that normalising would empty ("The The", "!!!") is compared as it
  stands, but for case and white space.
  """
  pairs = []
  for one in golds(gold):
    form = normalise if normalise(one) else _lower
    pairs.append((form(prediction or ''), form(one)))
  return [(said, one) for said, one in pairs if said and one]


def _lower(text: str) -> str:
  return _squeeze(text.lower())


def _squeeze(text: str) -> str:
  return ' '.join(text.split())


def _f1(said: str, one: str) -> float:
  said, one = said.split(), one.split()
  common = collections.Counter(said) & collections.Counter(one)
  # 2pr / (p + r) with p = common / said and r = common / one.
  return 2 * common.total() / (len(said) + len(one))
