"""Mazes as the authors' generator draws them from a NumPy seed; theirs have 11 x 11 cells."""

import numpy as np
from jaxtyping import Bool

SIZE = 11
"""Cells in each direction, as published; a maze has no outer wall."""

FIRST_SEED = 2020
"""The seed of the authors' first maze; the next maze has the next seed."""


def make_maze(seed: int, size: int = SIZE) -> Bool[np.ndarray, "size size"]:
    """Draws a maze, True where there is a wall; its free cells hang together.

    Walls grow, in steps of two cells, from random points of every other row and column.

    Args:
        seed: of the draw.
        size: cells in each direction: odd, and at least 5.

    Example:
        >>> int((~make_maze(2020)).sum())
        72
    """
    if size < 5 or size % 2 == 0:
        raise ValueError(f"`size` must be odd and at least 5; got {size}")
    generator = np.random.default_rng(seed)
    padded = size + 2
    num_walls, length = int(0.75 * (padded // 2) ** 2), int(0.75 * 5 * 2 * padded)
    walls = np.zeros((padded, padded), bool)
    walls[[0, -1]], walls[:, [0, -1]] = True, True
    for _ in range(num_walls):
        column, row = (2 * int(generator.integers(0, padded // 2 + 1)) for _ in range(2))
        walls[row, column] = True
        for _ in range(length):
            nexts = []
            if column > 1:
                nexts.append((row, column - 2))
            if column < padded - 2:
                nexts.append((row, column + 2))
            if row > 1:
                nexts.append((row - 2, column))
            if row < padded - 2:
                nexts.append((row + 2, column))
            to_row, to_column = nexts[generator.integers(0, len(nexts))]
            if not walls[to_row, to_column]:
                walls[to_row, to_column] = True
                walls[(row + to_row) // 2, (column + to_column) // 2] = True
                row, column = to_row, to_column
    return walls[1:-1, 1:-1].copy()
