"""Runs one row in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from recombine.engines._parts import (
    Plan,
    join_parts,
    read_or_none,
    read_plan,
    run_part,
    write_unfinished,
)
from recombine.engines._requests import RunFailedError, RunRequest
from recombine.engines._training import train_into
from recombine.results import Record, RunFolder


def run_row(
    request: RunRequest,
    runs: str | Path,
    *,
    progress: Any = True,
    wait: bool = True,
    on_wait: Callable[[str], None] = lambda _: None,
    checkpoint_seconds: float = 30.0,
) -> Record:
    """Runs a row, or resumes it, or returns its record when it is done already.

    Args:
        request: what to run.
        runs: the folder of all runs.
        progress: as for `fit`.
        wait: whether to wait when another process is running the same; otherwise it is an error.
        on_wait: told who is waited for.
        checkpoint_seconds: how often to save.

    Raises:
        RunFailedError: training failed; the record keeps what there was.
        Interrupted: Ctrl-C; the same request resumes.
    """
    folder = request.folder(runs)
    with folder.claim(wait=wait, on_wait=on_wait):
        before = read_or_none(folder)  # a damaged record is written again
        if before is not None and before.is_done:
            return before
        settings: Any = {"progress": progress, "checkpoint_seconds": checkpoint_seconds}
        if plan := read_plan(folder):  # workers have begun it
            return _run_parts(request, folder, plan, **settings)
        return train_into(request, folder, before, **settings)


def _run_parts(request: RunRequest, folder: RunFolder, plan: Plan, **settings: Any) -> Record:
    """Goes on where workers have stopped, one part after the other."""
    from recombine.training import Interrupted

    try:
        for seeds in plan:
            run_part(request, folder, seeds, **settings)
    except (RunFailedError, Interrupted):
        write_unfinished(request, folder, plan)
        raise
    return join_parts(request, folder, plan)
