# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Every knob of a run, once, with its meaning and unit.

The values are those of the tiny policy, which learns to search within minutes
on two CPU cores. Other configs start from here and change what differs.
"""

import ml_collections


def get_config() -> ml_collections.ConfigDict:
  """All sections; each becomes keyword arguments of the part it names."""
  config = ml_collections.ConfigDict()
  # A workdir whose warm start is shared: its last warm-start checkpoint gives
  # the first weights, and this run has no warm start of its own.
  config.init_from = ''

  # --- questions: the generated world, or files ---
  config.world = {
    'persons': 80,
    'cities': 40,
    'companies': 40,
    'films': 40,
    'countries': 20,
    'distractors': 0.5,  # share of passages with a sentence about another
    'rendering': 'words',  # 'words' or 'natural'
  }
  config.data = {
    # Search-R1 corpus (.jsonl) and FlashRAG or Search-R1 questions (.jsonl,
    # .parquet); with both empty, the generated world is used.
    'corpus': '',
    'questions': '',
    'evaluation_questions': '',  # the training questions where empty
    'hops': (1, 2, 3),  # of generated questions, evenly
    'questions_per_world': 8,  # then a fresh world
  }
  config.retrieval = {
    'title_weight': 4,  # how often a title's words count
    'stem': False,
    'k1': 1.5,
    'b': 0.75,
  }
  config.environment = {
    'wording': 'words',  # 'words' or 'natural'
    'template': '',  # file of a prompt template of the user's own
    # Search-R1: turns in which searches are carried out, before a last one;
    # FactAgent: all turns.
    'max_turns': 4,
    'max_facts': 8,  # FactAgent: facts that the store holds
    'topk': 1,  # passages a search brings
    'max_observation': 32,  # tokens of the passages in a reply
    'stop_at_malformed': False,
    'stop_at_failed_tool': False,
  }

  # --- the policy ---
  # 'words' (of the world), 'bytes', 'model' (that of model.name), or the name
  # of a published model.
  config.tokenizer = 'words'
  # 'model', or a jinja file: the prompt becomes a user message.
  config.chat_template = ''
  config.model = {
    # '': random weights of `sizes`; the name of a preset, such as
    # 'qwen3-0.6b': random weights of its sizes; a hub id, a directory or a
    # .gguf file: the weights that are there.
    'name': '',
    'param_dtype': 'float32',  # 'bfloat16' only where adapters learn
    'compute_dtype': 'float32',  # or 'bfloat16'
    # What the backward pass makes again: 'layer', 'products' or 'nothing'.
    # Recomputed layers of tiny sizes stay in cache: faster on CPU, too.
    'remat': 'layer',
    'sizes': {  # read where the name is empty
      'width': 64,
      'layers': 3,
      'heads': 4,
      'kv_heads': 2,
      'head_width': 16,
      'mlp_width': 128,
      'rope_base': 1000.0,
      'norm_eps': 1e-6,
      'qk_norm': True,
      'attention_bias': False,
      'tied': True,
      'embedding_std': 0.125,
    },
  }
  config.lora = {
    'rank': 0,  # 0: all weights learn; above: only adapters of this rank
    'alpha': 32.0,
    'targets': ('q', 'k', 'v', 'o', 'gate', 'up', 'down'),
  }
  config.rollout = {
    'questions': 16,  # B, per step
    'group': 8,  # G, rollouts of each question
    'temperature': 1.0,
    'top_k': 0,
    'top_p': 1.0,
    'max_new_tokens': 10,  # of one turn
    'max_tokens': 50,  # sampled in one trajectory, all turns together
    'context': 176,  # of one token row: prompt, turns and replies
    # R, trajectories in flight, and how many of them decode at a time at most
    # (W); the others wait for their tools. 0: all of a step; all in flight.
    'rows': 0,
    'decode_rows': 0,
    'generate_rows': 0,  # kept for questions that a policy asks itself
    # One call reads prompts or replies of so many rows, of so many tokens in
    # all, padding included. Small models read many rows as fast as one.
    'append_rows': 64,
    'append_tokens': 1024,
  }
  config.tools = {
    'concurrency': 4,  # calls of the search engine at a time
    'deadline': 60.0,  # seconds; later the search has failed, the turn goes on
  }

  # --- warm start ---
  config.warm_start = {
    # 'world': a scripted expert in generated worlds, whatever is asked later;
    # 'titles': one that searches the titles that training questions name.
    'lessons': 'world',
    'drill_steps': 150,
    'sft_steps': 150,
    'questions': 64,  # demonstrations per step
    'superfluous': 0.4,  # chance of a superfluous search, per turn
    'early': 0.08,  # chance of answering too early, per hop
    'drill_optimizer': optimizer(
      learning_rate=8e-3, beta2=0.95, warmup_steps=20, schedule='cosine'
    ),
    'sft_optimizer': optimizer(
      learning_rate=8e-3, beta2=0.95, warmup_steps=20, schedule='cosine'
    ),
  }

  # --- learning from experience ---
  config.experience = {
    'skip_zero_advantage': True,  # leave them out of batch and denominator
    'redraws': 0,  # DAPO: rounds of redrawing zero-spread groups
    'mask_overlong': False,  # DAPO: trajectories cut by a limit do not train
    'overlong_margin': 0,  # DAPO: tokens before max_tokens with a penalty
    'learner_old_logps': False,  # else the sampler's
    'max_invalid_fraction': 0.5,  # outcomes without a verdict; above: stop
  }
  config.training = {
    'steps': 100,
    'minibatches': 2,  # updates per batch and epoch
    'epochs': 1,
    'microbatch': 8,  # packed rows in one forward and backward pass
    'packed_length': 176,  # L
    'logps_chunk': 2048,  # tokens whose logits exist at a time
    'max_skipped': 5,  # consecutive non-finite steps before the run stops
  }
  config.optimizer = optimizer(
    learning_rate=5e-4, beta2=0.99, warmup_steps=10, schedule='constant'
  )
  config.loss = {
    'surrogate': 'clipped',
    'clip_low': 0.2,
    'clip_high': 0.28,
    'ratio': 'token',  # 'token' or 'sequence' (GSPO)
    'aggregation': 'token_mean',  # 'segment_mean', 'constant_length'
    'constant_length': 50.0,  # tokens; read by 'constant_length' only
    'kl': 'none',  # 'none', 'k1', 'k2', 'k3'
    'kl_weight': 0.001,
    'entropy_weight': 0.0,
    'off_policy': 'none',  # 'none', 'truncated', 'band'
    'truncate_at': 2.0,
    'band_low': 0.5,
    'band_high': 2.0,
    'llds': False,
    'llds_weight': 0.2,
  }

  # --- rewards and credit ---
  config.reward = {
    'outcome': 'em',  # 'em' or 'f1'
    # Success is exact match; above 0, a token F1 of at least this.
    'success_f1': 0.0,
    # FactAgent: an answer from an empty store earns nothing.
    'empty_store_fails': True,
    'format_weight': 0.0,  # added where a trajectory is well-formed
  }
  config.grpo = {
    'baseline': 'group',  # 'group', or 'leave_one_out' (RLOO)
    'normalize_std': True,  # of 'group'; False is Dr. GRPO
  }
  config.cwgrpo = {
    'alpha': 2.0,
    'release_compatible': False,
    'contribution': 'both',  # 'both', 'useful', 'correct'
    'concentrate_failures': False,
  }

  config.factagent = {
    'omega': 0.5,  # weight of the process reward; 0: the outcome alone
    'normalize': True,  # the process reward within a question's group
    'to_search': 0.2,  # share of an Assert's reward that its Search gets
    'prior': 0.5,  # epsilon of the Beta prior of a cluster's success
    'exact': False,  # only facts equal in normal form are one cluster
    # Cosine similarities from which two facts, and their relations, are one.
    'threshold': 0.85,
    'relation_threshold': 0.6,
    'malformed_penalty': 0.1,  # taken from a malformed turn
    'repeated_penalty': 0.1,  # from a search asked before
    'empty_penalty': 0.1,  # from an answer from an empty store
    'embedding_width': 256,  # of hashed character n-grams
  }

  # --- evaluation, checkpoints, logs ---
  config.evaluation = {
    'every': 10,  # steps of experience; sampled at the training temperature
    'questions': 192,  # of the validation split, quick and stratified
    'final_questions': 1024,  # of the test split, sampled and greedy
  }
  config.checkpoint = {
    'every': 20,  # steps
    # The newest; kept beside them is the best by quick evaluation of those
    # that were evaluated in the step they were saved.
    'keep': 2,
  }
  config.traces = {
    'every': 5,  # steps between recorded ones
    'groups': 4,  # groups recorded of such a step
  }
  # Devices of the run; 0 takes all. On CPU, devices are threads.
  config.devices = 1
  # How they share the work; what is left over is data parallel.
  config.mesh = {
    'fsdp': 1,  # devices over which every matrix and its moments are split
    'tensor': 1,  # devices over which heads and inner widths are split
  }
  # What one device may hold; 0: what it reports, on CPU what is free.
  config.memory = {'limit_gib': 0.0}
  return config.lock()


def optimizer(**changes) -> dict:
  """AdamW with warm-up; what differs is given."""
  settings = {
    'learning_rate': 1e-6,
    'schedule': 'constant',  # 'constant', 'linear', 'cosine' after warm-up
    'warmup_steps': 0,  # updates
    'final_fraction': 0.1,  # of the rate, at the end of a decay
    'beta1': 0.9,
    'beta2': 0.999,
    'eps': 1e-8,
    'weight_decay': 0.0,
    'clip_norm': 1.0,  # of the gradient, global
  }
  unknown = set(changes) - set(settings)
  if unknown:
    raise ValueError(f'no such optimizer setting: {sorted(unknown)}')
  return settings | changes
