r"""Global alignment: matching a whole sequence of predictions with a trajectory at once.

Greedy matching takes the best frame for one prediction after the other. The thesis proposes to
align all of them in the best way there is, and leaves it open (Neitz, thesis, §2.2 and §2.5).
Dynamic programming finds it: with the cost C[u, t] of matching prediction u with frame t,

$$D[u, t] = C[u, t] + \min_{1 \le k \le H} D[u - 1, t - k]$$

from frame 0 to the last one. How many predictions a path takes is free: of all paths the one with
the lowest mean cost wins, since a sum would favour few long skips. The soft version has a soft
minimum in place of each minimum, and is differentiable as a whole.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from recombine.methods.skipping._matching import NOT_MATCHED
from recombine.methods.skipping._skips import Skips

UNREACHABLE = 1e9
"""The cost of what no path reaches; finite, so that soft minima keep finite gradients."""


class Alignment(NamedTuple):
    """The best path of one trajectory."""

    matched: Int[Array, " steps"]
    """The frame of each prediction; -1 after the end."""
    num_predictions: Int[Array, ""]
    cost: Float[Array, ""]
    """The mean along the path, with what its length costs."""


def best_alignment(
    costs: Float[Array, "steps time"],
    length: Int[Array, ""],
    skips: Skips,
    *,
    step_cost: Float[Array, ""] | float = 0.0,
) -> Alignment:
    """Finds the path with the lowest mean cost that ends at the last frame.

    Args:
        costs: of matching each prediction with each frame.
        length: of the trajectory; frames beyond do not count.
        skips: how far a prediction may skip.
        step_cost: what every prediction adds to the mean; above 0 it favours fewer predictions.

    Example:
        >>> costs = jnp.array([[9.0, 1, 0, 9], [9, 9, 5, 1], [9, 9, 9, 0]])
        >>> best_alignment(costs, jnp.int32(4), Skips(1, 2)).matched.tolist()
        [2, 3, -1]
    """
    _check(costs, skips)
    windows = _windows(costs.shape[1], skips)

    def forward(before: Array, cost: Array) -> tuple[Array, tuple[Array, Array]]:
        candidates = _look_back(before, windows)
        least = jnp.min(candidates, axis=1)
        now = jnp.where(least < UNREACHABLE, cost + least, UNREACHABLE)
        return now, (now, jnp.argmin(candidates, axis=1))

    _, (totals, choices) = jax.lax.scan(forward, _start(costs), costs)
    means = _means(totals, length, step_cost)
    count = jnp.argmin(means) + 1

    def backward(at: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        number, choice = step
        is_step = number <= count
        matched = jnp.where(is_step, at, NOT_MATCHED)
        return jnp.where(is_step, at - skips.shortest - choice[at], at), matched

    numbers = 1 + jnp.arange(len(costs))
    _, matched = jax.lax.scan(backward, length - 1, (numbers, choices), reverse=True)
    is_empty = length <= 1
    return Alignment(
        matched=jnp.where(is_empty, NOT_MATCHED, matched).astype(jnp.int32),
        num_predictions=jnp.where(is_empty, 0, count),
        cost=jnp.where(is_empty, 0.0, jnp.min(means)),
    )


def soft_alignment_cost(
    costs: Float[Array, "steps time"],
    length: Int[Array, ""],
    skips: Skips,
    temperature: Float[Array, ""] | float,
    *,
    step_cost: Float[Array, ""] | float = 0.0,
) -> Float[Array, ""]:
    """Returns a soft minimum, over all paths, of their mean costs; it falls with `temperature`.

    As the temperature goes to 0 it becomes the cost of `best_alignment`.

    Args:
        costs: of matching each prediction with each frame.
        length: of the trajectory; frames beyond do not count.
        skips: how far a prediction may skip.
        temperature: in units of the costs.
        step_cost: what every prediction adds to the mean.
    """
    _check(costs, skips)
    windows = _windows(costs.shape[1], skips)

    def forward(before: Array, cost: Array) -> tuple[Array, Array]:
        least = _soft_min(_look_back(before, windows), temperature)
        now = jnp.where(least < UNREACHABLE / 2, cost + least, UNREACHABLE)
        return now, now

    _, totals = jax.lax.scan(forward, _start(costs), costs)
    means = _means(totals, length, step_cost)
    return jnp.where(length <= 1, 0.0, _soft_min(means[None], temperature)[0])


def _soft_min(values: Float[Array, "n m"], temperature: Float[Array, ""] | float) -> Array:
    """Returns -γ log Σ exp(-v/γ) along the last axis, taken from the least value."""
    least = jax.lax.stop_gradient(jnp.min(values, axis=-1))
    share = jnp.sum(jnp.exp(-(values - least[:, None]) / temperature), axis=-1)
    return least - temperature * jnp.log(share)


def _start(costs: Float[Array, "steps time"]) -> Float[Array, " time"]:
    """Before the first prediction one stands on frame 0."""
    return jnp.where(jnp.arange(costs.shape[1]) == 0, 0.0, UNREACHABLE)


def _windows(time: int, skips: Skips) -> Int[Array, "time candidates"]:
    """Returns the frames from which each frame can be reached; below 0 there are none."""
    offsets = skips.shortest + jnp.arange(skips.longest - skips.shortest + 1)
    return jnp.arange(time)[:, None] - offsets[None]


def _look_back(before: Float[Array, " time"], windows: Int[Array, "time candidates"]) -> Array:
    return jnp.where(windows >= 0, before[jnp.maximum(windows, 0)], UNREACHABLE)


def _means(totals: Array, length: Array, step_cost: Float[Array, ""] | float) -> Array:
    """Returns the mean cost of the best path of each number of predictions."""
    ends = totals[:, length - 1]
    numbers = 1.0 + jnp.arange(len(totals))
    return jnp.where(ends < UNREACHABLE / 2, ends / numbers + step_cost * numbers, UNREACHABLE)


def _check(costs: Float[Array, "steps time"], skips: Skips) -> None:
    steps, time = costs.shape
    if skips.shortest != 1:
        raise ValueError(f"`shortest` must be 1, or some ends are out of reach; got {skips}")
    if steps * skips.longest < time - 1:
        raise ValueError(
            f"{steps} predictions of at most {skips.longest} frames cannot reach the end of "
            f"{time} frames; use at least {-(-(time - 1) // skips.longest)}"
        )
