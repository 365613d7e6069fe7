"""Losses that can be compared across sets of tasks whose targets differ in size."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class RelativeLoss(NamedTuple):
    """Half the squared error over the squared targets: predicting zero scores 0.5."""

    per_sample: Float[Array, ""]
    """The mean of the ratios of single examples."""
    population: Float[Array, ""]
    """The ratio of the means."""


def relative_loss(
    outputs: Float[Array, "*rows outputs"], targets: Float[Array, "*rows outputs"]
) -> RelativeLoss:
    """Returns both relative losses, over all rows of all tasks."""
    errors = 0.5 * jnp.mean(jnp.square(outputs - targets), axis=-1)
    powers = jnp.mean(jnp.square(targets), axis=-1)
    return RelativeLoss(
        jnp.mean(errors / jnp.maximum(powers, 1e-12)), jnp.sum(errors) / jnp.sum(powers)
    )


def explained_variance(
    outputs: Float[Array, "*rows outputs"], targets: Float[Array, "*rows outputs"]
) -> Float[Array, ""]:
    """Returns R² = 1 - MSE/Var, the variance being that of each output over all rows and tasks.

    Example:
        >>> import jax.numpy as jnp
        >>> targets = jnp.array([[1.0], [3.0]])
        >>> float(explained_variance(jnp.full((2, 1), 2.0), targets))
        0.0
    """
    rows = targets.reshape(-1, targets.shape[-1])
    errors = jnp.sum(jnp.square(outputs - targets))
    return 1 - errors / jnp.sum(jnp.square(rows - jnp.mean(rows, axis=0, keepdims=True)))
