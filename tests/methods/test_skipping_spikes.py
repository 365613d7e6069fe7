"""Gradients that are far longer than usual."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from recombine.methods.skipping import (
    Phase,
    SkipLearner,
    Skips,
    SquaredError,
    VectorModelShape,
    pad_trajectories,
    shorten_spikes,
)
from recombine.methods.skipping._spikes import MEMORY


def test_only_what_is_far_longer_than_usual_is_shortened_and_keeps_its_direction():
    shorten = shorten_spikes(3.0)
    lengths = [1.0, 2.0, 2.9, 100.0, 1.0, 0.0]
    direction = {"a": jnp.array([0.6, 0.0]), "b": jnp.array([[-0.8]])}
    state = shorten.init(direction)
    usual = 0.0
    for length in lengths:
        gradient = jax.tree.map(lambda leaf, n=length: n * leaf, direction)
        passed, state = shorten.update(gradient, state)
        usual = usual or length
        expected = min(length, 3.0 * usual)
        for ours, unit in zip(jax.tree.leaves(passed), jax.tree.leaves(direction), strict=True):
            np.testing.assert_allclose(ours, expected * unit, rtol=1e-6)
        usual = MEMORY * usual + (1 - MEMORY) * expected
        assert float(state.length) == pytest.approx(usual)


def test_after_a_spike_adam_does_not_go_on_for_many_learning_rates():
    def furthest(*parts):
        optimizer = optax.chain(*parts, optax.scale_by_adam())
        state, moved = optimizer.init(jnp.zeros(1)), 0.0
        for step in range(120):
            # Of either sign in turns, and once, in the end, as long as a thousand.
            gradient = 1000.0 if step == 100 else (-1.0) ** step
            update, state = optimizer.update(jnp.array([gradient]), state)
            moved += float(update[0]) if step >= 100 else 0.0
        return moved

    assert furthest() > 8  # learning rates
    assert furthest(shorten_spikes(3.0)) < 2


def test_a_learner_shortens_them_where_it_is_told_to():
    rng = np.random.default_rng(0)
    trajectories = [rng.normal(size=(6, 1)).astype(np.float32) for _ in range(4)]
    data = pad_trajectories(trajectories)

    def weights_after_two_steps(most):
        learner = SkipLearner(
            (Phase(data, data),),
            model=VectorModelShape(1, hidden=(3,)),
            skips=Skips(1, 3),
            frame_loss=SquaredError(),
            longest_gradient=most,
        )
        state, key = learner.init(jax.random.key(0)), jax.random.key(1)
        for number in range(2):
            state, _ = learner.step(state, jax.random.fold_in(key, number))
        return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(state.model)])

    published, never, always = map(weights_after_two_steps, (None, 1e6, 1e-3))
    np.testing.assert_allclose(published, never, rtol=1e-6)
    assert float(jnp.abs(published - always).max()) > 1e-6
