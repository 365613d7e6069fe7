"""Gauss-Newton inference: it ends at a minimum, where first-order gradients are whole ones."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from recombine.methods.hypernetworks import (
    HardLabels,
    InnerLoop,
    MetaLearner,
    ModularStudentConfig,
    SquaredError,
)

STUDENT = ModularStudentConfig(num_inputs=4, num_outputs=3, num_latents=3, width=6)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are small here."""


class Examples(NamedTuple):
    inputs: jax.Array
    targets: jax.Array
    weights: jax.Array | None = None


class Source:
    sets = ("all",)


def learner_of(num_steps, pull=0.0):
    inner = InnerLoop(
        1.0, num_steps=num_steps, optimizer="gauss-newton", order="first", damping=1e-3, pull=pull
    )
    return MetaLearner(Source(), STUDENT, SquaredError(), inner)  # pyright: ignore


def test_a_handful_of_steps_finds_the_latent_that_made_the_targets():
    @jax.jit
    def found(key):
        model = STUDENT.make(key=key)
        inputs, latent = jr.normal(key, (40, 4)), jnp.array([0.5, 1.0, 0.8])
        support = Examples(inputs, model.predict(latent, inputs))
        adapted = learner_of(8).adapt(model, support, key)
        held = learner_of(8, pull=1e4).adapt(model, support, key).params - model.first.value
        return latent, adapted.params, adapted.losses, adapted.finite, held

    latent, params, losses, finite, held = found(jr.key(0))
    np.testing.assert_allclose(held, 0, atol=1e-3)  # a strong pull leaves it at its start
    np.testing.assert_allclose(params, latent, atol=1e-4)
    assert losses.shape == (8,)
    assert losses[-1] < 1e-6 * losses[0]
    assert finite


def test_at_the_minimum_the_first_order_gradient_agrees_with_finite_differences():
    with jax.enable_x64(True):

        @jax.jit
        def along(by):
            """The loss after inference of a model moved along a direction, and its derivative."""
            start = STUDENT.make(key=jr.key(0))
            inputs, noise = jr.normal(jr.key(1), (40, 4)), 0.05 * jr.normal(jr.key(2), (40, 3))
            targets = start.predict(jnp.array([0.5, 1.0, 0.8]), inputs) + noise  # no latent fits
            support = Examples(inputs, targets)

            def loss(modules):
                model = eqx.tree_at(lambda m: m.modules, start, modules)
                adapted = learner_of(30).adapt(model, support, jr.key(3))
                return SquaredError().loss(model.predict(adapted.params, inputs), targets, None)

            way = jnp.cos(jnp.arange(start.modules.size)).reshape(start.modules.shape)
            value, slope = jax.value_and_grad(loss)(start.modules + by * way)
            return value, jnp.sum(slope * way)

        measured = (along(1e-6)[0] - along(-1e-6)[0]) / 2e-6
        np.testing.assert_allclose(measured, along(0.0)[1], rtol=1e-4)


@pytest.mark.parametrize("over_outputs", ["mean", "sum"])
@pytest.mark.parametrize("weights", [None, jnp.array([1.0, 0.0, 2.0, 0.5])])
def test_residuals_are_the_loss_before_it_is_squared(over_outputs, weights):
    objective = SquaredError(over_outputs)
    outputs, targets = jr.normal(jr.key(0), (2, 4, 3))
    residuals = objective.residuals(outputs, targets, weights)
    np.testing.assert_allclose(
        0.5 * jnp.sum(residuals**2), objective.loss(outputs, targets, weights), rtol=1e-6
    )


def test_what_it_cannot_do_is_refused():
    with pytest.raises(ValueError, match="no derivatives through its steps: `order` must be first"):
        InnerLoop(optimizer="gauss-newton")
    inner = InnerLoop(optimizer="gauss-newton", order="first")
    with pytest.raises(TypeError, match=r"objective of squared errors.* HardLabels has none"):
        MetaLearner(Source(), STUDENT, HardLabels(), inner)  # pyright: ignore
    with pytest.raises(TypeError, match="needs slopes"):
        inner.transformation()


@pytest.mark.parametrize(("order", "is_plain"), [("first", True), ("second", False)])
def test_adam_has_a_constant_under_its_root_only_where_derivatives_go_through_it(order, is_plain):
    inner = InnerLoop(0.02, optimizer="adam", order=order)
    gradient = jnp.float32(1e-6)  # far below the square root of the constant
    plain, ours = optax.adam(0.02), inner.transformation()
    expected, _ = plain.update(gradient, plain.init(gradient), gradient)
    found, _ = ours.update(gradient, ours.init(gradient), gradient)
    assert float(expected) == pytest.approx(-0.02, rel=0.02)
    assert (float(found) == pytest.approx(float(expected), rel=1e-5)) == is_plain
