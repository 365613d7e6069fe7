"""Runs rows on a Ray cluster: their seeds as tasks, their records as from this process."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recombine.engines._local import run_row
from recombine.engines._parts import (
    Plan,
    join_parts,
    make_plan,
    read_or_none,
    read_plan,
    run_part,
    write_failure,
    write_plan,
    write_unfinished,
)
from recombine.engines._ray_cluster import connect
from recombine.engines._ray_settings import RaySettings
from recombine.engines._ray_tasks import Answer, Job, Sweep
from recombine.engines._ray_view import RowState, SilentView, View, make_view
from recombine.engines._requests import RowOutcome, RunFailedError, RunRequest
from recombine.results import Record, RunFolder, RunHeldError


class SweepStoppedError(RuntimeError):
    """Ctrl-C while a cluster was at work; what is finished is finished, the rest resumes."""


@dataclass(frozen=True)
class Order:
    """A request in plain data, from which a worker makes the request again."""

    row: str
    variant: str
    seeds: tuple[int, ...]
    changes: tuple[str, ...]
    plugins: tuple[str, ...]
    folder: str  # its name; the worker must arrive at the same

    @classmethod
    def of(cls, request: RunRequest, plugins: Sequence[str]) -> "Order":
        """Describes a request."""
        return cls(
            row=request.row.id,
            variant=request.variant_name,
            seeds=request.seeds,
            changes=tuple(f"{name}={json.dumps(v)}" for name, v in request.changed.items()),
            plugins=tuple(os.path.abspath(p) if Path(p).is_file() else p for p in plugins),
            folder=request.folder("").path.name,
        )

    def request(self) -> RunRequest:
        """Makes the request again, with the plugins loaded."""
        from recombine.experiments import find_row, load_systems

        row = find_row(self.row, load_systems(self.plugins))
        made = RunRequest.of(row, self.variant, changes=self.changes)
        made = dataclasses.replace(made, seeds=self.seeds)
        if made.folder("").path.name != self.folder:
            raise RunFailedError(
                f"{self.row}: a worker reads its settings in another way than the process that "
                f"asked for them; install the same version of recombine, and of plugins, on every "
                f"node"
            )
        return made


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
        ClusterError: the cluster cannot be reached, or cannot do what is asked; nothing was begun.
        SweepStoppedError: Ctrl-C; the same call resumes.
        RunFailedError: no node is left that could go on.
    """
    settings = settings or RaySettings()
    runs = Path(runs).absolute()
    rows = [_RowOnRay(request, runs, plugins, on_end, checkpoint_seconds) for request in requests]
    open_rows = [row for row in rows if not row.is_done_already()]
    if open_rows:
        from recombine.training import StopRequest

        view = make_view() if progress else SilentView()
        with connect(settings, runs) as cluster, StopRequest() as stop:
            per_task = settings.seeds_per_task or (None if cluster.gpus_per_task else 1)
            with contextlib.ExitStack() as held, view:
                sweep = Sweep(cluster, view, stop)
                _run_all(open_rows, sweep, view, per_task, held)
            if sweep.is_stopped:
                done = sum(row.outcome is not None and not row.outcome.error for row in rows)
                raise SweepStoppedError(
                    f"stopped as asked; {done} of {len(rows)} rows are done, the same command "
                    f"resumes the rest"
                )
    return [row.outcome or RowOutcome(row.request, None, "its task was stopped") for row in rows]


def _run_all(
    rows: "Iterable[_RowOnRay]",
    sweep: Sweep,
    view: View,
    per_task: int | None,
    held: contextlib.ExitStack,
) -> None:
    rows = list(rows)
    for wait in (False, True):  # what another process is running is left for last
        for row in rows:
            if row.outcome is None and not sweep.is_stopped:
                for job in row.start(sweep, view, per_task, held, wait=wait):
                    sweep.submit(job)
        sweep.run()


class _RowOnRay:
    """One row on its way through the cluster, as one task or cut into several."""

    def __init__(
        self,
        request: RunRequest,
        runs: Path,
        plugins: Sequence[str],
        on_end: Callable[[RowOutcome], None],
        checkpoint_seconds: float,
    ):
        self.request = request
        self.folder = request.folder(runs)
        self.outcome: RowOutcome | None = None
        self._order = Order.of(request, plugins)
        self._runs = runs
        self._on_end = on_end
        self._saving = checkpoint_seconds
        self._state: RowState | None = None

    def is_done_already(self) -> bool:
        """Looks for a finished record, and takes it as the outcome."""
        record = read_or_none(self.folder)
        if record is None or not record.is_done:
            return False
        self._finish(record)
        return True

    def start(
        self,
        sweep: Sweep,
        view: View,
        per_task: int | None,
        held: contextlib.ExitStack,
        *,
        wait: bool,
    ) -> Iterator[Job]:
        """Yields the first jobs; none when somebody else is at it and is not to be waited for."""
        self._sweep = sweep
        self._state = RowState(self.request.row.id, self.request.variant.steps * len(self._seeds))
        sweep.rows[str(self.folder.path)] = self._state
        plan = read_plan(self.folder) or self._new_plan(view, per_task)
        if len(plan) == 1 and not read_plan(self.folder):
            yield self._job(self.request.row.id, run_whole, (wait,), self._whole_ended)
            return
        try:
            # Released when the row has ended, or with the rest should something break.
            self._hold = held.enter_context(contextlib.ExitStack())
            self._hold.enter_context(
                self.folder.claim(
                    wait=wait, on_wait=lambda who: view.say(f"{self._order.row}: waiting for {who}")
                )
            )
        except RunHeldError:
            return
        if self.is_done_already():  # by the one that was waited for
            self._hold.close()
            return
        plan = read_plan(self.folder) or plan  # somebody may have cut it before us
        write_plan(self.folder, plan)
        self._plan = plan
        self._answers: list[Answer] = []
        self._parts = [
            self._job(
                f"{self._order.row}, {_named(seeds)}", run_one_part, (seeds,), self._part_ended
            )
            for seeds in plan
        ]
        yield from self._parts

    @property
    def _seeds(self) -> tuple[int, ...]:
        return self.request.seeds

    def _new_plan(self, view: View, per_task: int | None) -> Plan:
        plan = make_plan(self._seeds, per_task or len(self._seeds))
        if len(plan) > 1 and self.folder.checkpoints.is_dir():
            view.say(f"{self._order.row}: begun by one process, so one task goes on with all seeds")
            return (self._seeds,)
        return plan

    def _job(
        self,
        title: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        on_end: Callable[[Answer], Iterable[Job]],
    ) -> Job:
        return Job(
            row=str(self.folder.path),
            title=title,
            function=function,
            arguments=(self._order, self._runs, self._saving, *arguments),
            on_end=on_end,
            metric=self.request.row.metric.name,
        )

    def _whole_ended(self, answer: Answer) -> Iterator[Job]:
        if answer.kind == "done":
            self._finish(answer.value)
        elif answer.kind == "failed":
            write_failure(self.folder, answer.text)
            self._fail(answer.text)
        yield from ()

    def _part_ended(self, answer: Answer) -> Iterator[Job]:
        self._answers.append(answer)
        failed = [one for one in self._answers if one.kind == "failed"]
        if failed and answer is failed[0]:
            self._sweep.stop(self._parts)
        if len(self._answers) < len(self._parts):
            return
        if all(one.kind == "done" for one in self._answers):
            yield self._job(f"{self._order.row}, joining", join, (self._plan,), self._joined)
            return
        why = failed[0].text if failed else None
        write_unfinished(self.request, self.folder, self._plan, error=why)
        self._hold.close()
        if why:
            self._fail(why)

    def _joined(self, answer: Answer) -> Iterator[Job]:
        self._hold.close()
        yield from self._whole_ended(answer)

    def _finish(self, record: Record) -> None:
        self._end(RowOutcome(self.request, record))

    def _fail(self, error: str) -> None:
        row = self.request.row.id
        self._end(
            RowOutcome(self.request, None, error if error.startswith(row) else f"{row}: {error}")
        )

    def _end(self, outcome: RowOutcome) -> None:
        self.outcome = outcome
        if self._state is not None:
            self._state.is_over = True
        self._on_end(outcome)


def run_whole(
    order: Order, runs: Path, checkpoint_seconds: float, wait: bool, *, progress: Any
) -> Record:
    """Runs in a worker: all seeds of a row, as in a process of its own."""
    return run_row(
        order.request(),
        runs,
        progress=progress,
        wait=wait,
        on_wait=lambda who: progress.tell(waiting=who, at_once=True),
        checkpoint_seconds=checkpoint_seconds,
    )


def run_one_part(
    order: Order, runs: Path, checkpoint_seconds: float, seeds: tuple[int, ...], *, progress: Any
) -> None:
    """Runs in a worker: some of the seeds of a row."""
    request = order.request()
    folder: RunFolder = request.folder(runs)
    run_part(request, folder, seeds, progress=progress, checkpoint_seconds=checkpoint_seconds)


def join(
    order: Order, runs: Path, checkpoint_seconds: float, plan: Plan, *, progress: Any
) -> Record:
    """Runs in a worker: makes one record of all parts, of which the caller holds the folder."""
    request = order.request()
    return join_parts(request, request.folder(runs), plan)


def _named(seeds: tuple[int, ...]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]}-{seeds[-1]}"
