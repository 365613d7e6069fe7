"""The order of a trajectory: scrambled, in the same way for all examples, and restored."""

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

NUM_STEPS = 3
"""How often the rules are applied (Neitz, thesis, §4.4.2)."""


def draw_time_order(key: PRNGKeyArray, num_steps: int = NUM_STEPS) -> Int[Array, " time"]:
    """Draws the order of a seed: at place `t` stands the board after `order[t] + 1` steps.

    One order in six is the true one; `jnp.arange(num_steps)` always is.
    """
    if num_steps < 1:
        raise ValueError(f"`num_steps` must be at least 1; got {num_steps}")
    return jr.permutation(key, num_steps)


def scramble_time(
    trajectories: Float[Array, "examples time *frame"], order: Int[Array, " time"]
) -> Float[Array, "examples time *frame"]:
    """Puts the frames of all examples into the same order.

    Example:
        >>> scramble_time(jnp.array([[5.0, 6.0, 7.0]]), jnp.array([2, 0, 1])).tolist()
        [[7.0, 5.0, 6.0]]
    """
    if trajectories.ndim < 2 or order.shape != trajectories.shape[1:2]:
        raise ValueError(
            f"`trajectories` must have axes of examples and of time, and `order` must name each "
            f"place in time once; got shapes {list(trajectories.shape)} and {list(order.shape)}"
        )
    return jnp.take(trajectories, order, axis=1)


def restore_time(
    trajectories: Float[Array, "examples time *frame"], order: Int[Array, " time"]
) -> Float[Array, "examples time *frame"]:
    """Undoes `scramble_time` with the same order."""
    return scramble_time(trajectories, jnp.argsort(order))
