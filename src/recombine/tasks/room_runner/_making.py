"""Makes many runs through many maps, as arrays."""

from typing import Any

import numpy as np

from recombine.tasks.room_runner._maps import sample_map
from recombine.tasks.room_runner._physics import MOST_STEPS, STEPS_AFTER, simulate
from recombine.tasks.trajectories import Split, first_kept, item_generator


def make_runs(
    num_items: int, seed: int, split: Split, push_std: float, cells: int
) -> dict[str, np.ndarray]:
    """Returns runs that reached their final room in time, each the first of its item that did."""

    def try_items(items: np.ndarray, attempt: int) -> tuple[np.ndarray, Any]:
        generators = [item_generator(seed, split, int(item), attempt) for item in items]
        maps = [sample_map(generator, cells) for generator in generators]
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
