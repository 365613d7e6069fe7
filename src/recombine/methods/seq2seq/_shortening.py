"""Loops that end soon after the longest answer of a batch does.

Answers of SCAN have up to 49 symbols and 15 on average, so a loop over a small batch that always
takes 49 steps spends most of them on padding. The number of steps has to be known when a program is
compiled; so there is a program for each of a few lengths, and every step takes the shortest that is
long enough. Seeds that train as one program take one decision together.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int

SHARES = (2 / 7, 3 / 7, 4 / 7, 5 / 7, 1.0)
"""The lengths, as shares of the longest: 14, 21, 28, 35 and 49 steps for SCAN."""


def only_needed_steps(
    compute: Callable[[int], Float[Array, "items steps symbols"]],
    lengths: Int[Array, " items"],
    longest: int,
) -> Float[Array, "items longest symbols"]:
    """Calls `compute` with the fewest steps that cover `lengths`; pads its result with zeros.

    Args:
        compute: returns the first so many steps; what it returns for a step must not depend on how
            many follow.
        lengths: the numbers of steps that matter, none above `longest`.
        longest: the steps of the result.

    Example:
        >>> counts = only_needed_steps(lambda n: jnp.full((1, n, 1), n), jnp.array([3]), 14)
        >>> counts[0, :, 0].tolist()
        [4.0, 4.0, 4.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    choices = sorted({math.ceil(share * longest - 1e-6) for share in SHARES})

    def padded(steps: int) -> Callable[[], Float[Array, "items longest symbols"]]:
        return lambda: jnp.pad(
            compute(steps).astype(jnp.float32), ((0, 0), (0, longest - steps), (0, 0))
        )

    index = jnp.searchsorted(jnp.asarray(choices), _largest(lengths))
    return jax.lax.switch(index, [padded(steps) for steps in choices])


@custom_vmap
def _largest(lengths: Int[Array, " items"]) -> Int[Array, ""]:
    return jnp.max(lengths)


@_largest.def_vmap
def _(axis_size: int, in_batched: list[bool], lengths: Array) -> tuple[Array, bool]:
    """One number for all seeds, so that the choice stays a choice and does not become a mask."""
    del axis_size, in_batched
    return _largest(lengths), False
