# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Published models by short names, with the values of their config.json.

They serve where the files are not at hand: to plan, to measure, to begin from
random weights. Weights on disk bring a config.json of their own, which counts.
"""

from __future__ import annotations

import dataclasses

from searchrl_jax.models.config import DecoderConfig, Llama3Scaling


@dataclasses.dataclass(frozen=True)
class Preset:
  """A published model.

  Attributes:
    hub_id: its name on the hub, the variant that follows instructions.
    config: its sizes and switches.
  """

  hub_id: str
  config: DecoderConfig


def _config(sizes, **switches):
  """A config of (width, layers, heads, kv_heads, head_width, mlp_width)."""
  width, layers, heads, kv_heads, head_width, mlp_width = sizes
  return DecoderConfig(
    width=width,
    layers=layers,
    heads=heads,
    kv_heads=kv_heads,
    head_width=head_width,
    mlp_width=mlp_width,
    **switches,
  )


def _qwen2(size, *sizes, vocabulary=151_936, tied=True):
  """Qwen2.5 (arXiv:2412.15115)."""
  config = _config(
    sizes,
    vocabulary=vocabulary,
    rope_base=1e6,
    context=32_768,
    attention_bias=True,
    tied=tied,
  )
  return Preset(f'Qwen/Qwen2.5-{size}-Instruct', config)


def _qwen3(size, *sizes, tied=True):
  """Qwen3 (arXiv:2505.09388)."""
  config = _config(
    sizes,
    vocabulary=151_936,
    rope_base=1e6,
    context=40_960,
    qk_norm=True,
    tied=tied,
  )
  return Preset(f'Qwen/Qwen3-{size}', config)


def _llama3(version, *sizes, stretch, tied=True):
  """Llama 3 (arXiv:2407.21783), with the context of 3.1 and later."""
  config = _config(
    sizes,
    vocabulary=128_256,
    rope_base=5e5,
    rope_scaling=Llama3Scaling(
      factor=stretch,
      low_freq_factor=1.0,
      high_freq_factor=4.0,
      original_context=8192,
    ),
    context=131_072,
    norm_eps=1e-5,
    tied=tied,
  )
  return Preset(f'meta-llama/Llama-{version}-Instruct', config)


def _smollm2(size, *sizes, rope_base=1e5, embedding_std=0.02):
  """SmolLM2 (arXiv:2502.02737), of the Llama family."""
  config = _config(
    sizes,
    vocabulary=49_152,
    rope_base=rope_base,
    context=8192,
    norm_eps=1e-5,
    embedding_std=embedding_std,
  )
  return Preset(f'HuggingFaceTB/SmolLM2-{size}-Instruct', config)


# Columns: width, layers, heads, kv_heads, head_width, mlp_width.
PRESETS: dict[str, Preset] = {
  'qwen2.5-0.5b': _qwen2('0.5B', 896, 24, 14, 2, 64, 4864),
  'qwen2.5-1.5b': _qwen2('1.5B', 1536, 28, 12, 2, 128, 8960),
  'qwen2.5-3b': _qwen2('3B', 2048, 36, 16, 2, 128, 11_008),
  'qwen2.5-7b': _qwen2(
    '7B', 3584, 28, 28, 4, 128, 18_944, vocabulary=152_064, tied=False
  ),
  'qwen3-0.6b': _qwen3('0.6B', 1024, 28, 16, 8, 128, 3072),
  'qwen3-1.7b': _qwen3('1.7B', 2048, 28, 16, 8, 128, 6144),
  'qwen3-4b': _qwen3('4B', 2560, 36, 32, 8, 128, 9728),
  'qwen3-8b': _qwen3('8B', 4096, 36, 32, 8, 128, 12_288, tied=False),
  'llama-3.2-1b': _llama3('3.2-1B', 2048, 16, 32, 8, 64, 8192, stretch=32.0),
  'llama-3.2-3b': _llama3('3.2-3B', 3072, 28, 24, 8, 128, 8192, stretch=32.0),
  'llama-3.1-8b': _llama3(
    '3.1-8B', 4096, 32, 32, 8, 128, 14_336, stretch=8.0, tied=False
  ),
  'smollm2-135m': _smollm2(
    '135M', 576, 30, 9, 3, 64, 1536, embedding_std=1 / 24
  ),
  'smollm2-360m': _smollm2('360M', 960, 32, 15, 5, 64, 2560),
  'smollm2-1.7b': _smollm2('1.7B', 2048, 24, 32, 32, 64, 8192, rope_base=1.3e5),
}
