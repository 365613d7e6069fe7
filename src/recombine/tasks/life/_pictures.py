"""How boards look: frames as bytes, for `recombine.tasks.trajectories` to save.

Living cells are dark. A red frame surrounds the cells that can still change the middle cell of the
last board: a square that shrinks by one cell at every edge with every step, down to the middle
cell alone.
"""

from typing import Any

import numpy as np
from jaxtyping import UInt8

DEAD, LIVING, GRID, REACH = (255, 255, 255), (40, 40, 60), (225, 225, 225), (200, 30, 30)


def draw_boards(
    boards: Any, *, pixels: int = 8, show_reach: bool = True
) -> UInt8[np.ndarray, "boards height width 3"]:
    """Draws boards that follow each other in time, `pixels` to a cell.

    Args:
        boards: the first board and those that follow, in their true order; not 0 is alive.
        pixels: of a cell, in each direction, at least 4.
        show_reach: whether to frame the cells that can still change the last board's middle.

    Example:
        >>> draw_boards(np.zeros((4, 17, 17)), pixels=8).shape
        (4, 137, 137, 3)
    """
    boards = np.asarray(boards) != 0
    if boards.ndim != 3 or not len(boards):
        raise ValueError(
            f"`boards` must have axes of time, rows and columns, and at least one board; got shape "
            f"{list(boards.shape)}"
        )
    if pixels < 4:
        raise ValueError(f"`pixels` of a cell must be at least 4; got {pixels}")
    frames = np.stack([_draw_board(board, pixels) for board in boards])
    if show_reach:
        for frame, steps_left in zip(frames, reversed(range(len(boards))), strict=True):
            _frame_middle(frame, boards.shape[1:], steps_left, pixels)
    return frames


def _draw_board(board: np.ndarray, pixels: int) -> np.ndarray:
    colors = np.where(board[..., None], np.asarray(LIVING), np.asarray(DEAD)).astype(np.uint8)
    cells = np.repeat(np.repeat(colors, pixels, axis=0), pixels, axis=1)
    frame = np.empty((cells.shape[0] + 1, cells.shape[1] + 1, 3), np.uint8)
    frame[:-1, :-1] = cells
    frame[::pixels], frame[:, ::pixels] = GRID, GRID
    return frame


def _frame_middle(frame: np.ndarray, shape: tuple[int, ...], steps_left: int, pixels: int) -> None:
    """Draws two lines of pixels around the square that reaches `steps_left` from the middle."""
    top, left = (max(size // 2 - steps_left, 0) * pixels for size in shape)
    bottom, right = (min(size // 2 + steps_left + 1, size) * pixels for size in shape)
    square = frame[top : bottom + 1, left : right + 1]
    for edge in (square[:2], square[-2:], square[:, :2], square[:, -2:]):
        edge[:] = REACH
