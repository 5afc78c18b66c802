# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of a GGUF file, with the pre-tokenizer that the file declares.

A file holds a vocabulary, merges, a type for each token, and the name of the
rule that cuts text into pieces before merging. The rule matters: it decides
whether 2024 is one token or four. The names and their rules are those of
llama.cpp, which files are made for; no other rule is tried for an unknown name.

Text is not normalised, since files do not say how: Qwen's own tokenizer also
composes accents (NFC), which changes nothing for text that has them composed.
"""

from __future__ import annotations

import dataclasses

import gguf
import tokenizers
import transformers
from tokenizers import decoders, models, pre_tokenizers

from searchrl_jax.gguf_file import GgufFile

_PREFIX = 'tokenizer.ggml.'
_BYTE_LEVEL = 'gpt2'  # the only kind of vocabulary read
_TYPES = gguf.TokenType
# The roles that `transformers` gives a name, and their keys in a file.
_ROLES = {'bos': 'bos', 'eos': 'eos', 'pad': 'padding', 'unk': 'unknown'}

_SPACES = r'\s+(?!\S)|\s+'
_GPT2 = (
  r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|" + _SPACES
)
# As GPT-4 cuts, with at most so many digits to a piece.
_GPT4 = (
  r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}|"
  r' ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|' + _SPACES
)


@dataclasses.dataclass(frozen=True)
class _Rule:
  """How text is cut, and what goes with it.

  Attributes:
    patterns: each cuts what the ones before left into matches and the rest.
    whole: a piece that is a token is taken as such, whatever the merges say.
    begins: a text begins with bos where the file does not say.
  """

  patterns: tuple[str, ...]
  whole: bool = False
  begins: bool = False


_LLAMA3 = _Rule((_GPT4 % 3,), whole=True, begins=True)
_QWEN2 = _Rule((_GPT4 % 1,))
_RULES = {
  'default': _Rule((r'[\p{P}$+<=>^~|]+', _GPT2, r'\p{N}+', r'[0-9]{3}')),
  'gpt-2': _Rule((_GPT2,)),
  'smollm': _Rule((r'\p{N}', _GPT2)),  # digits one by one
  'qwen2': _QWEN2,
  'deepseek-r1-qwen': _QWEN2,
  'llama3': _LLAMA3,
  'llama-v3': _LLAMA3,
  'llama-bpe': _LLAMA3,
}


def build(file: GgufFile) -> transformers.PreTrainedTokenizerFast:
  """The tokenizer of a file.

  Control tokens are special, user-defined tokens are added ones that are not;
  unused ones, which only fill the vocabulary, are left out. Bytes of which the
  vocabulary has no token are dropped, as by the published tokenizer: SmolLM2
  has none for six control characters (04 06 13 14 16 1d) and none that begins
  a character of planes 4 to 11 of Unicode, which are empty so far.

  Raises:
    ValueError: no byte-level BPE vocabulary, an unknown pre-tokenizer, or
      lists that do not fit together.
  """
  vocabulary = _Vocabulary(file)
  rule = vocabulary.rule
  backend = tokenizers.Tokenizer(_bpe(file, vocabulary, rule))
  backend.pre_tokenizer = pre_tokenizers.Sequence(
    [
      *(
        pre_tokenizers.Split(tokenizers.Regex(pattern), 'isolated')
        for pattern in rule.patterns
      ),
      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
  )
  backend.decoder = decoders.ByteLevel()
  # Their ids are those of the vocabulary, which holds them already.
  backend.add_tokens(vocabulary.added())
  context = f'{file.metadata.get("general.architecture")}.context_length'
  limits = {}
  if context in file.metadata:
    limits['model_max_length'] = file.metadata[context]
  return transformers.PreTrainedTokenizerFast(
    tokenizer_object=backend,
    chat_template=file.metadata.get('tokenizer.chat_template'),
    clean_up_tokenization_spaces=False,
    add_bos_token=vocabulary.get('add_bos_token', rule.begins),
    add_eos_token=vocabulary.get('add_eos_token', False),
    **vocabulary.roles(),
    **limits,
  )


class _Vocabulary:
  """The lists of a file's tokenizer, checked."""

  def __init__(self, file):
    self._file = file
    kind = self.get('model')
    if kind != _BYTE_LEVEL:
      raise ValueError(
        f'{file.path} has a tokenizer of the kind {kind!r}; only byte-level '
        f'BPE ({_BYTE_LEVEL!r}) is read, choose a model with it: Qwen, '
        'Llama 3, SmolLM2.'
      )
    name = self.get('pre')
    if name not in _RULES:
      raise ValueError(
        f'{file.path} declares the pre-tokenizer {name!r}; known are '
        f'{", ".join(_RULES)}, choose another model.'
      )
    self.rule = _RULES[name]
    self.texts = self.get('tokens', [])
    self.types = self.get('token_type', [_TYPES.NORMAL] * len(self.texts))
    self.merges = self.get('merges', [])
    if not self.texts or len(self.types) != len(self.texts) or not self.merges:
      raise ValueError(
        f'{file.path} has {len(self.texts)} tokens, {len(self.types)} token '
        f'types and {len(self.merges)} merges, which are no tokenizer; take '
        'another file of the model.'
      )
    self.named = {role: self._id(key) for role, key in _ROLES.items()}
    kept = [i for i in range(len(self.texts)) if self._is_used(i)]
    self.ids = {self.texts[i]: i for i in kept}
    for i in kept:
      if self.ids[self.texts[i]] != i:
        raise ValueError(
          f'{file.path} has the token {self.texts[i]!r} twice, as {i} and as '
          f'{self.ids[self.texts[i]]}; take another file of the model.'
        )

  def get(self, key, default=None):
    return self._file.metadata.get(_PREFIX + key, default)

  def added(self):
    """Tokens that are cut out of a text before anything else."""
    special = (_TYPES.CONTROL, _TYPES.UNKNOWN)
    return [
      tokenizers.AddedToken(
        text, special=self.types[i] in special, normalized=False
      )
      for text, i in self.ids.items()
      if self.types[i] in (*special, _TYPES.USER_DEFINED)
    ]

  def roles(self):
    """`bos_token` and its like, as texts."""
    return {
      f'{role}_token': self.texts[i]
      for role, i in self.named.items()
      if i is not None
    }

  def _id(self, key):
    i = self.get(f'{key}_token_id')
    if i is not None and not 0 <= i < len(self.texts):
      raise ValueError(
        f'{self._file.path} names {i} as its {key} token and has '
        f'{len(self.texts)} tokens; take another file of the model.'
      )
    return i

  def _is_used(self, i):
    return self.types[i] != _TYPES.UNUSED or i in self.named.values()


def _bpe(file, vocabulary, rule):
  # The first of a pair may itself begin with a space.
  cuts = [(merge, merge.find(' ', 1)) for merge in vocabulary.merges]
  merges = [(merge[:at], merge[at + 1 :]) for merge, at in cuts if at > 0]
  try:
    if len(merges) < len(cuts):
      raise ValueError('a merge is no pair')
    return models.BPE(vocabulary.ids, merges, ignore_merges=rule.whole)
  except Exception as error:  # the library raises no other class
    raise ValueError(
      f'the merges of {file.path} do not fit its tokens: {error}; take another '
      'file of the model.'
    ) from None
