"""Runs rows on a Ray cluster: their seeds as tasks, their records as from this process."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from recombine.engines._ray_cluster import connect
from recombine.engines._ray_settings import RaySettings
from recombine.engines._ray_tasks import RaySweep
from recombine.engines._requests import RowOutcome, RunRequest, check_all_differ
from recombine.engines._sweep_rows import SweepRow, outcomes_of, run_all
from recombine.engines._sweep_view import SilentView, make_view


def run_on_ray(
    requests: Sequence[RunRequest],
    runs: str | Path,
    *,
    settings: RaySettings | None = None,
    plugins: Sequence[str] = (),
    progress: bool = True,
    on_end: Callable[[RowOutcome], None] = lambda _: None,
    checkpoint_seconds: float = 30.0,
) -> list[RowOutcome]:
    """Runs rows on a Ray cluster; what is done already is not run again, the rest resumes.

    The records are those of `run_row`: same folders, same hashes and, on the same kind of device
    with the same seeds in a task, the same numbers. A worker or node that dies costs the time since
    its last checkpoint. A row that fails is not tried again and does not stop the others.

    Args:
        requests: what to run.
        runs: the folder of all runs, which every node must have under the same path.
        settings: where tasks run, and what each gets; a cluster on this machine by default.
        plugins: the modules or files that the rows come from, to be loaded by the workers too.
        progress: whether to show the progress of all workers, in one view.
        on_end: told of every row as soon as it has ended.
        checkpoint_seconds: how often to save.

    Returns:
        An outcome for each request, in their order.

    Raises:
        ValueError: a run is asked for twice, or with a variant that workers cannot make again.
        ClusterError: the cluster cannot be reached, or cannot do what is asked; nothing was begun.
        SweepStoppedError: Ctrl-C; the same call resumes.
        RunFailedError: no node is left that could go on.
    """
    check_all_differ(requests)
    settings = settings or RaySettings()
    runs = Path(runs).absolute()
    rows = [SweepRow(request, runs, plugins, on_end, checkpoint_seconds) for request in requests]
    open_rows = [row for row in rows if not row.is_done_already()]
    is_stopped = False
    if open_rows:
        from recombine.training import StopRequest

        view = make_view() if progress else SilentView()
        with connect(settings, runs) as cluster, StopRequest() as stop:
            per_task = settings.seeds_per_task or ("all" if cluster.gpus_per_task else 1)
            with contextlib.ExitStack() as held, view:
                sweep = RaySweep(cluster, view, stop)
                run_all(open_rows, sweep, per_task, held)
            is_stopped = sweep.is_stopped
    return outcomes_of(rows, is_stopped=is_stopped)
