"""Gradients that are far longer than usual, made shorter.

A gradient goes back through as many predictions as the model was fed its own for, and now and then
one is tens of times as long as the others. Adam then moves all weights by many learning rates at
once: the mean of gradients keeps such a one for ten steps, long before the mean of squares is used
to it. Weights that were moved so far may leave features at 0 for every pixel, for good.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

MEMORY = 0.98
"""Of the usual length: the mean over some fifty gradients."""


class UsualLength(NamedTuple):
    """What has been seen."""

    length: Float[Array, ""]
    """The running mean of the lengths of gradients, as they were passed on; 0 before the first."""


def shorten_spikes(most: Float[Array, ""] | float) -> optax.GradientTransformation:
    r"""Shortens a gradient g that is longer than `most` times the usual length u.

    $$g \min\left(1,\, \frac{\mathtt{most}\; u}{\lVert g \rVert}\right)$$

    The usual length is a mean of what was passed on: it can grow, but no spike moves it far.

    Example:
        >>> shorten = shorten_spikes(2.0)
        >>> state = shorten.init(jnp.zeros(1))
        >>> for gradient in (1.0, 1.0, 50.0):
        ...     shortened, state = shorten.update(jnp.array([gradient]), state)
        >>> float(shortened[0]), round(float(state.length), 2)
        (2.0, 1.02)
    """

    def init(params: Any) -> UsualLength:
        del params
        return UsualLength(jnp.float32(0.0))

    def update(gradient: Any, state: UsualLength, params: Any = None) -> tuple[Any, UsualLength]:
        del params
        length = optax.tree.norm(gradient)
        usual = jnp.where(state.length > 0, state.length, length)
        passed = jnp.minimum(length, most * usual)
        scale = passed / jnp.where(length > 0, length, 1.0)
        shortened = jax.tree.map(lambda leaf: scale * leaf, gradient)
        return shortened, UsualLength(MEMORY * usual + (1 - MEMORY) * passed)

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]
