"""People's own environments: labels of rows, turned into equally long blocks of rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from sklearn.utils import column_or_1d

from recombine.estimators._labels import as_labels, is_missing
from recombine.methods.agreement import attainable_levels


def agreement_levels(num_envs: int) -> Float[np.ndarray, " levels"]:
    """Returns the shares |number of + minus number of -| / d that d environments can reach.

    Thresholds between two neighbours do the same as the upper one: of three environments either
    all agree, or two against one. (Gradients that are exactly zero abstain, and add the levels
    in between.) These are `recombine.methods.agreement.attainable_levels` as an array.

    Example:
        >>> agreement_levels(3).tolist(), agreement_levels(4).tolist()
        ([0.3333333333333333, 1.0], [0.0, 0.5, 1.0])
    """
    return np.array(attainable_levels(num_envs))


def group_rows(
    environments: Any, num_rows: int
) -> tuple[Shaped[np.ndarray, " envs"], list[Int[np.ndarray, " members"]]]:
    """Returns the distinct labels, sorted, and the numbers of the rows that carry each.

    No environment is without rows: a category that no row has does not count.
    """
    is_masked = np.ma.getmaskarray(environments) if np.ma.isMA(environments) else np.False_
    array = as_labels(environments)
    if array.ndim == 0:
        raise ValueError(
            f"`environments` must give one label per row of `X`; got a single value, "
            f"{environments!r}"
        )
    array = column_or_1d(array)
    if len(array) != num_rows:
        raise ValueError(
            f"`environments` must give one label per row of `X`, which has {num_rows}; "
            f"got {len(array)}"
        )
    if is_masked.any() or any(map(is_missing, array.tolist())):
        raise ValueError(
            "`environments` has missing labels (None, NaN or masked); drop those rows, or give "
            "them an environment of their own"
        )
    try:
        labels, membership = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"`environments` must be labels of one kind, all strings or all numbers ({error})"
        ) from error
    if len(labels) < 2:
        raise ValueError(
            f"`environments` has only one distinct label, {labels.tolist()[0]!r}, and gradients "
            f"of one environment have nothing to agree on. Give at least two environments, or "
            f"leave `environments` out to train on the pooled data."
        )
    return labels, [np.flatnonzero(membership == number) for number in range(len(labels))]


def environments_of(flags: Bool[np.ndarray, " rows"], environments: Any) -> list[Any]:
    """Returns the labels of the environments that have a flagged row, for messages about them."""
    labels, members = group_rows(environments, len(flags))
    named = zip(labels.tolist(), members, strict=True)
    return [label for label, rows in named if flags[rows].any()]


def equalize(
    members: Sequence[Int[np.ndarray, " members"]], random_state: np.random.RandomState
) -> Int[np.ndarray, "envs rows"]:
    """Repeats the rows of smaller environments until all are as long as the longest.

    Whole passes over an environment's rows, each shuffled, the last one cut: no row is used more
    than once more often than another of its environment.

    Example:
        >>> rows = equalize([np.array([0, 1]), np.array([2, 3, 4])], np.random.RandomState(0))
        >>> [sorted(set(env.tolist())) for env in rows], rows.shape
        ([[0, 1], [2, 3, 4]], (2, 3))
    """
    longest = max(len(rows) for rows in members)
    return np.stack([_passes(rows, longest, random_state) for rows in members])


def _passes(
    rows: Int[np.ndarray, " members"], length: int, random_state: np.random.RandomState
) -> Int[np.ndarray, " length"]:
    num_passes = -(-length // len(rows))
    return np.concatenate([random_state.permutation(rows) for _ in range(num_passes)])[:length]
