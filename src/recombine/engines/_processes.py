"""Runs rows and their seeds in processes of this machine, with records as from one process."""

import contextlib
import math
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recombine.engines._process_links import PYTHON, python_path
from recombine.engines._process_sweep import ProcessSweep
from recombine.engines._requests import (
    RowOutcome,
    RunFailedError,
    RunRequest,
    check_all_differ,
)
from recombine.engines._sweep_rows import SweepRow, outcomes_of, run_all
from recombine.engines._sweep_view import SilentView, make_view
from recombine.engines._worker_environment import worker_environment

MEMORY_OF_ALL = 0.9
"""The share of a GPU's memory that all workers take together."""

MEMORY_SETTINGS = (
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
)
"""Whoever sets one of these shares the memory out himself."""


@dataclass(frozen=True)
class ProcessSettings:
    """How many processes work at once, and what each of them gets.

    Args:
        workers: how many processes work at once; by default as many as there are cores, but one
            on a GPU; never more than there are parts of runs. They share the cores, and the memory
            of a GPU.
        seeds_per_task: how many seeds of a run one process trains; by default one, but all where
            they share one program (on a GPU, for most learners).
        retries: how often a task is started again after its process died.
    """

    workers: int | None = None
    seeds_per_task: int | None = None
    retries: int = 5

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("seeds_per_task", 1), ("retries", 0)):
            given = getattr(self, name)
            if given is not None and (not isinstance(given, int) or given < least):
                raise ValueError(f"`{name}` is a whole number, at least {least}; got {given}")


def run_in_processes(
    requests: Sequence[RunRequest],
    runs: str | Path,
    *,
    settings: ProcessSettings | None = None,
    plugins: Sequence[str] = (),
    progress: bool = True,
    on_end: Callable[[RowOutcome], None] = lambda _: None,
    checkpoint_seconds: float = 30.0,
) -> list[RowOutcome]:
    """Runs rows in processes of this machine; what is done is not run again, the rest resumes.

    The records are those of `run_row`: same folders, same hashes and, with the same seeds in a
    task, the same numbers. Every task is a process of its own, which ends with this one. One that
    dies is started again, and costs the time since its last checkpoint. A row that fails is not
    tried again and does not stop the others.

    On a GPU this process must not have used JAX before: it would hold the memory.

    Args:
        requests: what to run.
        runs: the folder of all runs.
        settings: how many processes, and what each gets.
        plugins: the modules or files that the rows come from, to be loaded by the workers too.
        progress: whether to show the progress of all workers, in one view.
        on_end: told of every row as soon as it has ended.
        checkpoint_seconds: how often to save.

    Returns:
        An outcome for each request, in their order.

    Raises:
        ValueError: a run is asked for twice, or with a variant that workers cannot make again.
        SweepStoppedError: Ctrl-C; the same call resumes.
        RunFailedError: a process cannot be started; those at work save, and the same call resumes.
    """
    check_all_differ(requests)
    settings = settings or ProcessSettings()
    runs = Path(runs).absolute()
    rows = [SweepRow(request, runs, plugins, on_end, checkpoint_seconds) for request in requests]
    open_rows = [row for row in rows if not row.is_done_already()]
    is_stopped = False
    if open_rows:
        from recombine.training import StopRequest

        backend = backend_of_workers()
        most = settings.workers or (num_cores() if backend == "cpu" else 1)
        per_task = settings.seeds_per_task or (1 if backend == "cpu" else "ask")
        workers = min(most, sum(row.most_parts(per_task) for row in open_rows))
        environment = share_of_machine(backend, workers)
        view = make_view() if progress else SilentView()
        with (
            StopRequest() as stop,
            contextlib.ExitStack() as held,
            view,
            ProcessSweep(workers, backend, environment, view, stop, settings.retries) as sweep,
        ):
            run_all(open_rows, sweep, per_task, held)
            is_stopped = sweep.is_stopped
    return outcomes_of(rows, is_stopped=is_stopped)


def backend_of_workers() -> str:
    """Returns what JAX would run on, as another process sees it.

    Looking here would take the GPU's memory, which is for the workers.
    """
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return "cpu"
    asked = subprocess.run(
        [*PYTHON, "-c", "import jax; print(jax.default_backend())"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": python_path(), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    )
    if asked.returncode:
        why = (asked.stderr.strip() or f"exit code {asked.returncode}").splitlines()[-1]
        raise RunFailedError(f"JAX cannot be started in a process of its own: {why}")
    return asked.stdout.split()[-1]


def share_of_machine(
    backend: str, workers: int, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Returns the variables that give each worker its share of the cores and of a GPU's memory.

    Example:
        >>> share_of_machine("gpu", 4, {"NPROC": "2"})
        {'NPROC': '2', 'XLA_PYTHON_CLIENT_MEM_FRACTION': '0.225'}
    """
    gpus = 0 if backend == "cpu" else 1
    known = worker_environment(gpus, math.ceil(num_cores() / workers), environment)
    if gpus and workers > 1 and not any(known.get(name) for name in MEMORY_SETTINGS):
        known["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{MEMORY_OF_ALL / workers:.3g}"
    return known


def num_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
