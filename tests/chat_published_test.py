# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Conversations are rendered as `transformers` renders them.

By templates of our own that ask for all that those of Qwen2.5, Qwen3 and
Llama 3 ask for, and by SmolLM2's, which comes from an installed package.
"""

import datetime

import hypothesis
import hypothesis.strategies as st
import pytest
import tokenizers
import transformers

from searchrl_jax import model_files, pretrained_tokenizer
from searchrl_jax.chat import ChatTemplate

# A default system message; tools as JSON lines; answers of tools gathered into
# one user message; calls written as JSON with their arguments.
LIKE_QWEN25 = """\
{%- set own = messages[0].content if messages[0].role == 'system' -%}
<|im_start|>system
{{ own if own else 'Answer well.' }}
{%- if tools %}


# Functions
{%- for tool in tools %}
{{ '\\n' + (tool | tojson) }}
{%- endfor %}
{%- endif %}
<|im_end|>
{% for message in messages %}
    {%- if message.role == 'system' and loop.first %}
        {%- continue %}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' ~ message.content ~ '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{ '\\n' + message.content }}{% endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if call.function is defined %}
                {%- set call = call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' ~ call.name }}
            {{- '", "arguments": ' ~ (call.arguments | tojson) }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

# Thoughts are kept after the last question only; an empty thought is written
# where thinking is switched off.
LIKE_QWEN3 = """\
{%- set ns = namespace(last=messages | length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- set index = messages | length - 1 - loop.index0 %}
    {%- if ns.searching and message.role == 'user' and message.content is string
          and not message.content.startswith('<tool_response>') %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' %}
        {%- set thought = '' %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n') %}
            {%- set thought = thought.split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.last %}
            {{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {%- generation %}{{- content }}{% endgeneration %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

# Begins with bos, tells the date, indents tools, trims, refuses a second call.
LIKE_LLAMA3 = """\
{{- bos_token }}
{%- if not date is defined %}
    {%- if strftime_now is defined %}
        {%- set date = strftime_now('%d %b %Y') %}
    {%- else %}
        {%- set date = '26 Jul 2024' %}
    {%- endif %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday: ' + date + '\\n' }}
{%- if tools is not none %}
    {{- 'Functions:\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) }}
        {{- '\\n\\n' }}
    {%- endfor %}
{%- endif %}
{{- '<|eot_id|>' }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {%- if 'tool_calls' in message %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception('one call at a time') }}
        {%- endif %}
        {{- message.tool_calls[0].function | tojson }}
    {%- elif message.content is mapping or message.content is not string %}
        {{- message.content | tojson }}
    {%- else %}
        {{- message['content'] | trim }}
    {%- endif %}
    {{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

TOOLS = [
  {
    'type': 'function',
    'function': {
      'name': 'search',
      'description': 'Finds passages: "<a>" & naïve 東京.',
      'parameters': {
        'type': 'object',
        'properties': {'query': {'type': 'string'}},
        'required': ['query'],
      },
    },
  }
]
CALL = {
  'function': {'name': 'search', 'arguments': {'query': "Ada's <b> & 東"}}
}
CALLING = [
  {'role': 'system', 'content': 'Search first.'},
  {'role': 'user', 'content': 'Who?'},
  {'role': 'assistant', 'content': '', 'tool_calls': [CALL]},
  {'role': 'tool', 'content': 'Ada.'},
  {'role': 'tool', 'content': 'Bob.'},
]


@pytest.fixture(scope='module')
def smollm2():
  name = 'HuggingFaceTB/SmolLM2-135M-Instruct'
  files = model_files.find(name, model_files.TOKENIZER)
  return pretrained_tokenizer.chat_template(files).source


@pytest.fixture(scope='module')
def templates(smollm2):
  return {
    'smollm2': smollm2,
    'qwen2.5': LIKE_QWEN25,
    'qwen3': LIKE_QWEN3,
    'llama3': LIKE_LLAMA3,
  }


TOKENS = {'bos_token': '<|begin|>', 'eos_token': '<|end|>'}
KINDS = ('smollm2', 'qwen2.5', 'qwen3', 'llama3')


def theirs(source, messages, **options):
  tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()), **TOKENS
  )
  return tokenizer.apply_chat_template(
    messages, chat_template=source, tokenize=False, **options
  )


def ours(source, messages, *, variables=None, **options):
  template = ChatTemplate(
    source, TOKENS | (variables or {}), today=datetime.date.today()
  )
  return template.render(messages, **options)


roles = st.lists(st.sampled_from(('user', 'assistant')), min_size=1, max_size=5)
contents = st.text(max_size=20) | st.sampled_from(
  ('<think>\nwhy\n</think>\n\nso', ' <b> & "c"\n', '{{ x }}', '<|im_end|>')
)


@pytest.mark.parametrize('kind', KINDS)
@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(roles=roles, data=st.data(), opened=st.booleans())
def test_any_conversation(templates, kind, roles, data, opened):
  messages = [{'role': role, 'content': data.draw(contents)} for role in roles]
  assert ours(
    templates[kind], messages, add_generation_prompt=opened
  ) == theirs(templates[kind], messages, add_generation_prompt=opened)


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('tools', [None, TOOLS])
def test_tools_and_calls(templates, kind, tools):
  source = templates[kind]
  rendered = ours(source, CALLING, tools=tools, add_generation_prompt=True)
  assert rendered == theirs(
    source, CALLING, tools=tools, add_generation_prompt=True
  )
  if tools and kind in ('qwen2.5', 'llama3'):
    # As it is, neither HTML entities nor escapes.
    assert 'Finds passages: \\"<a>\\" & naïve 東京.' in rendered


def test_a_switch_of_the_template(templates):
  messages = [{'role': 'user', 'content': 'Who?'}]
  for thinking in (True, False):
    rendered = ours(
      templates['qwen3'],
      messages,
      variables={'enable_thinking': thinking},
      add_generation_prompt=True,
    )
    assert rendered == theirs(
      templates['qwen3'],
      messages,
      enable_thinking=thinking,
      add_generation_prompt=True,
    )
    assert ('<think>' in rendered) != thinking


def test_two_calls_at_once_are_refused(templates):
  messages = [{'role': 'assistant', 'content': '', 'tool_calls': [CALL, CALL]}]
  with pytest.raises(ValueError, match='one call at a time'):
    ours(templates['llama3'], messages)


def test_which_of_them_keep_history(templates):
  """Qwen3's kind drops thoughts once the next question is asked."""
  kept = {
    kind: ChatTemplate(source, TOKENS).prefix_preserving
    for kind, source in templates.items()
  }
  assert kept == {
    'smollm2': True,
    'qwen2.5': True,
    'qwen3': False,
    'llama3': True,
  }


def test_a_repeated_run_has_the_same_prompt_on_another_day(templates):
  prompt = ChatTemplate(templates['llama3'], TOKENS).prompt('Who?')
  assert prompt.startswith('<|begin|><|start_header_id|>system')
  assert 'Today: 26 Jul 2024\n' in prompt
