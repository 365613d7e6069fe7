"""The optimizer of a learner: the regularizer, then Adam or SGD with momentum."""

from typing import Any, Literal, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from recombine.methods._numbers import optional_number

MOMENTUM = 0.9  # of SGD; Adam has 0.9 and 0.999 (Neitz, thesis, Table B.1)

Kind = Literal["adam", "sgd"]
"""Adam, or SGD with momentum 0.9."""


class Optimizer(Protocol):
    """Settings of an optimizer, with numbers as array leaves."""

    def transformation(self) -> optax.GradientTransformation:
        """Returns it as Optax knows it."""
        ...


class Descent(eqx.Module):
    """Adam or SGD, with a regularizer that goes through it and a rate that falls in steps.

    The regularizer is added to the joined gradient, before the optimizer and after any mask: with
    Adam it pulls masked weights to zero by about the learning rate in each step, however weak it
    is. `decoupled` takes the L2 term past Adam, as AdamW does; then masked weights stay.

    Numbers that only scale are array leaves, so that one compiled program serves all their values.
    """

    learning_rate: Float[Array, ""] = eqx.field(converter=jnp.float32)
    l2: Float[Array, ""] = eqx.field(converter=jnp.float32, default=0.0)
    l1: Float[Array, ""] | None = eqx.field(converter=optional_number, default=None)  # biases too
    decay_steps: tuple[int, ...] = eqx.field(static=True, default=())  # tenfold falls of the rate
    kind: Kind = eqx.field(static=True, default="adam")
    decoupled: bool = eqx.field(static=True, default=False)

    def transformation(self) -> optax.GradientTransformation:
        """Returns it as Optax knows it."""
        schedule = optax.piecewise_constant_schedule(
            self.learning_rate,  # pyright: ignore[reportArgumentType]
            dict.fromkeys(self.decay_steps, 0.1),
        )
        decay = optax.add_decayed_weights(self.l2)
        direction = optax.scale_by_adam() if self.kind == "adam" else optax.trace(decay=MOMENTUM)
        lasso = [] if self.l1 is None else [add_l1(self.l1)]
        parts = [direction, decay] if self.decoupled else [decay, direction]
        return optax.chain(*lasso, *parts, optax.scale_by_learning_rate(schedule))


def add_l1(strength: float | Float[Array, ""]) -> optax.GradientTransformation:
    """Adds the gradient of the L1 norm, `strength * sign(weight)`, to every gradient.

    Example:
        >>> import jax.numpy as jnp
        >>> weights = jnp.array([2.0, 0.0, -3.0])
        >>> add_l1(0.5).update(jnp.ones(3), optax.EmptyState(), weights)[0].tolist()
        [1.5, 1.0, 0.5]
    """

    def update(grads: PyTree[Any], params: PyTree[Any] | None) -> PyTree[Any]:
        if params is None:
            raise ValueError("`add_l1` needs the parameters: call `update(grads, state, params)`")
        return jax.tree.map(lambda g, p: g + strength * jnp.sign(p), grads, params)

    return optax.stateless(update)
