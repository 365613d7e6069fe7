"""Mazes of 11 x 11 cells, as the authors' generator draws them from a NumPy seed."""

import numpy as np
from jaxtyping import Bool

SIZE = 11
"""Cells in each direction; a maze has no outer wall."""

FIRST_SEED = 2020
"""The seed of the authors' first maze; the next maze has the next seed."""

DENSITY = 27  # walls that grow: 0.75 of the 36 blocks of a padded maze
LENGTH = 97  # steps of a growing wall: 0.75 x 5 x 26, rounded down


def make_maze(seed: int) -> Bool[np.ndarray, "11 11"]:
    """Draws a maze, True where there is a wall; its free cells hang together.

    Walls grow, in steps of two cells, from random points of every other row and column.

    Example:
        >>> int((~make_maze(2020)).sum())
        72
    """
    generator = np.random.default_rng(seed)
    padded = SIZE + 2
    walls = np.zeros((padded, padded), bool)
    walls[[0, -1]], walls[:, [0, -1]] = True, True
    for _ in range(DENSITY):
        column, row = (2 * int(generator.integers(0, padded // 2 + 1)) for _ in range(2))
        walls[row, column] = True
        for _ in range(LENGTH):
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
