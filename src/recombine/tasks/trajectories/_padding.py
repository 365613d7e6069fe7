"""Trajectories of different lengths as one array: the last frame of each is repeated."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Int, UInt8

MOST_THREADS = 8


def padded_index(
    lengths: Int[np.ndarray, " items"], time: int | None, *, what: str
) -> Int[np.ndarray, "items time"]:
    """Returns which frame of each trajectory stands where, when all have `time` frames.

    Args:
        lengths: of the trajectories.
        time: frames of each, by default those of the longest.
        what: the name of a trajectory, for the error message.

    Example:
        >>> padded_index(np.array([2, 3]), 4, what="run").tolist()
        [[0, 1, 1, 1], [0, 1, 2, 2]]
    """
    longest = int(lengths.max())
    time = longest if time is None else time
    if time < longest:
        raise ValueError(f"`time` must be at least {longest}, the longest {what}; got {time}")
    return np.minimum(np.arange(time)[None], lengths[:, None] - 1)


def draw_all(
    draw: Callable[[int], UInt8[np.ndarray, "frames height width 3"]],
    index: Int[np.ndarray, "items time"],
    shape: tuple[int, int, int],
) -> UInt8[np.ndarray, "items time height width 3"]:
    """Draws the frames of every trajectory, several trajectories at a time.

    Args:
        draw: from the number of a trajectory to its frames.
        index: from `padded_index`.
        shape: of a frame.
    """
    frames = np.empty((*index.shape, *shape), np.uint8)

    def fill(item: int) -> None:
        drawn = draw(item)
        frames[item, : len(drawn)] = drawn
        frames[item, len(drawn) :] = drawn[-1]

    # Most of the time is spent in NumPy, which lets other threads run.
    with ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_THREADS)) as pool:
        list(pool.map(fill, range(len(index))))
    return frames
