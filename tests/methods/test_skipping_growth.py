"""Gradients that may not become longer on their way back through a prediction."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.skipping import (
    Batch,
    Phase,
    Schedule,
    SkipLearner,
    Skips,
    SquaredError,
    VectorModelShape,
    flip_coins,
    pad_trajectories,
    skip_loss,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


FRAMES = jnp.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [0.5, -1.0]])[None]  # two features


@eqx.filter_jit
def gradient(turn, *, limit, lanes=None, truth=0.0, frames=FRAMES, lengths=(4,)):
    """Of the loss of a linear model that predicts every frame, with respect to its weights."""

    def loss(turn):
        return skip_loss(
            lambda x: turn @ x,
            Batch(frames, jnp.array(lengths)),
            flip_coins(jr.key(0), frames.shape[1] - 1, len(frames)),
            skips=Skips(1, 1),
            truth=truth,
            frame_loss=SquaredError(),
            growth_limit=limit,
            lanes=lanes,
        )[0]

    return jax.grad(loss)(turn)


def by_hand(turn, limit):
    """Goes back through the chain of three predictions, one after the other."""
    inputs, errors = [FRAMES[0, 0]], []
    for number in range(1, 4):
        prediction = turn @ inputs[-1]
        errors.append(jax.grad(lambda p, n=number: SquaredError()(p, FRAMES[0, n]) / 3)(prediction))
        inputs.append(prediction)
    total, back = jnp.zeros((2, 2)), jnp.zeros(2)
    for error, frame in zip(errors[::-1], inputs[-2::-1], strict=True):
        wanted = error + back
        total += jnp.outer(wanted, frame)
        back = turn.T @ wanted
        length, most = jnp.linalg.norm(back), limit * jnp.linalg.norm(wanted)
        back = back * jnp.minimum(1.0, most / length)
    return total


@pytest.mark.parametrize("limit", [0.5, 1.0, 1e6])
def test_what_goes_back_through_a_prediction_is_shortened_where_it_grows(limit):
    turn = jnp.array([[2.0, -1.0], [0.5, 1.5]])
    np.testing.assert_allclose(gradient(turn, limit=limit), by_hand(turn, limit), rtol=1e-5)


def test_a_limit_that_is_never_reached_changes_nothing():
    turn = jnp.array([[0.4, -0.3], [0.2, 0.5]])
    plain, limited = gradient(turn, limit=None), gradient(turn, limit=1.0)
    assert plain.tolist() == limited.tolist()


def test_lanes_and_pieces_have_the_same_limited_gradients():
    frames = jr.normal(jr.key(1), (3, 9, 2))
    of = partial(gradient, 2 * jr.normal(jr.key(2), (2, 2)), limit=0.7, truth=0.4)
    of = partial(of, frames=frames, lengths=(9, 4, 7))
    together, alone, pieces = of(), of(lanes=1), of(lanes=5)
    np.testing.assert_allclose(together, alone, rtol=1e-4)
    np.testing.assert_allclose(together, pieces, rtol=1e-4)


def test_a_learner_limits_the_growth_where_it_is_told_to():
    rng = np.random.default_rng(0)
    data = pad_trajectories([rng.normal(size=(8, 1)).astype(np.float32) for _ in range(4)])

    def learner_with(limit, **more):
        return SkipLearner(
            (Phase(data, data),),
            model=VectorModelShape(1, hidden=(3,)),
            skips=Skips(1, 3),
            frame_loss=SquaredError(),
            growth_limit=limit,
            schedule=Schedule(sampling_steps=1e-6, learning_rate=0.1),  # its own frames are fed
            **more,
        )

    def weights_after_five_steps(limit):
        learner = learner_with(limit)
        state = learner.init(jr.key(0))
        for number in range(5):
            state, _ = learner.step(state, jr.fold_in(jr.key(1), number))
        return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(state.model)])

    published, never, always = map(weights_after_five_steps, (None, 1e6, 1e-3))
    np.testing.assert_allclose(published, never, rtol=1e-5)
    assert float(jnp.abs(published - always).max()) > 1e-6
    with pytest.raises(ValueError, match="leave it out with soft alignment"):
        learner_with(1.0, matching="soft")
