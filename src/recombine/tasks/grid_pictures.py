"""How a grid world looks: frames as bytes, for `recombine.tasks.trajectories` to save.

Walls are grey, the agent is a black diamond, objects are discs in the color of their type; one that
is worth less than nothing is a ring. A goal's cell has a frame. No JAX is needed.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

TYPE_COLORS = (
    *((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167)),
    *((230, 159, 0), (86, 180, 233), (240, 228, 66), (117, 76, 41)),
)
"""The color of each type of object, told apart by most color-blind people."""

_FLOOR, _WALL, _AGENT, _LINE = (255, 255, 255), (120, 120, 120), (0, 0, 0), (225, 225, 225)
_GOAL = (200, 30, 30)
_FINE = 4  # sub-pixels in each direction, so that edges are smooth


class GridFilm(NamedTuple):
    """What is to be drawn of an episode; NumPy or JAX arrays. Places are (row, column)."""

    walls: Any
    """Bool[rows, columns]."""
    objects: Any
    """Int[objects, 2]: where they are."""
    types: Any
    """Int[objects]: which color they have."""
    worth: Any
    """Float[objects]: only the sign is drawn."""
    goal: Any
    """Int[2]: the cell with a frame; (-1, -1) where there is none."""
    there: Any
    """Bool[frames, objects]: whether an object is still there."""
    agent: Any
    """Int[frames, 2]."""


def draw_frames(film: GridFilm, *, pixels: int = 16) -> UInt8[np.ndarray, "frames height width 3"]:
    """Draws every state of an episode, `pixels` to a cell.

    Example:
        >>> film = GridFilm(
        ...     np.array([[False, True]]), np.array([[0, 0]]), np.array([2]), np.array([1.0]),
        ...     np.array([-1, -1]), np.array([[True], [False]]), np.array([[0, 0], [0, 0]]),
        ... )
        >>> draw_frames(film, pixels=8).shape
        (2, 8, 16, 3)
    """
    if pixels < 4:
        raise ValueError(f"`pixels` of a cell must be at least 4; got {pixels}")
    film = GridFilm(*(np.asarray(part) for part in film))
    empty = _draw_map(film, pixels)
    disc, ring, diamond = (shape(pixels) for shape in (_disc, _ring, _diamond))
    frames = []
    for there, agent in zip(film.there, film.agent, strict=True):
        frame = empty.copy()
        for place, kind, worth, shown in zip(
            film.objects, film.types, film.worth, there, strict=True
        ):
            if shown:
                shape = disc if worth >= 0 else ring
                _lay(frame, place, shape, TYPE_COLORS[int(kind) % len(TYPE_COLORS)], pixels)
        _lay(frame, agent, diamond, _AGENT, pixels)
        frames.append(np.round(frame).astype(np.uint8))
    return np.stack(frames)


def _draw_map(film: GridFilm, pixels: int) -> np.ndarray:
    colors = np.where(film.walls[..., None], np.asarray(_WALL, float), np.asarray(_FLOOR, float))
    frame = np.repeat(np.repeat(colors, pixels, axis=0), pixels, axis=1)
    free = np.repeat(np.repeat(~film.walls, pixels, axis=0), pixels, axis=1)
    line = np.zeros(free.shape, bool)
    line[::pixels], line[:, ::pixels] = True, True
    frame[line & free] = _LINE
    if film.goal[0] >= 0:
        full = np.ones((pixels, pixels))
        full[2:-2, 2:-2] = 0.0
        _lay(frame, film.goal, full, _GOAL, pixels)
    return frame


def _lay(frame: np.ndarray, place: Any, shape: np.ndarray, color: Any, pixels: int) -> None:
    """Mixes a shape into a cell by the share of every pixel that it covers."""
    row, column = (int(number) * pixels for number in place)
    cell = frame[row : row + pixels, column : column + pixels]
    cell += shape[..., None] * (np.asarray(color, float) - cell)


def _disc(pixels: int) -> np.ndarray:
    return _covered(pixels, lambda x, y: np.hypot(x, y) < 0.4)


def _ring(pixels: int) -> np.ndarray:
    return _covered(pixels, lambda x, y: np.abs(np.hypot(x, y) - 0.32) < 0.08)


def _diamond(pixels: int) -> np.ndarray:
    return _covered(pixels, lambda x, y: np.abs(x) + np.abs(y) < 0.3)


def _covered(pixels: int, inside: Any) -> np.ndarray:
    place = (np.arange(pixels * _FINE) + 0.5) / (pixels * _FINE) - 0.5
    fine = inside(place[None], place[:, None]).astype(float)
    return fine.reshape(pixels, _FINE, pixels, _FINE).mean(axis=(1, 3))
