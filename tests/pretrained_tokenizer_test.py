# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""What comes with published models: tokenizers, ends of turns, templates.

A small one is trained here; that of SmolLM2 comes from an installed package.
"""

import json

import hypothesis
import hypothesis.strategies as st
import pytest
import tokenizers
import transformers

from searchrl_jax import model_files, pretrained_tokenizer
from searchrl_jax.model_files import Kind, ModelFiles
from searchrl_jax.rollout.stops import STOPPED, compile_stops

SAID = [
  'the cat sat on the mat and asked who wrote the book',
  'Où est la tour? 東京タワーはどこですか 🗼',
]
CONTROL = ('<|end|>', '<|start|>', '<|stop|>')  # ids 0, 1, 2
CHATML = (
  '{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|stop|>\n'
  '{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}'
)


@pytest.fixture(scope='module')
def trained():
  """The state of a small byte-level tokenizer."""
  made = tokenizers.ByteLevelBPETokenizer()
  made.train_from_iterator(
    SAID * 4, 400, special_tokens=list(CONTROL), show_progress=False
  )
  return made.to_str()


@pytest.fixture
def backend(trained):
  return tokenizers.Tokenizer.from_str(trained)


def fast(backend, **named):
  return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **named)


def saved(folder, tokenizer, **files):
  """A model directory without weights; `a__json` is written as a.json."""
  tokenizer.save_pretrained(folder)
  (folder / 'config.json').write_text('{}')
  for name, value in files.items():
    name = name.replace('__', '.')
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text)
  return ModelFiles('ours/tiny', folder, Kind.DIRECTORY, 'test')


@pytest.fixture(scope='module')
def smollm_files():
  return model_files.find(
    'HuggingFaceTB/SmolLM2-135M-Instruct', model_files.TOKENIZER
  )


@pytest.fixture(scope='module')
def smollm(smollm_files):
  return pretrained_tokenizer.load(smollm_files, vocabulary=49152)


# --- which files -------------------------------------------------------------


def spelled(tokenizer, ids):
  return b''.join(tokenizer.token_bytes[i] for i in ids)


def test_a_directory_gives_ids_as_published_but_none_of_its_own(
  tmp_path, backend
):
  backend.post_processor = tokenizers.processors.TemplateProcessing(
    single='<|start|> $A', special_tokens=[('<|start|>', 1)]
  )
  theirs = fast(backend, eos_token='<|stop|>')
  files = saved(tmp_path, theirs)
  tokenizer = pretrained_tokenizer.load(files, vocabulary=500)
  assert len(tokenizer.token_bytes) == 500
  assert tokenizer.special_texts == CONTROL
  assert tokenizer.eos_ids == {2}
  # Where a text begins with <|start|>, its chat template writes so.
  assert theirs.encode(SAID[0]) == [1, *tokenizer.encode(SAID[0])]


def test_what_was_loaded_can_be_saved(tmp_path, backend):
  (tmp_path / 'first').mkdir()
  files = saved(
    tmp_path / 'first',
    fast(backend, eos_token='<|stop|>'),
    chat_template__jinja=CHATML,
  )
  tokenizer = pretrained_tokenizer.load(files, vocabulary=0)
  tokenizer.save(tmp_path / 'second')
  copy = ModelFiles('copy', tmp_path / 'second', Kind.DIRECTORY, 'test')
  again = pretrained_tokenizer.load(copy, vocabulary=0)
  assert again.token_bytes == tokenizer.token_bytes
  assert again.eos_ids == tokenizer.eos_ids
  assert pretrained_tokenizer.chat_template(
    copy
  ) == pretrained_tokenizer.chat_template(files)


def test_older_directories_list_words_and_merges(tmp_path, backend):
  backend.model.save(str(tmp_path))
  (tmp_path / 'tokenizer_config.json').write_text(
    json.dumps({'tokenizer_class': 'Qwen2Tokenizer', 'eos_token': '<|stop|>'})
  )
  (tmp_path / 'config.json').write_text(json.dumps({'model_type': 'qwen2'}))
  files = ModelFiles('ours/old', tmp_path, Kind.DIRECTORY, 'test')
  tokenizer = pretrained_tokenizer.load(files, vocabulary=0)
  assert spelled(tokenizer, tokenizer.encode(SAID[1])) == SAID[1].encode()
  assert tokenizer.eos_ids == {2}
  assert '<|stop|>' in tokenizer.special_texts


def test_texts_are_neither_cut_nor_filled_up(tmp_path, backend):
  backend.enable_truncation(4)
  backend.enable_padding(length=9)
  files = saved(tmp_path, fast(backend))
  tokenizer = pretrained_tokenizer.load(files, vocabulary=0)
  assert tokenizer.decode(tokenizer.encode('a')) == 'a'
  assert tokenizer.decode(tokenizer.encode(SAID[0])) == SAID[0]


@pytest.mark.parametrize(
  'named, files, ends',
  [
    ({}, {}, set()),
    ({'eos_token': '<|end|>'}, {}, {0}),
    ({}, {'config__json': {'eos_token_id': 1}}, {1}),
    ({}, {'generation_config__json': {'eos_token_id': [0, 2]}}, {0, 2}),
    # A base model ends texts; its chat template ends turns.
    ({'eos_token': '<|end|>'}, {'chat_template__jinja': CHATML}, {0, 2}),
    # What follows an answer is text here, and text ends nothing.
    ({}, {'chat_template__jinja': CHATML.replace('<|stop|>', '')}, set()),
    (
      {'eos_token': '<|end|>'},
      {
        'config__json': {'eos_token_id': 0},
        'generation_config__json': {'eos_token_id': [1]},
        'chat_template__jinja': CHATML,
      },
      {0, 1, 2},
    ),
  ],
)
def test_a_turn_ends_at_all_that_is_declared_an_end(
  tmp_path, backend, named, files, ends
):
  files = saved(tmp_path, fast(backend, **named), **files)
  assert pretrained_tokenizer.load(files, vocabulary=0).eos_ids == ends


def test_what_ends_a_turn_is_a_control_token_whatever_the_file_says(
  tmp_path, backend
):
  backend.add_tokens(['<turn>'])
  end = backend.token_to_id('<turn>')
  files = saved(
    tmp_path, fast(backend), generation_config__json={'eos_token_id': end}
  )
  tokenizer = pretrained_tokenizer.load(files, vocabulary=0)
  assert tokenizer.token_bytes[end] == b''
  assert end not in tokenizer.encode('<turn>')
  assert tokenizer.encode('<turn>', markup=True) == [end]


def test_a_directory_without_a_tokenizer_is_one_line(tmp_path):
  (tmp_path / 'config.json').write_text('{}')
  files = ModelFiles('ours/bare', tmp_path, Kind.DIRECTORY, 'test')
  with pytest.raises(ValueError, match='can be read from') as error:
    pretrained_tokenizer.load(files, vocabulary=0)
  assert '\n' not in str(error.value)


@pytest.mark.parametrize('broken', ['tokenizer.json', 'generation_config.json'])
def test_a_broken_file_is_named(tmp_path, backend, broken):
  files = saved(tmp_path, fast(backend))
  (tmp_path / broken).write_text('{"cut off')
  with pytest.raises(ValueError, match=str(tmp_path)) as error:
    pretrained_tokenizer.load(files, vocabulary=0)
  assert '\n' not in str(error.value)


# --- templates that come with models -----------------------------------------


def test_a_template_is_found_where_transformers_finds_it(tmp_path, backend):
  tokenizer = fast(backend, bos_token='<|start|>', eos_token='<|end|>')
  files = saved(tmp_path, tokenizer)
  with pytest.raises(ValueError, match='ours/tiny has no chat template'):
    pretrained_tokenizer.chat_template(files)

  config = json.loads((tmp_path / 'tokenizer_config.json').read_text())
  path = tmp_path / 'tokenizer_config.json'
  source = '{{ bos_token }}{{ messages[0].content }}{{ eos_token }}'
  path.write_text(json.dumps(config | {'chat_template': source}))
  template = pretrained_tokenizer.chat_template(files)
  assert template.prompt('hi') == '<|start|>hi<|end|>'

  several = [
    {'name': 'tool_use', 'template': 'tools'},
    {'name': 'default', 'template': source + '!'},
  ]
  path.write_text(json.dumps(config | {'chat_template': several}))
  template = pretrained_tokenizer.chat_template(files)
  assert template.prompt('hi') == '<|start|>hi<|end|>!'

  (tmp_path / 'chat_template.jinja').write_text(source + '?')
  template = pretrained_tokenizer.chat_template(files)
  assert template.prompt('hi') == '<|start|>hi<|end|>?'
  theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
  assert template.source == theirs.chat_template


# --- SmolLM2 -----------------------------------------------------------------

# Bytes that no token of SmolLM2 has.
_LOST = {4, 6, 19, 20, 22, 29, 241, 242}


@hypothesis.settings(deadline=None)
@hypothesis.given(
  text=st.lists(
    st.sampled_from(('<|im_end|>', '<|', ' ', '\n', '\x04', '12', 'é', '東'))
    | st.characters(),
    max_size=12,
  ).map(''.join)
)
def test_smollm2_spells_what_it_was_given(smollm, text):
  ids = smollm.encode(text)
  assert not set(ids) & set(range(17))
  kept = bytes(byte for byte in text.encode() if byte not in _LOST)
  assert spelled(smollm, ids) == kept


def test_smollm2_splits_numbers_and_ends_turns(smollm):
  pieces = [smollm.token_bytes[i] for i in smollm.encode('in 1843 Ada')]
  assert pieces == [b'in', b' ', b'1', b'8', b'4', b'3', b' Ada']
  assert smollm.eos_ids == {2}
  assert smollm.special_texts[:3] == (
    '<|endoftext|>',
    '<|im_start|>',
    '<|im_end|>',
  )
  assert len(smollm.token_bytes) == 49152


def test_smollm2_stops_at_its_end_of_turn_and_at_text(smollm):
  stops = ('</search>',)
  table = compile_stops(stops, smollm.token_bytes, smollm.eos_ids)
  assert table[1, 2] == STOPPED
  state, ids = 1, smollm.encode('<search>Ada <|im_end|></search> more')
  states = [state := table[state, i] for i in ids]
  first = states.index(STOPPED)
  said = smollm.decode(ids[: first + 1])
  assert said.startswith('<search>Ada <|im_end|></search>')
  assert '</search>' not in smollm.decode(ids[:first])


def test_smollm2_is_asked_in_its_own_words(smollm, smollm_files):
  template = pretrained_tokenizer.chat_template(smollm_files)
  assert template.prefix_preserving
  ids = template.encode_prompt(smollm, 'What does <|im_end|> mean?')
  # system, its end, user, its end, assistant; the question ends nothing.
  assert [i for i in ids if i < 17] == [1, 2, 1, 2, 1]
  assert smollm.decode(ids).endswith('What does <|im_end|> mean?\nassistant\n')
