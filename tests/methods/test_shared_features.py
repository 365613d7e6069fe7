"""A gradient made of kept factors is the gradient that is added up step by step."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.adaptation import adapt, differentiable_adamw
from recombine.methods.hypernetworks._shared_features import SharedFeatures, make_slots


def adapted_loss(features, head, targets, *, num_steps, keep, shares):
    """What a head has learned of some rows, measured on the same rows squared."""
    slots = make_slots(features, num_steps, 2) if shares else None
    still = jax.lax.stop_gradient(features)

    def loss(weight, slots):
        rows = SharedFeatures(still, slots) if shares else features
        return jnp.mean(jnp.square(jnp.tanh(rows @ weight) - targets))

    found = adapt(
        loss,
        head,
        differentiable_adamw(0.1),
        num_steps=num_steps,
        batches=slots,
        keep=keep,
    )
    return jnp.mean(jnp.square(jnp.square(features) @ found.params - targets))


@pytest.mark.parametrize(("num_steps", "keep"), [(1, "everything"), (7, "segments")])
def test_factors_make_the_same_gradient_for_every_task(num_steps, keep, quick_compilation):
    features = jr.normal(jr.key(0), (3, 5, 4))  # of three tasks
    targets = jr.normal(jr.key(1), (3, 5, 2))
    head = jr.normal(jr.key(2), (4, 2))  # the same for all

    def total(features, head, shares):
        def one(features, targets):
            return adapted_loss(
                features, head, targets, num_steps=num_steps, keep=keep, shares=shares
            )

        return jnp.sum(jax.vmap(one)(features, targets))

    differentiate = jax.jit(jax.value_and_grad(total, argnums=(0, 1)), static_argnums=2)
    value, grads = differentiate(features, head, True)
    expected, by_steps = differentiate(features, head, False)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    for found, known in zip(grads, by_steps, strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-4, atol=1e-5)
        assert float(jnp.abs(known).max()) > 0.1


def test_nothing_is_added_up_in_the_loop():
    features, head = jnp.ones((5, 4)), jnp.ones((4, 2))

    def loss(features, shares):
        return adapted_loss(
            features, head, jnp.ones((5, 2)), num_steps=3, keep="everything", shares=shares
        )

    def carried(shares):
        """The shapes that the loops of a gradient carry from step to step."""
        jaxpr = jax.make_jaxpr(jax.grad(loss), static_argnums=1)(features, shares).jaxpr
        loops = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]
        assert len(loops) == 2  # forth and back
        return {
            tuple(v.aval.shape)  # pyright: ignore[reportAttributeAccessIssue]
            for eqn in loops
            for v in eqn.outvars[: eqn.params["num_carry"]]
        }

    assert (5, 4) in carried(False)
    assert (5, 4) not in carried(True)
