"""The settings of the two loops of meta-learning: within a task, and over tasks.

Numbers that only scale are array leaves, so that one compiled program serves all their values.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recombine.methods.adaptation import (
    DIFFERENTIABLE_EPS,
    Keep,
    Order,
    differentiable_adamw,
)

MinibatchBy = Literal["weights", "rows"]
"""How an inner step sees a few rows of the support: as a weight for every row, or as copies of
those rows. Weights need less memory, and a GPU adds their gradients in a fixed order; copies need
less arithmetic where the support is much larger than a minibatch."""

InnerOptimizer = Literal["adamw", "adam", "sgd", "gauss-newton"]
"""How a task's parameters descend. The first three have derivatives everywhere. Gauss-Newton solves
for the few parameters of a task with squared errors in a handful of steps; it has no derivatives
through them, so the order must be `first`, and its learning rate is the length of a step: 1 is the
whole of it."""


TaskLoss = Callable[[PyTree[Any], PyTree[Any], PRNGKeyArray], tuple[Any, Any]]
"""Of parameters, a task and a key: a loss, and anything beside it."""


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
    eps_root: Float[Array, ""] = eqx.field(converter=_number, default=DIFFERENTIABLE_EPS)
    """Of adamw and adam with derivatives through their steps: added to the second moment under its
    root. Inner gradients below its root are not brought to the size of a step. There Adam's own
    derivative is steep, and with the published value a few tasks, where a gradient is close to
    zero, have meta-gradients many times as long as the others; a larger one evens them out."""
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
        # Only derivatives through a step need a constant under its root; gradients below 3e-4 are
        # then no longer brought to the size of a step, and inference ends short of a minimum.
        root: Any = 0.0 if self.order == "first" else self.eps_root
        return differentiable_adamw(self.learning_rate, weight_decay=decay, eps_root=root)


class OuterLoop(eqx.Module):
    """How the shared parameters are trained: AdamW on the gradient's clipped mean over tasks."""

    learning_rate: Float[Array, ""] = eqx.field(converter=_number, default=1e-3)
    weight_decay: Float[Array, ""] = eqx.field(converter=_number, default=1e-2)
    clip_norm: float | None = eqx.field(static=True, default=1.0)
    clip_tasks: float | None = eqx.field(static=True, default=None)
    """How long the gradient of one task may be; a longer one is shortened before the mean is taken.
    A few tasks have gradients many times as long as the others, and where a step has few tasks they
    are what it follows. Not in the paper."""
    decay_steps: int | None = eqx.field(static=True, default=None)
    """The steps over which the rate falls to 0.001 of itself along a cosine; None is never."""
    skips: bool = eqx.field(static=True, default=True)
    """Whether one update that is not finite is skipped; a second in a row ends the run."""

    def __check_init__(self) -> None:
        for name in ("clip_norm", "clip_tasks"):
            bound = getattr(self, name)
            if bound is not None and bound <= 0:
                raise ValueError(f"`{name}` must be positive or None; got {bound}")

    def mean_gradient(
        self, task_loss: TaskLoss, trained: PyTree[Any], tasks: PyTree[Any], keys: PRNGKeyArray
    ) -> tuple[PyTree[Any], PyTree[Any]]:
        """Returns the gradient of the mean loss over tasks, and what else each task's loss returns.

        Args:
            task_loss: of parameters, one task and its key; returns a loss and anything beside it.
            trained: the parameters.
            tasks: with a leading axis.
            keys: one for each task.
        """
        if self.clip_tasks is None:

            def mean_loss(trained: PyTree[Any]) -> tuple[Float[Array, ""], PyTree[Any]]:
                totals, beside = jax.vmap(task_loss, in_axes=(None, 0, 0))(trained, tasks, keys)
                return jnp.mean(totals), beside

            return jax.grad(mean_loss, has_aux=True)(trained)
        each = jax.vmap(jax.grad(task_loss, has_aux=True), in_axes=(None, 0, 0))
        grads, beside = each(trained, tasks, keys)
        lengths = jax.vmap(optax.tree.norm)(grads)
        shares = jnp.minimum(1.0, self.clip_tasks / jnp.maximum(lengths, 1e-12)) / len(lengths)
        return jax.tree.map(lambda g: jnp.tensordot(shares, g, axes=1), grads), beside

    def transformation(self) -> optax.GradientTransformation:
        """Returns the optimizer as Optax knows it."""
        rate: Any = self.learning_rate
        if self.decay_steps is not None:
            rate = optax.cosine_decay_schedule(rate, self.decay_steps, alpha=1e-3)
        parts = [] if self.clip_norm is None else [optax.clip_by_global_norm(self.clip_norm)]
        steps = optax.chain(*parts, optax.adamw(rate, weight_decay=self.weight_decay))  # pyright: ignore[reportArgumentType]
        return optax.apply_if_finite(steps, max_consecutive_errors=1) if self.skips else steps
