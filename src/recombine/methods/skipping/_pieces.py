"""Trajectories cut where the truth is fed.

What is predicted after a true frame does not depend on any prediction before it. Where the frames
to match are known beforehand, as with a fixed step, the pieces between true frames may therefore be
followed side by side: there are many of them, and all are short.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


class Pieces(NamedTuple):
    """Parts of trajectories that are followed one prediction after the other, the longest first."""

    items: Int[Array, " pieces"]
    """Of which trajectory of the batch."""
    first: Int[Array, " pieces"]
    """The number of its first prediction in the trajectory."""
    until: Int[Array, " pieces"]
    """The number of the first prediction that it does not have; pieces may be empty."""
    at: Int[Array, " pieces"]
    """The true frame that it begins with."""


def whole_trajectories(lengths: Int[Array, " batch"], steps: int) -> Pieces:
    """Returns a piece for every trajectory, which ends where its trajectory does.

    Args:
        lengths: of the trajectories.
        steps: how many predictions there can be of one.
    """
    items = jnp.argsort(-lengths)
    nothing = jnp.zeros_like(items)
    return Pieces(items, nothing, jnp.full_like(items, steps), nothing)


def cut_where_truth_is_fed(
    targets: Int[Array, "steps batch"], is_truth: Bool[Array, "steps batch"]
) -> Pieces:
    """Cuts trajectories after every prediction that is followed by a true frame.

    Args:
        targets: the frame that every prediction is matched with; -1 after the end.
        is_truth: whether that frame is fed next, and not the prediction.

    Example:
        >>> targets = jnp.array([[2], [4], [6], [8], [-1]])
        >>> is_truth = jnp.array([[False], [True], [False], [False], [False]])
        >>> pieces = cut_where_truth_is_fed(targets, is_truth)
        >>> [(int(first), int(until), int(at)) for _, first, until, at in zip(*pieces)][:2]
        [(0, 2, 0), (2, 4, 4)]
    """
    steps, batch = targets.shape
    is_step = targets >= 0
    nowhere, never = jnp.zeros((1, batch), targets.dtype), jnp.zeros((1, batch), bool)
    begins = is_step & jnp.concatenate([~never, is_truth[:-1]])
    ends = is_truth | ~jnp.concatenate([is_step[1:], never])
    numbers = jnp.broadcast_to(jnp.arange(steps, dtype=targets.dtype)[:, None], (steps, batch))
    until = jax.lax.cummin(jnp.where(ends, numbers + 1, steps), axis=0, reverse=True)
    until = jnp.where(begins, until, numbers)
    at = jnp.concatenate([nowhere, targets[:-1]])
    items = jnp.broadcast_to(jnp.arange(batch), (steps, batch))
    pieces = Pieces(items, numbers, until, jnp.maximum(at, 0))
    longest_first = jnp.argsort(-(until - numbers).ravel())
    return jax.tree.map(lambda leaf: leaf.ravel()[longest_first], pieces)
