import jax
import jax.numpy as jnp
import numpy as np
import pytest

from recombine.tasks import two_minima

BOTH = jnp.arange(two_minima.NUM_ENVS)
of_both = jax.jit(jax.vmap(two_minima.loss, in_axes=(None, 0)))


def test_both_minima_have_loss_zero_in_both_environments_and_nothing_is_lower():
    for minimum in (two_minima.SHARED, two_minima.PATCHWORK):
        np.testing.assert_allclose(of_both(jnp.array(minimum), BOTH), 0.0, atol=1e-12)
    line = jnp.linspace(-two_minima.REACH, two_minima.REACH, 41)
    grid = jnp.stack(jnp.meshgrid(line, line), axis=-1).reshape(-1, 2)
    losses = jax.vmap(of_both, in_axes=(0, None))(grid, BOTH)
    assert float(losses.min()) >= 0
    assert float(losses.max()) <= 1
    assert float(jnp.mean(losses, axis=1).min()) > 0  # the mean has no other zero on the grid


def test_the_shared_minimum_looks_the_same_and_the_patchwork_does_not():
    hessians = jax.jit(jax.vmap(jax.hessian(two_minima.loss), in_axes=(None, 0)))
    same = hessians(jnp.array(two_minima.SHARED), BOTH)
    np.testing.assert_allclose(same[0], 2 * np.eye(2), atol=1e-4)
    np.testing.assert_allclose(same[1], same[0], atol=1e-4)
    crossed = hessians(jnp.array(two_minima.PATCHWORK), BOTH)
    np.testing.assert_allclose(crossed[0], np.diag([8.0, 0.0]), atol=1e-3)
    np.testing.assert_allclose(crossed[1], np.diag([0.0, 8.0]), atol=1e-3)


def test_beside_the_patchwork_the_gradients_are_all_but_orthogonal():
    """As the thesis says of its figure at (0.5, 0.5)."""
    of_each = jax.jit(jax.vmap(jax.grad(two_minima.loss), in_axes=(None, 0)))
    grads = of_each(jnp.array([0.5, 0.5]), BOTH)
    cosine = jnp.dot(*grads) / jnp.prod(jnp.linalg.norm(grads, axis=1))
    assert float(cosine) == pytest.approx(0.0, abs=0.02)
