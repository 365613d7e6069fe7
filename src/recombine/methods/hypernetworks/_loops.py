"""The settings of the two loops of meta-learning: within a task, and over tasks.

Numbers that only scale are array leaves, so that one compiled program serves all their values.
"""

from typing import Any, Literal, get_args

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from recombine.methods.adaptation import Keep, Order, differentiable_adamw

MinibatchBy = Literal["weights", "rows"]
"""How an inner step sees a few rows of the support: as a weight for every row, or as copies of
those rows. Weights need less memory, and a GPU adds their gradients in a fixed order; copies need
less arithmetic where the support is much larger than a minibatch."""

InnerOptimizer = Literal["adamw", "adam", "sgd", "gauss-newton"]
"""How a task's parameters descend. The first three have derivatives everywhere. Gauss-Newton solves
for the few parameters of a task with squared errors in a handful of steps; it has no derivatives
through them, so the order must be `first`, and its learning rate is the length of a step: 1 is the
whole of it."""


def _number(value: Any) -> Float[Array, ""]:
    return jnp.asarray(value, jnp.float32)


class InnerLoop(eqx.Module):
    """How a learner adapts to a task; the defaults are those of hypernetworks (Schug et al. 2024).

    Zero steps leave a task at its start: amortised inference alone, or, for a network that would
    adapt as a whole, one network for all tasks.
    """

    learning_rate: Float[Array, ""] = eqx.field(converter=_number, default=0.3)
    weight_decay: Float[Array, ""] = eqx.field(converter=_number, default=1e-4)
    num_steps: int = eqx.field(static=True, default=10)
    batch_size: int | None = eqx.field(static=True, default=None)
    """Rows of the support per step, drawn with replacement; None is all of them."""
    fresh: bool = eqx.field(static=True, default=False)
    """Whether every step sees new examples of the task, in place of its support."""
    optimizer: InnerOptimizer = eqx.field(static=True, default="adamw")
    damping: Float[Array, ""] = eqx.field(converter=_number, default=1e-2)
    """Of Gauss-Newton steps, as a share of the mean curvature; other optimizers have none."""
    pull: Float[Array, ""] = eqx.field(converter=_number, default=0.0)
    """Of Gauss-Newton steps too: towards the start, where nothing else says where to be."""
    order: Order = eqx.field(static=True, default="second")
    keep: Keep = eqx.field(static=True, default="steps")
    minibatch_by: MinibatchBy = eqx.field(static=True, default="weights")

    def __check_init__(self) -> None:
        for name, choices in (
            ("optimizer", InnerOptimizer),
            ("order", Order),
            ("keep", Keep),
            ("minibatch_by", MinibatchBy),
        ):
            value = getattr(self, name)
            if value not in get_args(choices):
                known = ", ".join(get_args(choices))
                raise ValueError(f"`{name}` must be one of {known}; got {value!r}")
        if self.optimizer == "gauss-newton" and self.order != "first":
            raise ValueError(
                f"gauss-newton has no derivatives through its steps: `order` must be first; got "
                f"{self.order!r}"
            )
        if self.num_steps < 0:
            raise ValueError(f"`num_steps` must be at least 0; got {self.num_steps}")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1 or None; got {self.batch_size}")
        if self.fresh and self.batch_size is not None:
            raise ValueError("`batch_size` picks rows of a support; `fresh` steps have none")

    def transformation(self) -> optax.GradientTransformation:
        """Returns the optimizer as Optax knows it."""
        if self.optimizer == "gauss-newton":
            raise TypeError("gauss-newton needs slopes, not gradients: Optax has no such optimizer")
        if self.optimizer == "sgd":
            return optax.sgd(self.learning_rate)
        decay = self.weight_decay if self.optimizer == "adamw" else 0.0
        return differentiable_adamw(self.learning_rate, weight_decay=decay)


class OuterLoop(eqx.Module):
    """How the shared parameters are trained: AdamW on the gradient's clipped mean over tasks."""

    learning_rate: Float[Array, ""] = eqx.field(converter=_number, default=1e-3)
    weight_decay: Float[Array, ""] = eqx.field(converter=_number, default=1e-2)
    clip_norm: float | None = eqx.field(static=True, default=1.0)
    decay_steps: int | None = eqx.field(static=True, default=None)
    """The steps over which the rate falls to 0.001 of itself along a cosine; None is never."""
    skips: bool = eqx.field(static=True, default=True)
    """Whether one update that is not finite is skipped; a second in a row ends the run."""

    def __check_init__(self) -> None:
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise ValueError(f"`clip_norm` must be positive or None; got {self.clip_norm}")

    def transformation(self) -> optax.GradientTransformation:
        """Returns the optimizer as Optax knows it."""
        rate: Any = self.learning_rate
        if self.decay_steps is not None:
            rate = optax.cosine_decay_schedule(rate, self.decay_steps, alpha=1e-3)
        parts = [] if self.clip_norm is None else [optax.clip_by_global_norm(self.clip_norm)]
        steps = optax.chain(*parts, optax.adamw(rate, weight_decay=self.weight_decay))  # pyright: ignore[reportArgumentType]
        return optax.apply_if_finite(steps, max_consecutive_errors=1) if self.skips else steps
