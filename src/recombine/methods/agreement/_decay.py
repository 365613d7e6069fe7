"""Adam with weight decay before or after its step (Neitz, thesis, App. B, and the authors' code).

"before" adds the decay to the gradient, so that Adam normalises it: coupled decay, an L2 penalty.
On a component whose gradient is masked it is all that Adam sees, and the weight moves towards zero
by about the learning rate in every step, however weak the decay. That is what makes the AND-mask
work on the synthetic data. "after" is a second update of its own, on the weights that Adam moved.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

DecayPlacement = Literal["before", "after"]
"""Whether weight decay joins the gradient before Adam's step, or comes after it on its own."""

Number = float | Float[Array, ""]


class DecayState(NamedTuple):
    """How many updates there have been."""

    step: Int[Array, ""]


def adam_with_decay(
    learning_rate: optax.ScalarOrSchedule,
    b1: Number = 0.9,
    b2: Number = 0.999,
    eps: Number = 1e-8,
    *,
    weight_decay: Number = 0.0,
    decay_placement: DecayPlacement = "before",
    decay_bias_correction: bool = False,
) -> optax.GradientTransformationExtraArgs:
    """Returns Adam whose weight decay can be placed as in the authors' code.

    All numbers may be arrays, so that one compiled program serves a search over them.

    Args:
        learning_rate: a number or a schedule.
        b1: the share of the first moment that is kept in a step.
        b2: the share of the second moment that is kept in a step.
        eps: added to the root of the second moment.
        weight_decay: the strength.
        decay_placement: "before" adds `weight_decay * params` to the gradient. "after" subtracts
            `learning_rate * weight_decay` times the weights that Adam has already moved.
        decay_bias_correction: with "after", divides the decay by `1 - b1**t`, as the authors' code
            does by its order of operations: ten times as much in the first step for a `b1` of 0.9.

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer = adam_with_decay(0.1, weight_decay=0.5, decay_placement="after")
        >>> weight = jnp.array([2.0])
        >>> updates, state = optimizer.update(jnp.array([3.0]), optimizer.init(weight), weight)
        >>> round(float(updates[0]), 4)  # to 1.9, then 5 % of that less
        -0.195
    """
    check_placement(decay_placement, decay_bias_correction)
    adam: Any = optax.scale_by_adam  # whose numbers may be arrays, though it does not say so
    step = optax.chain(adam(b1, b2, eps), optax.scale_by_learning_rate(learning_rate))
    if decay_placement == "before":
        return optax.chain(optax.add_decayed_weights(weight_decay), step)  # pyright: ignore[reportArgumentType]
    corrected = b1 if decay_bias_correction else None
    return optax.chain(step, decay_after(learning_rate, weight_decay, corrected_by=corrected))


def decay_after(
    learning_rate: optax.ScalarOrSchedule,
    weight_decay: Number,
    *,
    corrected_by: Number | None = None,
) -> optax.GradientTransformation:
    r"""Lets weights decay after the update that it is given, as a second, independent one.

    $$u \mapsto u - \eta\, w\, (\theta + u)$$

    with $\eta$ = `learning_rate` and w = `weight_decay`. Put it last in a chain: what comes to it
    is what would be added to the weights. It reaches masked weights too.

    Args:
        learning_rate: a number or a schedule, the same as that of the optimizer before it.
        weight_decay: the strength.
        corrected_by: Adam's `b1`, to divide the decay by `1 - b1**t` as the authors' code does.

    Example:
        >>> import jax.numpy as jnp
        >>> decay = decay_after(0.1, 0.5)
        >>> weight = jnp.array([2.0])
        >>> updates, state = decay.update(jnp.array([-1.0]), decay.init(weight), weight)
        >>> round(float(updates[0]), 4)
        -1.05
    """

    def init(params: PyTree[Any]) -> DecayState:
        del params
        return DecayState(jnp.zeros([], jnp.int32))

    def update(
        updates: PyTree[Any], state: DecayState, params: PyTree[Any] | None = None
    ) -> tuple[PyTree[Any], DecayState]:
        if isinstance(weight_decay, int | float) and weight_decay == 0:
            return updates, DecayState(state.step + 1)
        if params is None:
            raise ValueError(
                "weight decay needs the weights; give `update` the `params` as third argument"
            )
        rate: Any = learning_rate(state.step) if callable(learning_rate) else learning_rate
        step = state.step + 1
        strength = rate * weight_decay
        if corrected_by is not None:
            strength = strength / (1 - corrected_by ** step.astype(jnp.float32))
        decayed = jax.tree.map(
            lambda update, weight: (update - strength * (weight + update)).astype(update.dtype),
            updates,
            params,
        )
        return decayed, DecayState(step)

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]


def check_placement(placement: str, bias_correction: bool = False) -> None:
    """Refuses placements that there are not."""
    if placement not in ("before", "after"):
        raise ValueError(f'`decay_placement` must be "before" or "after"; got {placement!r}')
    if bias_correction and placement == "before":
        raise ValueError(
            '`decay_bias_correction` belongs to `decay_placement="after"`; decay that comes '
            '"before" is corrected with the gradient that it joins'
        )
