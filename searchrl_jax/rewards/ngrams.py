# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""An embedding of short texts without weights: hashed character n-grams.

Texts that share most of their spelling lie close, on every machine alike. It
knows no meaning: "founder" and "established by" are far apart, "born in" and
"not born in" close, which is why facts are compared by rules besides.
"""

import dataclasses
import functools
import zlib
from collections.abc import Sequence

import numpy as np

from searchrl_jax.rewards import answers


@dataclasses.dataclass(frozen=True)
class NgramEmbedding:
  """Texts to unit vectors by signed feature hashing (arXiv:0902.2206).

  Every n-gram of the normalised text adds +1 or -1 to one of `width` places,
  both chosen by its CRC-32. A space stands at either end and between words,
  so that n-grams know where words begin:

    Ada born   ->   " ada born "   ->   " a", "ad", "da", "a ", " b", ...

  A text without letters is hashed as it stands ("!!!" is not "???"); the
  empty text has a vector like any other.

  Attributes:
    width: E, places of a vector.
    sizes: lengths of n-grams, in characters.
  """

  width: int = 256
  sizes: tuple[int, ...] = (2, 3, 4)

  def __post_init__(self):
    if self.width < 1 or not self.sizes or min(self.sizes) < 1:
      raise ValueError(
        'an n-gram embedding needs a width and sizes of at least 1, not '
        f'width {self.width}, sizes {self.sizes}'
      )

  def __call__(self, texts: Sequence[str]) -> np.ndarray:
    """The vectors of texts, `[n, E]` float32, each of length 1."""
    vectors = np.zeros((len(texts), self.width), np.float32)
    for i, text in enumerate(texts):
      vectors[i] = _embed(text, self.width, self.sizes)
    return vectors


# The facts of a group resemble each other, and relations are few.
@functools.lru_cache(maxsize=1 << 15)
def _embed(text: str, width: int, sizes: tuple[int, ...]) -> np.ndarray:
  form = answers.normalise(text) or ' '.join(text.lower().split())
  padded = f' {form} '
  grams = [
    padded[i : i + size]
    for size in sizes
    for i in range(len(padded) - size + 1)
  ]
  vector = _hashed(grams, width)
  if not vector.any():  # no n-gram is as short as the text, or all cancelled
    vector = _hashed([padded], width)
  return vector / np.linalg.norm(vector)


def _hashed(grams: Sequence[str], width: int) -> np.ndarray:
  codes = np.array(
    [zlib.crc32(gram.encode('utf-8', 'surrogatepass')) for gram in grams],
    np.int64,
  )
  # The lowest bit is the sign, the others choose the place.
  signs = 1.0 - 2.0 * (codes & 1)
  return np.bincount((codes >> 1) % width, signs, width)
