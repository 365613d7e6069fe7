r"""Solving for a task's parameters: a few damped Gauss-Newton steps, not hundreds of Adam's.

Where a loss is half a sum of squares, $\frac12 \|r(\theta)\|^2$, and a task has few parameters, the
slopes $J = \partial r / \partial \theta$ say nearly all about it:

$$\theta \leftarrow \theta - \eta\, (J^\top J + (\lambda \bar{d} + \mu) I)^{-1}
(J^\top r + \mu (\theta - \theta_0)),$$

with $\bar{d}$ the mean of the diagonal of $J^\top J$, so that the damping $\lambda$ has no unit.
The pull $\mu$ has one: it is small beside the curvature, and keeps parameters near their start.
After exact inference it is all the same whether parameters are large and slopes small, or the other
way round; without a pull that scale drifts.

A first-order outer loop needs this more than speed. It takes the point that inference ends at for a
constant, which is right only where that point is a minimum. Where inference stops short, what is
left over pushes the shared parameters further from where inference starts, and so on: the loss
rises, long after it was low.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from recombine.methods.adaptation import Adapted

SMALLEST = 1e-12  # added to the diagonal: slopes that are all zero leave the parameters alone


def solve(
    residuals: Callable[[Any, Any], Float[Array, " errors"]],
    start: Any,
    *,
    num_steps: int,
    batches: Any,
    rate: Float[Array, ""],
    damping: Float[Array, ""],
    pull: Float[Array, ""],
) -> Adapted:
    """Takes `num_steps` damped Gauss-Newton steps on half the sum of squared residuals.

    Derivatives of the outcome are those of `adapt` with the order `first`: all moves are constants.

    Args:
        residuals: a function of the parameters and of the step's batch; it should not carry
            derivatives with respect to anything else, for they would be thrown away.
        start: where to start; a pytree of arrays.
        num_steps: how many steps.
        batches: a pytree whose arrays have a leading axis of steps, or None.
        rate: the length of a step, 1 being the whole of it.
        damping: as a share of the mean curvature.
        pull: towards the start; in units of curvature.
    """
    first, restore = ravel_pytree(start)
    still = jax.lax.stop_gradient(first)

    def step(point: Float[Array, " size"], batch: Any) -> tuple[Any, Float[Array, ""]]:
        def errors(point: Any) -> tuple[Any, Any]:
            found = residuals(restore(point), batch)
            return found, found

        slopes, found = jax.jacfwd(errors, has_aux=True)(point)
        curvature = slopes.T @ slopes
        added = damping * jnp.trace(curvature) / point.size + pull + SMALLEST
        move = jax.scipy.linalg.solve(
            curvature + added * jnp.eye(point.size, dtype=point.dtype),
            slopes.T @ found + pull * (point - still),
            assume_a="pos",
        )
        return point - rate * move, 0.5 * jnp.sum(jnp.square(found))

    last, losses = jax.lax.scan(step, still, batches, num_steps)
    finite = jnp.all(jnp.isfinite(losses)) & jnp.all(jnp.isfinite(last))
    # The start may be learned: it gets the derivative, the way from there does not.
    moved = first + jax.lax.stop_gradient(last - still)
    return Adapted(restore(moved), None, losses, finite)
