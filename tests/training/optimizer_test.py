# Copyright 2026 The searchrl_jax Authors
# SPDX-License-Identifier: Apache-2.0
"""Schedule by hand, one AdamW step by hand, one structure for all."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from searchrl_jax.training.optimizer import (
  OptimizerConfig,
  decayed,
  make_optimizer,
  make_schedule,
)


def rates(steps, at, **settings):
  schedule = make_schedule(
    OptimizerConfig(learning_rate=8.0, **settings), steps
  )
  return [float(schedule(jnp.int32(t))) for t in at]


def test_warm_up_starts_above_zero_and_constant_stays():
  # Warm-up 4: 1/4, 2/4, 3/4, 4/4 of 8, then 8 for ever.
  got = rates(100, [0, 1, 2, 3, 4, 99, 500], warmup_steps=4)
  np.testing.assert_allclose(got, [2, 4, 6, 8, 8, 8, 8], rtol=1e-6)


def test_linear_and_cosine_end_at_their_fraction():
  # Warm-up 2, decay until 12, floor .25 * 8 = 2. Half way, at 7, both have
  # .25 + .75 * .5 = .625 of the rate; at 4.5 (a quarter) they differ.
  settings = {'warmup_steps': 2, 'final_fraction': 0.25}
  linear = rates(12, [2, 7, 12, 30], schedule='linear', **settings)
  cosine = rates(12, [2, 7, 12, 30], schedule='cosine', **settings)
  np.testing.assert_allclose(linear, [8, 5, 2, 2], rtol=1e-6)
  np.testing.assert_allclose(cosine, [8, 5, 2, 2], rtol=1e-6)
  # At 4 the share gone is .2: (1 + cos(.2 pi)) / 2 = .904508.
  [linear], [cosine] = (
    rates(12, [4], schedule=name, **settings) for name in ('linear', 'cosine')
  )
  assert linear == pytest.approx(8 * (0.25 + 0.75 * 0.8))
  assert cosine == pytest.approx(8 * (0.25 + 0.75 * 0.904508), rel=1e-5)


def test_decay_steps_override_the_length_of_the_phase():
  ended = rates(
    1000, [10], schedule='linear', decay_steps=10, final_fraction=0.0
  )
  assert ended == [0.0]


def test_schedule_that_ends_in_its_warm_up_is_refused():
  config = OptimizerConfig(schedule='cosine', warmup_steps=20)
  with pytest.raises(ValueError, match='decay ends at update 5 but'):
    make_schedule(config, 5)


@pytest.mark.parametrize(
  'settings, message',
  [
    ({'schedule': 'cosin'}, 'constant, linear, cosine'),
    ({'learning_rate': math.nan}, 'optimizer.learning_rate is nan'),
    ({'clip_norm': -1.0}, 'optimizer.clip_norm'),
    ({'beta2': 1.0}, r'lie in \[0, 1\)'),
  ],
)
def test_wrong_settings_are_one_line(settings, message):
  with pytest.raises(ValueError, match=message) as error:
    OptimizerConfig(**settings)
  assert '\n' not in str(error.value)


def test_first_step_by_hand():
  """Gradient (3, 4) has norm 5 and is clipped to (.6, .8). Adam's first step
  is the sign of the gradient whatever the betas: both moments are corrected to
  g and g^2, so g / sqrt(g^2) = 1. Weight decay .1 adds .1 * w on the matrix:
  w - .5 * (1 + .1 w)."""
  config = OptimizerConfig(
    learning_rate=0.5, weight_decay=0.1, clip_norm=1.0, eps=0.0
  )
  optimizer = make_optimizer(config, 10)
  params = {'w': jnp.array([[2.0, -4.0]])}
  state = optimizer.init(params)
  updates, state = optimizer.update(
    {'w': jnp.array([[3.0, 4.0]])}, state, params
  )
  new = optax.apply_updates(params, updates)
  np.testing.assert_allclose(
    new['w'], [[2 - 0.5 * 1.2, -4 - 0.5 * 0.6]], rtol=1e-5
  )
  # The first moment is (1 - beta1) of the *clipped* gradient.
  moment = optax.tree.get(state, 'mu')['w']
  np.testing.assert_allclose(moment, [[0.06, 0.08]], rtol=1e-5)


def test_norms_and_biases_do_not_decay():
  params = {
    'embed': jnp.ones((7, 4)),
    'norm': jnp.ones(4),
    'layers': {'q': jnp.ones((3, 4, 4)), 'norm': jnp.ones((3, 4))},
  }
  # layers/norm has two axes, but one of them is the stack.
  assert decayed(params) == {
    'embed': True,
    'norm': False,
    'layers': {'q': True, 'norm': False},
  }
  optimizer = make_optimizer(
    OptimizerConfig(learning_rate=1.0, weight_decay=0.5), 10
  )
  zeros = jax.tree.map(jnp.zeros_like, params)
  updates, _ = optimizer.update(zeros, optimizer.init(params), params)
  np.testing.assert_allclose(updates['layers']['q'], -0.5)
  np.testing.assert_array_equal(updates['layers']['norm'], 0)
  np.testing.assert_array_equal(updates['norm'], 0)


def test_every_config_has_the_same_state():
  params = {'w': jnp.ones((2, 3)), 'b': jnp.ones(3)}
  base = OptimizerConfig()
  configs = [
    base,
    dataclasses.replace(base, schedule='cosine', warmup_steps=3),
    dataclasses.replace(base, weight_decay=0.1, clip_norm=0.0, beta1=0.0),
  ]
  shapes = [
    jax.eval_shape(make_optimizer(config, 10).init, params)
    for config in configs
  ]
  assert shapes[0] == shapes[1] == shapes[2]


def test_moments_of_bfloat16_parameters_are_float32():
  params = {'w': jnp.ones((2, 3), jnp.bfloat16)}
  optimizer = make_optimizer(OptimizerConfig(weight_decay=0.1), 10)
  state = optimizer.init(params)
  updates, after = optimizer.update(params, state, params)
  for name in ('mu', 'nu'):
    assert optax.tree.get(after, name)['w'].dtype == jnp.float32
  assert jax.tree.map(lambda x: x.dtype, state) == jax.tree.map(
    lambda x: x.dtype, after
  )
  assert updates['w'].dtype == jnp.float32


def test_clip_norm_zero_does_not_clip():
  config = OptimizerConfig(clip_norm=0.0, beta1=0.0)
  optimizer = make_optimizer(config, 10)
  params = {'w': jnp.zeros((1, 1))}
  _, state = optimizer.update(
    {'w': jnp.full((1, 1), 1e4)}, optimizer.init(params), params
  )
  assert float(optax.tree.get(state, 'mu')['w'][0, 0]) == pytest.approx(1e4)
