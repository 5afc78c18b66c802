# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Chat templates: what they render, what they may, if they keep history."""

import jinja2
import pytest

from searchrl_jax.chat import ChatTemplate
from searchrl_jax.tokenizer import ByteTokenizer

BYTES = ByteTokenizer()

# A conversation format of our own: `[role] content |`, an open `[assistant] `.
KEEPING = (
  '{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}'
  '{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}'
)
# The same, but only the last answer keeps what it thought.
FORGETTING = (
  '{% for m in messages %}[{{ m.role }}] '
  '{% if m.role == "assistant" and not loop.last %}'
  "{{ m.content.split('</think>')[-1] }}"
  '{% else %}{{ m.content }}{% endif %}{{ eos_token }}'
  '{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}'
)
# A system line that counts the messages: a prefix never survives.
COUNTING = '{{ messages | length }} messages ' + KEEPING
# An answer is trimmed, so what was sampled is not what is rendered.
CHANGING = KEEPING.replace('{{ m.content }}', '{{ m.content | upper }}')


def conversation(thoughts):
  messages = []
  for i, thought in enumerate(thoughts):
    messages += [
      {'role': 'user', 'content': f'question {i}'},
      {'role': 'assistant', 'content': f'<think>{thought}</think> answer {i}'},
    ]
  return messages


def test_an_append_only_template_turn_by_turn_is_the_whole():
  """Token for token: what each step adds, concatenated, is the rendering."""
  template = ChatTemplate(KEEPING)
  assert template.prefix_preserving
  messages = conversation(['this', 'that', ''])
  ids, text = [], ''
  for n in range(len(messages)):
    longer = template.render(messages[: n + 1])
    assert longer.startswith(text)
    ids += BYTES.encode(longer[len(text) :])
    text = longer
  assert ids == BYTES.encode(template.render(messages))
  opened = template.render(messages[:1], add_generation_prompt=True)
  assert template.render(messages[:2]).startswith(
    opened + messages[1]['content']
  )


def test_a_template_that_drops_earlier_thoughts_is_found_out():
  template = ChatTemplate(FORGETTING)
  assert not template.prefix_preserving
  # What it does: after the second question the first thought is gone.
  messages = conversation(['this', 'that'])
  assert '<think>this' in template.render(messages[:2])
  assert '<think>this' not in template.render(messages[:3])


@pytest.mark.parametrize('source', [COUNTING, CHANGING])
def test_other_templates_that_rewrite_history_are_found_out(source):
  assert not ChatTemplate(source).prefix_preserving


def test_a_prompt_ends_where_the_assistant_begins():
  assert ChatTemplate(KEEPING).prompt('why?') == '[user] why?<eos>[assistant] '


def test_tools_reach_the_template():
  template = ChatTemplate('{% for t in tools %}{{ t.name }};{% endfor %}')
  assert template.render([], tools=[{'name': 'search'}]) == 'search;'


def test_content_is_data_and_no_template():
  braces = '{{ 7 * 7 }}{% for %}'
  assert braces in ChatTemplate(KEEPING).prompt(braces)


def test_a_template_may_refuse():
  source = '{{ raise_exception("roles must alternate") }}'
  with pytest.raises(ValueError, match='refuses these messages: roles must'):
    ChatTemplate(source).prompt('x')


def test_what_is_no_template_is_one_line():
  with pytest.raises(ValueError, match='not jinja, line 2: ') as error:
    ChatTemplate('{{ x }}\n{% for %}').prompt('x')
  assert '\n' not in str(error.value)


@pytest.mark.parametrize(
  'attack',
  [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    '{{ raise_exception.__globals__.os }}',
    '{{ messages.append({}) }}',
  ],
)
def test_templates_are_sandboxed(attack):
  with pytest.raises(jinja2.exceptions.SecurityError):
    ChatTemplate(attack).prompt('x')


def test_a_template_comes_from_a_file(tmp_path):
  path = tmp_path / 'chat.jinja'
  path.write_text(KEEPING)
  assert ChatTemplate.from_file(str(path)) == ChatTemplate(KEEPING)
  with pytest.raises(ValueError, match='no chat template at'):
    ChatTemplate.from_file(str(tmp_path / 'missing.jinja'))
