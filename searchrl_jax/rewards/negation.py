# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a phrase denies: "not born in" against "born in".

A rule of words, for facts whose embeddings differ too little: it must answer
alike for two wordings of one fact, and need not understand them.
"""

import re

# "_" joins words of a relation as a space would.
_JOINED = re.compile(r'_|(?<=[a-z])(?=[A-Z])')

# "No. 5" counts, "not only" affirms, and so does "none other than".
_WORD = re.compile(
  r"""
  \b(?:
    not\b(?!\s+only\b) | no\b(?!\.?\s*\d) | none\b(?!\s+other\s+than\b)
    | nothing\b(?!\s+but\b)
    | (?:never|neither|without|cannot|nobody|nowhere)\b
    | \w*n['’]t\b
    | (?:ai|are|could|did|do|does|had|has|have|is|should|was|were|would)nt\b
    | non[-\u2010\u2011](?=\w)
  )
  """,
  re.VERBOSE,
)
_NOR = re.compile(r'\bnor\b')

# Single characters deny where they stand alone or before such a verb only:
# 不丹 (Bhutan), 无锡 (Wuxi), 非洲 (Africa) and 未来 (future) deny nothing.
_CHARACTERS = re.compile(
  r"""
  (?<!\w)[不没沒未非无無](?!\w)
  | [不未没沒](?=[是在会會能可曾属屬有获獲参參出被得为為再])
  | 并非 | 並非 | 绝非 | 絕非 | 从未 | 從未 | 无法 | 無法 | 无关 | 無關
  """,
  re.VERBOSE,
)


def negated(text: str) -> bool:
  """Whether a phrase denies, by an odd number of words of negation.

  Two negations cancel ("never not in use"); "neither A nor B" and "not A nor
  B" are one. Words count whole: "Notre Dame" and "North Norway" deny nothing.
  `not_born_in` and `notBornIn` read like "not born in". The prefixes un-, in-
  and dis- make words of their own and are left to the embedding.
  """
  text = _JOINED.sub(' ', text).lower()
  count = len(_WORD.findall(text)) + len(_CHARACTERS.findall(text))
  if not count:
    return _NOR.search(text) is not None
  return count % 2 == 1
