"""One stream of random numbers for every item, so that each can be made again alone.

An attempt that fails (the runner is late, the ball leaves the board) is followed by the next
attempt of the same item. Nothing depends on how many items are asked for, or on their order, and
splits share no stream.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int

Split = Literal["train", "validation", "test"]
"""The names of the parts of a data set."""

SPLITS: tuple[Split, ...] = ("train", "validation", "test")
"""The parts of a data set, in the order in which they seed their streams."""

MOST_ATTEMPTS = 200


def item_generator(seed: int, split: Split, index: int, attempt: int) -> np.random.Generator:
    """Returns the random numbers of one attempt at one item.

    Example:
        >>> numbers = [item_generator(0, "train", 3, attempt=0).random() for _ in range(2)]
        >>> numbers[0] == numbers[1]
        True
    """
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {', '.join(SPLITS)}; got {split!r}")
    if seed < 0 or index < 0:
        raise ValueError(f"`seed` and `index` count from 0; got {seed} and {index}")
    return np.random.default_rng([seed, SPLITS.index(split), index, attempt])


def first_kept(
    num_items: int,
    try_items: Callable[[Int[np.ndarray, " tried"], int], tuple[Bool[np.ndarray, " tried"], Any]],
    take: Callable[[Any, int], Any],
) -> tuple[list[Any], Int[np.ndarray, " items"]]:
    """Attempts all items together, then those that failed, until every item has one success.

    Args:
        num_items: how many items there are.
        try_items: from items and the number of the attempt to which succeeded, and all outcomes.
        take: picks one outcome from all.

    Returns:
        For every item, its outcome and the number of its attempt, from 0.
    """
    kept: list[Any] = [None] * num_items
    attempts = np.zeros(num_items, np.int32)
    missing: Sequence[int] = range(num_items)
    for attempt in range(MOST_ATTEMPTS):
        items = np.asarray(missing, np.int64)
        succeeded, outcomes = try_items(items, attempt)
        for place in np.flatnonzero(succeeded):
            kept[items[place]] = take(outcomes, int(place))
            attempts[items[place]] = attempt
        missing = items[~succeeded].tolist()
        if not missing:
            return kept, attempts
    raise RuntimeError(
        f"items {missing[:5]} failed {MOST_ATTEMPTS} times; the settings of the world leave no way"
    )
