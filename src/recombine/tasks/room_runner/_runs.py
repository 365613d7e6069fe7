"""Many runs through many maps, made once and kept on disk in their compact form."""

import inspect
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from recombine.tasks.room_runner import _maps, _physics, _walls
from recombine.tasks.room_runner._maps import RoomMap, sample_map
from recombine.tasks.room_runner._physics import MOST_STEPS, STEPS_AFTER, simulate
from recombine.tasks.room_runner._render import draw_map, draw_runner
from recombine.tasks.trajectories import (
    Split,
    Trajectories,
    code_version,
    first_kept,
    item_generator,
    keep_or_make,
)


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

    def make() -> dict[str, np.ndarray]:
        return _make(num_items, seed, split, push_std)

    if keep:
        sources = [inspect.getfile(module) for module in (_maps, _walls, _physics)]
        sources.append(__file__)
        arrays = keep_or_make("room_runner", parameters, code_version(sources), make)
    else:
        arrays = make()
    fields = {name: arrays[name] for name in RoomRuns._fields if name != "maps"}
    maps: list[Any] = [arrays[f"map_{name}"] for name in RoomMap._fields]
    return RoomRuns(maps=RoomMap(*maps), **fields)


def render(runs: RoomRuns, *, time: int | None = None) -> Trajectories:
    """Draws every frame of every run: bytes of shape (items, time, 64, 64, 3).

    Args:
        runs: what to draw.
        time: frames per run, by default those of the longest; the last frame fills the rest.
    """
    lengths = runs.lengths
    longest = int(lengths.max())
    time = longest if time is None else time
    if time < longest:
        raise ValueError(f"`time` must be at least {longest}, the longest run; got {time}")
    frames = np.empty((len(lengths), time, 64, 64, 3), np.uint8)
    for item, length in enumerate(lengths):
        drawn = draw_runner(draw_map(runs.map_of(item)), runs.positions[item, :length])
        frames[item, :length] = drawn
        frames[item, length:] = drawn[-1]
    return Trajectories(frames, lengths, runs.labels)


def _make(num_items: int, seed: int, split: Split, push_std: float) -> dict[str, np.ndarray]:
    def try_items(items: np.ndarray, attempt: int) -> tuple[np.ndarray, Any]:
        generators = [item_generator(seed, split, int(item), attempt) for item in items]
        maps = [sample_map(generator) for generator in generators]
        shape = (MOST_STEPS + STEPS_AFTER, 2)
        pushes = None
        if push_std > 0:
            pushes = np.stack([push_std * g.standard_normal(shape) for g in generators])
        ways = simulate(maps, pushes)
        return ways.arrived, (maps, ways)

    def take(outcomes: Any, place: int) -> dict[str, np.ndarray]:
        maps, ways = outcomes
        room_map = maps[place]
        named = {f"map_{name}": np.asarray(value) for name, value in room_map._asdict().items()}
        way = {name: getattr(ways, name)[place] for name in ("positions", "velocities", "lengths")}
        return named | way

    kept, attempts = first_kept(num_items, try_items, take)
    return {
        **{name: np.stack([item[name] for item in kept]) for name in kept[0]},
        "attempts": attempts,
    }
