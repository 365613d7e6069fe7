"""A small model of state vectors, for systems whose state is known.

It predicts a change, and starts at none: at first the model copies its input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

View = Callable[..., Float[Array, " features"]]
"""What a model sees of a state: from the state, and the context if there is one."""


class VectorModel(eqx.Module):
    """From one state vector to the next, by layers of ReLUs."""

    weights: list[Float[Array, "inputs outputs"]]
    biases: list[Float[Array, " outputs"]]
    view: View | None = eqx.field(static=True)

    def __init__(
        self,
        state_size: int,
        hidden: tuple[int, ...] = (128, 128),
        *,
        key: PRNGKeyArray,
        view: View | None = None,
        view_size: int | None = None,
    ):
        sizes = [view_size or state_size, *hidden, state_size]
        keys = jr.split(key, len(sizes) - 1)
        self.weights = [
            jr.normal(k, (i, o)) * (2.0 / i) ** 0.5
            for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]
        self.weights[-1] = jnp.zeros_like(self.weights[-1])
        self.biases = [jnp.zeros(size) for size in sizes[1:]]
        self.view = view

    def __call__(
        self, state: Float[Array, " state"], context: Any = None
    ) -> Float[Array, " state"]:
        """Predicts the state some time after this one."""
        given = () if context is None else (context,)
        x = state if self.view is None else self.view(state, *given)
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            x = jax.nn.relu(x @ weight + bias)
        return state + x @ last[0] + last[1]


@dataclass(frozen=True)
class VectorModelShape:
    """The sizes of a `VectorModel`; calling it makes one."""

    state_size: int
    hidden: tuple[int, ...] = (128, 128)
    view: View | None = None
    """What the model sees of state and context, where that is not the state itself."""
    view_size: int | None = None

    def __post_init__(self) -> None:
        if self.state_size < 1 or any(size < 1 for size in self.hidden):
            raise ValueError(
                f"`state_size` and `hidden` must be at least 1; got {self.state_size}, "
                f"{self.hidden}"
            )
        if (self.view is None) != (self.view_size is None):
            raise ValueError("`view` and `view_size` go together; give both or neither")

    def __call__(self, key: PRNGKeyArray) -> VectorModel:
        """Returns a model at its random start."""
        return VectorModel(
            self.state_size, self.hidden, key=key, view=self.view, view_size=self.view_size
        )
