"""What a teacher would say that knew the true order of the trajectory.

A network with three layers for each step of the automaton can hold the board after step `t` in its
layer `3t`. The oracle teaches exactly these layers, each with its own board, and leaves the others
alone (Neitz, thesis, §4.4.2; that the others are left alone is our reading).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

LAYERS_PER_STEP = 3
"""Convolutions for each step of the automaton (Neitz, thesis, §4.4.2)."""


class LifeOracle(NamedTuple):
    """Which frame belongs to which layer."""

    places: Int[Array, " layers"]
    """The place in the trajectory, as it was given, of the board that the layer should hold."""
    gates: Float[Array, " layers"]
    """1 for a layer that is taught, 0 for one that is left alone."""

    def weights(self, num_steps: int) -> Float[Array, "time layers"]:
        """Returns the weights over time: 1 for the right frame, evenly where nothing is taught."""
        chosen = (jnp.arange(num_steps)[:, None] == self.places[None, :]).astype(self.gates.dtype)
        return jnp.where(self.gates[None, :] > 0, chosen, 1 / num_steps)

    def logits(self, num_steps: int, *, size: float = 30.0) -> Float[Array, "time layers"]:
        """Returns logits whose softmax over time is `weights`, up to what `size` leaves open."""
        chosen = (jnp.arange(num_steps)[:, None] == self.places[None, :]).astype(self.gates.dtype)
        return size * chosen * self.gates[None, :]


def make_oracle(
    order: Int[Array, " time"], *, layers_per_step: int = LAYERS_PER_STEP
) -> LifeOracle:
    """Undoes the order of a trajectory: finds for every layer the frame that it should hold.

    Example:
        >>> oracle = make_oracle(jnp.array([2, 0, 1]), layers_per_step=2)
        >>> oracle.gates.astype(int).tolist()
        [0, 1, 0, 1, 0, 1]
        >>> oracle.places[1::2].tolist()  # the board after the first step stands at place 1
        [1, 2, 0]
    """
    if layers_per_step < 1:
        raise ValueError(f"`layers_per_step` must be at least 1; got {layers_per_step}")
    if order.ndim != 1:
        raise ValueError(f"`order` must have one axis; got shape {list(order.shape)}")
    places = jnp.repeat(jnp.argsort(order), layers_per_step)
    is_last = jnp.arange(places.shape[0]) % layers_per_step == layers_per_step - 1
    return LifeOracle(places, is_last.astype(jnp.float32))
