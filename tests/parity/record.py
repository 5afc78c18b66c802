# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch gives, for tests that have no PyTorch.

  python -m tests.parity.record            (after `make parity` installed it)

writes tests/models/recorded: a small model of every family with its hidden
states and logits, one of them in bfloat16, and what SmolLM2-135M-Instruct says
greedily. Whatever changes in these files is a change of PyTorch, of
`transformers` or of this file: nothing of ours is in the numbers.
"""

import hashlib
import json
import pathlib

import numpy as np
import torch
import transformers

from searchrl_jax import model_files, pretrained_tokenizer
from tests.parity import families, theirs

RECORDED = pathlib.Path(__file__).parents[1] / 'models' / 'recorded'
GREEDY = 'smollm2_greedy.json'
BFLOAT16 = 'bfloat16'  # a model whose file holds such numbers
SMOLLM2 = 'HuggingFaceTB/SmolLM2-135M-Instruct'
NEW_TOKENS = 24
# The lead of a chosen token in logits. Two programs differ by about 1e-4;
# what is nearer than this is left to luck.
LEAD = 0.02
PROMPTS = (
  'What is the capital of France?',
  'Name three animals that live in the sea.',
  'What is 12 + 30? Give the number first.',
  'Write one sentence about the winter of 1963.',
  'Translate "good morning" into Spanish.',
)


# --- small models of every family --------------------------------------------


def rows(vocabulary: int) -> dict[str, np.ndarray]:
  """Packed rows of tokens, positions and segments, `[3, 16]` each.

  row 0   a a a a a b b b c . . . . . . .     packed, padded right
  row 1   . . . . . d d d d d d d d d d d     padded left
  row 2   e e e e e e e e e e e e e e e e     positions far out, with a gap
  """
  rng = np.random.default_rng(0)
  tokens = rng.integers(0, vocabulary, (3, 16))
  positions, segments = np.zeros((3, 16), int), np.zeros((3, 16), int)
  for row, start, length, number in (
    (0, 0, 5, 1),
    (0, 5, 3, 2),
    (0, 8, 1, 3),
    (1, 5, 11, 1),
    (2, 0, 16, 1),
  ):
    here = (row, slice(start, start + length))
    positions[here], segments[here] = np.arange(length), number
  positions[2] += 30_000 + 3_000 * (np.arange(16) >= 8)
  fields = {'tokens': tokens, 'positions': positions, 'segment_ids': segments}
  return {name: field.astype(np.int32) for name, field in fields.items()}


def references(directory: pathlib.Path) -> dict[str, dict[str, np.ndarray]]:
  """Writes a model of every family into a directory of its name.

  Returns:
    Name -> what `reference.npz` holds. `BFLOAT16` is one more model.
  """
  arrays = {}
  for name in families.FAMILIES:
    model = theirs.make(families.smallest(name), seed=0)
    _save(model, directory / name)
    arrays[name] = _run(model)
  model = theirs.make(families.smallest('qwen2-untied'), seed=0)
  kind = torch.bfloat16
  _save(model.to(kind), directory / BFLOAT16)
  # Read again, since `to` rounded the frequencies of the positions as well.
  exact, rounded = (
    _run(theirs.load(directory / BFLOAT16, dtype))
    for dtype in (torch.float32, kind)
  )
  real = exact['segment_ids'] > 0
  for name in ('hidden', 'logits'):
    error = (rounded[name] - exact[name])[real]
    exact[f'{name}_error'] = np.sqrt(np.mean(np.square(error)))
  arrays[BFLOAT16] = exact
  return arrays


def _save(model, directory):
  theirs.save(model, directory)
  (directory / 'generation_config.json').unlink(missing_ok=True)


def _run(model):
  """Rows and results. Segments run alone; at padding results are 0."""
  made = rows(model.config.vocab_size)
  shape = made['tokens'].shape
  hidden = np.zeros((*shape, model.config.hidden_size), np.float32)
  logits = np.zeros((*shape, model.config.vocab_size), np.float32)
  for row, ids in enumerate(made['segment_ids']):
    for number in sorted(set(ids.tolist()) - {0}):
      here = (row, np.flatnonzero(ids == number))
      run = theirs.alone(model, made['tokens'][here], made['positions'][here])
      hidden[here], logits[here] = run.hidden, run.logits
  return made | {'hidden': hidden, 'logits': logits}


# --- SmolLM2 -----------------------------------------------------------------


def load_smollm2(path: pathlib.Path):
  """SmolLM2 as `transformers` itself reads a GGUF file, float32."""
  return transformers.AutoModelForCausalLM.from_pretrained(
    path.parent, gguf_file=path.name, dtype=torch.float32
  ).eval()


@torch.no_grad()
def continue_greedily(model, prompt, ends) -> list[int]:
  """The likeliest token, again and again, with the end that stops it.

  Raises:
    ValueError: a token leads by too little for another program to find it.
  """
  tokens, cache, drawn = torch.tensor([prompt]), None, []
  while len(drawn) < NEW_TOKENS and not (drawn and drawn[-1] in ends):
    made = model(input_ids=tokens, cache=cache, use_cache=True)
    cache = made.cache
    first, second = made.logits[0, -1].topk(2).values.tolist()
    if first - second < LEAD:
      raise ValueError(
        f'token {len(drawn)} leads by {first - second:.1e} only: choose '
        'another prompt'
      )
    drawn.append(int(made.logits[0, -1].argmax()))
    tokens = torch.tensor([drawn[-1:]])
  return drawn


def greedy(model, files: model_files.ModelFiles) -> dict:
  """What the model answers to `PROMPTS`, as JSON.

  The ids of prompts are those of our tokenizer: that of `transformers` does
  not split the digits of this file.
  """
  tokenizer = pretrained_tokenizer.load(files, vocabulary=0)
  template = pretrained_tokenizer.chat_template(files)
  answers = []
  for text in PROMPTS:
    prompt = template.encode_prompt(tokenizer, text)
    drawn = continue_greedily(model, prompt, tokenizer.eos_ids)
    answers.append(
      {
        'prompt': text,
        'prompt_ids': prompt,
        'ids': drawn,
        'answer': tokenizer.decode(drawn),
      }
    )
  return {'model': SMOLLM2, 'sha256': sha256(files.path), 'answers': answers}


def sha256(path: pathlib.Path) -> str:
  """Of a file: other weights give other answers."""
  with path.open('rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()


def main() -> None:
  """Records everything anew."""
  for name, arrays in references(RECORDED).items():
    np.savez_compressed(RECORDED / name / 'reference.npz', **arrays)
  files = model_files.find(SMOLLM2, ())
  said = greedy(load_smollm2(files.path), files)
  # One line an answer: a change of one shows as one.
  answers = ',\n    '.join(
    json.dumps(answer, ensure_ascii=False) for answer in said.pop('answers')
  )
  head = json.dumps(said, indent=2)[:-2]
  text = f'{head},\n  "answers": [\n    {answers}\n  ]\n}}\n'
  (RECORDED / GREEDY).write_text(text, encoding='utf-8')


if __name__ == '__main__':
  main()
