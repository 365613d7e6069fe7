"""Items made by several processes at once."""

import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np

import recombine
from recombine.tasks.mujoco_returns._control_tasks import ControlTask
from recombine.tasks.trajectories import Split

NEEDED = ("gymnasium", "mujoco", "imageio", "packaging")  # the last two to make an environment
LEAST_ITEMS = 50  # for a process to be worth its start, which takes a second or two


class SimulatorMissingError(ImportError):
    """The simulator is not installed; the message names the extra that brings it."""


def simulate_in_processes(
    task: ControlTask, *, num_items: int, seed: int, split: Split, num_processes: int | None
) -> dict[str, np.ndarray]:
    """Makes items in processes of their own, and returns them in their order.

    Raises:
        SimulatorMissingError: Gymnasium or MuJoCo is not installed.
        RuntimeError: a process failed; with the end of what it said.
    """
    check_simulator(task)
    most = max(1, num_items // LEAST_ITEMS)
    num_processes = min(most, num_processes or _usable_cores())
    bounds = np.linspace(0, num_items, num_processes + 1).astype(int)
    with tempfile.TemporaryDirectory(prefix="recombine-mujoco-") as folder:
        ranges = list(itertools.pairwise(bounds))
        parts = [Path(folder) / f"{first}.npz" for first, _ in ranges]
        _run_all(
            [
                [task.name, str(seed), split, str(first), str(last), str(part)]
                for (first, last), part in zip(ranges, parts, strict=True)
            ],
            folder,
        )
        made = []
        for part in parts:
            with np.load(part, allow_pickle=False) as arrays:
                made.append({name: arrays[name] for name in arrays.files})
    joined = {name: np.concatenate([part[name] for part in made]) for name in made[0]}
    return joined | {"versions": np.asarray(simulator_versions())}


def check_simulator(task: ControlTask) -> None:
    """Refuses to go on without the simulator, before any process is started."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        from recombine._cache_folder import cache_folder

        raise SimulatorMissingError(
            f"making the data of {task.environment} needs Gymnasium and MuJoCo; not installed: "
            f"{', '.join(missing)}. Install the extra: pip install 'recombine[mujoco]'. Or make "
            f"the data where it is installed and copy the files into "
            f"{cache_folder() / 'mujoco_returns'}."
        )


def simulator_versions() -> list[str]:
    """Returns name and version of what the data depend on."""
    return [f"{name} {metadata.version(name)}" for name in ("gymnasium", "mujoco", "numpy")]


def _run_all(calls: list[list[str]], folder: str) -> None:
    command = [sys.executable, "-m", "recombine.tasks.mujoco_returns._worker"]
    paths = [str(Path(recombine.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    running: list[subprocess.Popen[bytes]] = []
    try:
        for number, call in enumerate(calls):
            # Not a pipe: one that nobody reads yet could fill up and hold the process.
            with (Path(folder) / f"{number}.txt").open("wb") as said:
                running.append(
                    subprocess.Popen(
                        command + call, cwd=folder, env=surroundings, stdout=said, stderr=said
                    )
                )
        for number, process in enumerate(running):
            if process.wait() != 0:
                said = (Path(folder) / f"{number}.txt").read_text(errors="replace")
                raise RuntimeError(
                    f"a simulating process failed with status {process.returncode}; it said:\n"
                    f"{said[-2000:]}"
                )
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
