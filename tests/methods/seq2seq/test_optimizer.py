from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from recombine.methods.seq2seq import OptimizerConfig, apply_gradients, clip_by_norm, init_optimizer


class Parts(NamedTuple):
    encoder: dict
    decoder: dict


def parts(encoder, decoder):
    return Parts({"w": jnp.array(encoder)}, {"w": jnp.array(decoder)})


def adam_plainly(gradients, rates, restart):
    """Textbook Adam on a list of scalars' gradients, restarted before one of the steps."""
    x, m, v, t = np.zeros(2), np.zeros(2), np.zeros(2), 0
    for step, (g, rate) in enumerate(zip(gradients, rates, strict=True)):
        if step == restart:
            m, v, t = np.zeros(2), np.zeros(2), 0
        t += 1
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        x = x - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return x


def test_adam_restarts_at_a_tenth_of_the_rate():
    config = OptimizerConfig(learning_rate=0.1, drop_at=3)
    gradients = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    model = parts([0.0], [0.0])
    state = init_optimizer(model)
    update = jax.jit(lambda m, s, g, i: apply_gradients(config, m, s, g, i))
    for i, g in enumerate(gradients):
        model, state, _ = update(model, state, parts(g[:1], g[1:]), jnp.array(i))
    wanted = adam_plainly(gradients, [0.1] * 3 + [0.01] * 3, restart=3)
    np.testing.assert_allclose([model.encoder["w"][0], model.decoder["w"][0]], wanted, rtol=1e-4)
    assert state.count == 3


def test_the_two_parts_are_clipped_apart():
    config = OptimizerConfig(clip_norm=5.0)
    model = parts([0.0, 0.0], [0.0])
    grads = parts([30.0, 40.0], [4.0])
    _, state, metrics = apply_gradients(config, model, init_optimizer(model), grads, jnp.array(0))
    np.testing.assert_allclose(state.mu.encoder["w"], [0.3, 0.4], rtol=1e-5)  # a tenth of (3, 4)
    np.testing.assert_allclose(state.mu.decoder["w"], [0.4], rtol=1e-5)
    assert float(metrics["encoder_norm"]) == 50.0
    assert float(metrics["clipped"]) == 1.0


def test_small_gradients_and_no_limit_leave_gradients_alone():
    grads = {"w": jnp.array([3.0, 4.0])}
    for limit in (5.0, 50.0, None):
        clipped, norm = clip_by_norm(grads, limit)
        np.testing.assert_array_equal(clipped["w"], grads["w"])
        assert norm == 5.0


def test_refuses_nonsense():
    with pytest.raises(ValueError, match="`learning_rate`"):
        OptimizerConfig(learning_rate=0.0)
    with pytest.raises(ValueError, match="`clip_norm`"):
        OptimizerConfig(clip_norm=0.0)
