"""The process that simulates a range of items and leaves them in a file.

It is started as `python -m` in a folder that is thrown away, because the simulator writes a log
into the folder it runs in. A process started so does not import the caller's script again, and
does not share its threads.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from recombine.tasks.mujoco_returns._control_tasks import control_task
from recombine.tasks.mujoco_returns._simulate import simulate_items


def run(arguments: list[str]) -> None:
    """Makes the items from `first` up to `last` and writes them to `path`."""
    task, seed, split, first, last, path = arguments
    named: Any = split
    items = range(int(first), int(last))
    made = simulate_items(control_task(task), seed=int(seed), split=named, items=items)
    np.savez(Path(path), **made)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    run(sys.argv[1:])
