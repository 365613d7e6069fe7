"""Telling a user that an inner loop ran away, and what to do about it."""

import numpy as np

from recombine.methods.adaptation._adapt import Adapted

RUNAWAY = 10.0  # a loss that ends so many times above its start


class DivergedError(ValueError):
    """An inner loop that ended with values that are not numbers, or far above where it began."""


def raise_if_diverged(adapted: Adapted, *, learning_rate: float | None = None) -> None:
    """Raises `DivergedError` if the inner loop of one task, or of any of several, ran away.

    For use outside of `jit`, where values are known. Inside, `Adapted.finite` can be looked at.

    Args:
        adapted: the outcome of `adapt`, or of several tasks along leading axes.
        learning_rate: to be named in the message.
    """
    losses = np.asarray(adapted.losses, np.float64)
    finite = np.asarray(adapted.finite).reshape(-1)
    losses = losses.reshape(len(finite), losses.shape[-1])
    for task, (values, ends_finite) in enumerate(zip(losses, finite, strict=True)):
        is_number = np.isfinite(values)
        if not ends_finite:
            found = np.flatnonzero(~is_number)
            where = f"step {found[0] + 1}" if len(found) else "the last step"
            what = f"is not a number at {where} of {len(values)}"
        elif len(values) > 1 and values[-1] > RUNAWAY * abs(values[0]):
            what = f"grew from {values[0]:.3g} to {values[-1]:.3g} in {len(values)} steps"
        else:
            continue
        of_task = f" of task {task}" if len(losses) > 1 else ""
        rate = "" if learning_rate is None else f" (now {learning_rate:g})"
        raise DivergedError(
            f"the inner loop{of_task} diverged: its loss {what}. Lower the inner learning "
            f"rate{rate}, take fewer inner steps, scale the inputs, or clip inner gradients, for "
            f"example with `optax.chain(optax.clip_by_global_norm(1.0), optimizer)`."
        )
