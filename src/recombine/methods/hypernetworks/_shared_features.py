r"""Features that all inner steps share, and a gradient with respect to them that is cheap.

An inner step on a head $W_s$ computes $Z_s = F W_s$ and, for the gradient, $F^\top D_s$. With
respect to the features $F$, the derivative of the whole loop is a sum of outer products,

$$\bar F = \sum_s \bar Z_s W_s^\top + D_s \bar G_s^\top,$$

where $\bar Z_s$ and $\bar G_s$ are the derivatives with respect to the two results. Adding them up
step by step reads and writes an array as large as $F$ twice in every step, which takes most of the
time of a meta-step of ANIL. Here every step only keeps its factors, which are narrow, and one
product makes the sum at the end.

JAX has no place for such factors. So each step gets an array for each of them, its slots, and
what is passed back as the "derivatives" with respect to the slots are the factors.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Slots(NamedTuple):
    """Places for the factors of one step's outer products, those of all steps if stacked."""

    products: Float[Array, "*steps rows outputs"]
    weights: Float[Array, "*steps features outputs"]
    errors: Float[Array, "*steps rows outputs"]
    gradients: Float[Array, "*steps features outputs"]


class SharedFeatures(eqx.Module):
    """Features, which are a constant to derivatives, with the slots of one step."""

    rows: Float[Array, "rows features"]
    slots: Slots

    @property
    def dtype(self) -> jnp.dtype:
        """The type of the features."""
        return self.rows.dtype

    def __matmul__(self, weight: Float[Array, "features outputs"]) -> Float[Array, "rows outputs"]:
        """Returns the product of features and weights."""
        return _product(self.rows, weight, self.slots)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def make_slots(features: Float[Array, "rows features"], num_steps: int, num_outputs: int) -> Slots:
    """Returns slots for so many steps; their derivatives become one of the features."""
    rows, width = features.shape
    # No one reads them. They are made from features to be apart for every task under `vmap`.
    narrow = jnp.broadcast_to(features[:1, :1], (num_steps, rows, num_outputs))
    deep = jnp.broadcast_to(features[:1, :1], (num_steps, width, num_outputs))
    return Slots(narrow, deep, narrow, deep)


def _begin(features: Any, num_steps: int, num_outputs: int) -> tuple[Slots, None]:
    return make_slots(features, num_steps, num_outputs), None


def _sum_outer_products(num_steps: int, num_outputs: int, _: None, found: Slots) -> tuple[Any]:
    products = jnp.einsum("sro,sfo->rf", found.products, found.weights)
    return (products + jnp.einsum("sro,sfo->rf", found.errors, found.gradients),)


make_slots.defvjp(_begin, _sum_outer_products)


# Each forward rule calls its own function again, so that second derivatives find the rule too.


@jax.custom_vjp
def _product(features: Any, weight: Any, slots: Slots) -> Any:
    return features @ weight


def _product_forward(features: Any, weight: Any, slots: Slots) -> Any:
    return _product(features, weight, slots), (features, weight, slots)


def _product_backward(kept: Any, change: Any) -> Any:
    features, weight, slots = kept
    factors = Slots(change, weight, jnp.zeros_like(change), jnp.zeros_like(weight))
    return None, _transposed_product(features, change, slots), factors


_product.defvjp(_product_forward, _product_backward)


@jax.custom_vjp
def _transposed_product(features: Any, errors: Any, slots: Slots) -> Any:
    return features.T @ errors


def _transposed_forward(features: Any, errors: Any, slots: Slots) -> Any:
    return _transposed_product(features, errors, slots), (features, errors)


def _transposed_backward(kept: Any, change: Any) -> Any:
    features, errors = kept
    factors = Slots(jnp.zeros_like(errors), jnp.zeros_like(change), errors, change)
    return None, features @ change, factors


_transposed_product.defvjp(_transposed_forward, _transposed_backward)
