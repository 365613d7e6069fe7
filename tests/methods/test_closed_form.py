"""A head that is solved for: the solution, its derivatives, and what padding must not change."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.hypernetworks import RidgeHeadConfig, solve_ridge


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are small here."""


def drawn(rows, width):
    keys = jr.split(jr.key(rows))
    return jr.normal(keys[0], (rows, width)), jr.normal(keys[1], (rows, 2))


@pytest.mark.parametrize(("rows", "width"), [(9, 4), (4, 9)])  # either form of the solution
def test_the_solution_is_the_minimum_of_what_it_minimizes(rows, width):
    features, targets = drawn(rows, width)
    found = solve_ridge(features, targets, None, jnp.float32(0.3))

    def objective(head):
        return jnp.sum(jnp.square(features @ head - targets)) + 0.3 * jnp.sum(jnp.square(head))

    np.testing.assert_allclose(jax.grad(objective)(found), 0, atol=1e-4)


def test_weights_count_rows():
    features, targets = drawn(4, 3)
    some = solve_ridge(features, targets, jnp.array([1.0, 0.0, 2.0, 0.0]), jnp.float32(0.1))
    copies = jnp.array([0, 2, 2])
    same = solve_ridge(features[copies], targets[copies], None, jnp.float32(0.1))
    np.testing.assert_allclose(some, same, rtol=1e-3, atol=1e-5)


def test_the_head_of_a_task_fits_its_support_and_teaches_the_body():
    config = RidgeHeadConfig(num_inputs=3, num_outputs=2, width=16, num_hidden=1, penalty=1e-3)
    model = config.make(key=jr.key(0))
    inputs, targets = jr.normal(jr.key(1), (8, 3)), jr.normal(jr.key(2), (8, 2))

    @jax.jit
    def run(model):
        def loss(model):
            head = model.start(inputs[:6], targets[:6], None, key=jr.key(0))
            outputs = model.predict(head, model.read(inputs))
            return jnp.mean(jnp.square(outputs[6:] - targets[6:])), (head, outputs)

        return jax.value_and_grad(loss, has_aux=True)(model)

    (_, (head, outputs)), grads = run(model)
    assert head.shape == (16 + 1, 2)  # with the bias
    np.testing.assert_allclose(outputs[:6], targets[:6], atol=0.05)
    for leaf in jax.tree.leaves(grads):
        assert jnp.isfinite(leaf).all()
        assert jnp.any(leaf != 0)


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="`width` must be at least 1; got 0"):
        RidgeHeadConfig(width=0)
    with pytest.raises(ValueError, match="`penalty` must be positive; got 0"):
        RidgeHeadConfig(penalty=0.0)
