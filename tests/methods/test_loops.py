"""The settings of the two loops: what an outer step follows."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.hypernetworks import OuterLoop

TASKS = jnp.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])  # their gradients: lengths of 5, 0.5, 0


def task_loss(trained, task, key):
    """Linear in the parameters, so that the gradient of a task is the task."""
    loss = trained @ task
    return loss, (loss, jr.uniform(key))


def gradient_with(clip_tasks):
    outer, trained = OuterLoop(clip_tasks=clip_tasks), jnp.array([1.0, -1.0])
    return jax.jit(lambda t: outer.mean_gradient(task_loss, t, TASKS, jr.split(jr.key(0), 3)))(
        trained
    )


def test_without_a_bound_it_is_the_gradient_of_the_mean():
    grads, (losses, _) = gradient_with(None)
    np.testing.assert_allclose(grads, TASKS.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(losses, [-1.0, -0.1, 0.0], rtol=1e-5)


def test_long_gradients_of_tasks_are_shortened_before_the_mean_and_short_ones_kept():
    grads, _ = gradient_with(1.0)
    np.testing.assert_allclose(grads, np.array([0.6 + 0.3, 0.8 + 0.4]) / 3, rtol=1e-6)


def test_a_bound_that_nothing_exceeds_changes_nothing():
    for mine, plain in zip(
        jax.tree.leaves(gradient_with(9.0)), jax.tree.leaves(gradient_with(None)), strict=True
    ):
        np.testing.assert_allclose(mine, plain, rtol=1e-6)


@pytest.mark.parametrize("name", ["clip_norm", "clip_tasks"])
def test_bounds_must_be_positive(name):
    with pytest.raises(ValueError, match=f"`{name}` must be positive or None; got 0"):
        OuterLoop(**{name: 0})
