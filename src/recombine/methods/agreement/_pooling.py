"""The maximum over squares of an image, with a gradient that cannot be lost.

The derivative of `jnp.max` looks for the positions that equal the maximum. A compiler may compute
one side of that comparison anew, rounded otherwise, and then no position is equal, and the
gradient is zero or not a number. Here the forward pass notes which position won.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

Images = Float[Array, "examples rows columns channels"]


def max_over_squares(x: Images, side: int) -> Images:
    """Returns the maximum of every square of `side` x `side`; of equals the first one wins."""
    pooled: Any = _pool(x, side)
    return pooled


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _pool(x: Images, side: int) -> Images:
    return _winners(x, side)[0]


def _winners(x: Images, side: int) -> tuple[Images, UInt8[Array, "examples rows columns channels"]]:
    best, *others = [x[:, i::side, j::side] for i in range(side) for j in range(side)]
    winner = jnp.zeros(best.shape, jnp.uint8)
    for number, other in enumerate(others, start=1):
        wins = (other > best) | jnp.isnan(other)  # what is not a number must be seen
        best = jnp.where(wins, other, best)
        winner = jnp.where(wins, jnp.uint8(number), winner)
    return best, winner


def _forward(x: Images, side: int) -> tuple[Images, Any]:
    return _winners(x, side)


def _backward(side: int, winner: Any, cotangent: Images) -> tuple[Images]:
    places = [
        jnp.where(winner == jnp.uint8(number), cotangent, 0.0).astype(cotangent.dtype)
        for number in range(side * side)
    ]
    examples, rows, columns, channels = cotangent.shape
    squares = jnp.stack(places).reshape(side, side, examples, rows, columns, channels)
    spread = squares.transpose(2, 3, 0, 4, 1, 5)
    return (spread.reshape(examples, rows * side, columns * side, channels),)


_pool.defvjp(_forward, _backward)
