"""How states look to people: larger, in rows."""

from typing import Any

import numpy as np
from jaxtyping import UInt8

EDGE, GAP = 255, 4  # white pixels between two states


def draw_states(images: Any, *, pixels: int = 6) -> UInt8[np.ndarray, "height width 3"]:
    """Draws states beside each other, `pixels` to a cell; levels below each other.

    Args:
        images: states of one level, or of several with the same number of states each.
        pixels: of a cell, in each direction, at least 1.

    Example:
        >>> draw_states(np.zeros((3, 5, 16, 16, 3), np.uint8), pixels=2).shape
        (104, 176, 3)
    """
    images = np.asarray(images)
    if images.ndim not in (4, 5) or images.shape[-1] != 3 or not images.size:
        raise ValueError(
            f"`images` must have axes of states, rows, columns and 3 colours, with an axis of "
            f"levels before them or none, and at least one state; got shape {list(images.shape)}"
        )
    if pixels < 1:
        raise ValueError(f"`pixels` of a cell must be at least 1; got {pixels}")
    images = images[None] if images.ndim == 4 else images
    large = np.repeat(np.repeat(images.astype(np.uint8), pixels, axis=2), pixels, axis=3)
    framed = np.pad(large, ((0, 0), (0, 0), (0, GAP), (0, GAP), (0, 0)), constant_values=EDGE)
    levels, states, height, width, _ = framed.shape
    tiled = framed.transpose(0, 2, 1, 3, 4).reshape(levels * height, states * width, 3)
    return np.ascontiguousarray(tiled[:-GAP, :-GAP])
