"""Many runs through many maps, made once and kept on disk in their compact form."""

import inspect
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from recombine.tasks.room_runner import _making, _maps, _physics, _walls
from recombine.tasks.room_runner._making import make_runs
from recombine.tasks.room_runner._maps import SIZE, RoomMap, middle_cells
from recombine.tasks.room_runner._render import IMAGE_SIZE, PIXELS, draw_map, draw_runner
from recombine.tasks.trajectories import (
    Split,
    Trajectories,
    _streams,
    code_version,
    keep_or_make,
)
from recombine.tasks.trajectories._padding import draw_all, padded_index

SOURCES = tuple(map(inspect.getfile, (_maps, _walls, _physics, _making, _streams)))
"""All files of ours that decide what runs there are: kept ones are those of this code."""


class RoomRuns(NamedTuple):
    """Runs that reached their final room in time."""

    maps: RoomMap
    """Every field with a leading axis of items."""
    positions: Float[np.ndarray, "items time 2"]
    """(row from below, column), in cells; meaningful up to each run's length."""
    velocities: Float[np.ndarray, "items time 2"]
    lengths: Int[np.ndarray, " items"]
    attempts: Int[np.ndarray, " items"]
    """How many maps of each item were given up before, because the runner was late."""
    cells: int = SIZE
    """Rooms are kept to so many cells in each direction, which are all that is drawn."""

    @property
    def labels(self) -> Int[np.ndarray, " items"]:
        """0 where the run ends in the red room, 1 where in the blue one."""
        return np.asarray(self.maps.label, np.int32)

    def map_of(self, item: int) -> RoomMap:
        """Returns the map of one run."""
        fields: list[Any] = [np.asarray(field)[item] for field in self.maps]
        return RoomMap(*(int(field) if field.ndim == 0 else field for field in fields))  # pyright: ignore[reportArgumentType]


def load_runs(
    num_items: int = 500,
    *,
    seed: int = 0,
    split: Split = "train",
    push_std: float = 0.0,
    cells: int = SIZE,
    keep: bool = True,
) -> RoomRuns:
    """Returns runs through rooms, made now or read from the cache folder.

    Item `i` is the same whatever else is asked for; splits share no item.

    Args:
        num_items: how many runs.
        seed: of the data set.
        split: of the data set: "train", "validation" or "test".
        push_std: of Gaussian forces in every step and direction. The thesis describes such noise;
            the authors' generator has none, only a hidden speed for every room. 2 is a fair choice.
        cells: rooms are kept to so many cells in each direction. Fewer than the 16 of the thesis
            make maps of fewer rooms, shorter runs and smaller frames.
        keep: whether to use the cache folder.
    """
    if num_items < 1:
        raise ValueError(f"`num_items` must be at least 1; got {num_items}")
    if push_std < 0:
        raise ValueError(f"`push_std` is a standard deviation, at least 0; got {push_std}")
    middle_cells(cells)  # refuses a number that cannot be
    parameters = {"num_items": num_items, "seed": seed, "split": split, "push_std": push_std}
    if cells != SIZE:
        parameters["cells"] = cells

    arrays = keep_or_make(
        "room_runner",
        parameters,
        code_version(SOURCES),
        lambda: make_runs(num_items, seed, split, push_std, cells),
        keep=keep,
    )
    names = [name for name in RoomRuns._fields if name not in ("maps", "cells")]
    maps: list[Any] = [arrays[f"map_{name}"] for name in RoomMap._fields]
    return RoomRuns(RoomMap(*maps), **{name: arrays[name] for name in names}, cells=cells)


def render(runs: RoomRuns, *, time: int | None = None) -> Trajectories:
    """Draws every frame of every run: bytes of shape (items, time, 64, 64, 3).

    With fewer than 16 cells only those are drawn, 4 pixels to a cell.

    Args:
        runs: what to draw.
        time: frames per run, by default those of the longest; the last frame fills the rest.
    """
    index = padded_index(runs.lengths, time, what="run")
    inside = middle_cells(runs.cells)
    columns = slice(inside.start * PIXELS, inside.stop * PIXELS)
    rows = slice(IMAGE_SIZE - columns.stop, IMAGE_SIZE - columns.start)  # from above

    def draw(item: int) -> UInt8[np.ndarray, "frames height width 3"]:
        positions = runs.positions[item, : runs.lengths[item]]
        return draw_runner(draw_map(runs.map_of(item)), positions)[:, rows, columns]

    side = runs.cells * PIXELS
    frames = draw_all(draw, index, (side, side, 3))
    return Trajectories(frames, runs.lengths, runs.labels)
