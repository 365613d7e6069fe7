"""Many runs through many maps, made once and kept on disk in their compact form."""

import inspect
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from recombine.tasks.room_runner import _making, _maps, _physics, _walls
from recombine.tasks.room_runner._making import make_runs
from recombine.tasks.room_runner._maps import RoomMap
from recombine.tasks.room_runner._render import IMAGE_SIZE, draw_map, draw_runner
from recombine.tasks.trajectories import Split, Trajectories, code_version, keep_or_make
from recombine.tasks.trajectories._padding import draw_all, padded_index


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
        keep: whether to use the cache folder.
    """
    if num_items < 1:
        raise ValueError(f"`num_items` must be at least 1; got {num_items}")
    if push_std < 0:
        raise ValueError(f"`push_std` is a standard deviation, at least 0; got {push_std}")
    parameters = {"num_items": num_items, "seed": seed, "split": split, "push_std": push_std}

    sources = [inspect.getfile(module) for module in (_maps, _walls, _physics, _making)]
    arrays = keep_or_make(
        "room_runner",
        parameters,
        code_version(sources),
        lambda: make_runs(num_items, seed, split, push_std),
        keep=keep,
    )
    fields = {name: arrays[name] for name in RoomRuns._fields if name != "maps"}
    maps: list[Any] = [arrays[f"map_{name}"] for name in RoomMap._fields]
    return RoomRuns(maps=RoomMap(*maps), **fields)


def render(runs: RoomRuns, *, time: int | None = None) -> Trajectories:
    """Draws every frame of every run: bytes of shape (items, time, 64, 64, 3).

    Args:
        runs: what to draw.
        time: frames per run, by default those of the longest; the last frame fills the rest.
    """
    index = padded_index(runs.lengths, time, what="run")

    def draw(item: int) -> UInt8[np.ndarray, "frames 64 64 3"]:
        positions = runs.positions[item, : runs.lengths[item]]
        return draw_runner(draw_map(runs.map_of(item)), positions)

    frames = draw_all(draw, index, (IMAGE_SIZE, IMAGE_SIZE, 3))
    return Trajectories(frames, runs.lengths, runs.labels)
