"""Tasks of a Ray cluster: handed out, watched, started again where a worker died."""

import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recombine.engines._ray_board import TaskProgress, make_board
from recombine.engines._ray_checks import not_shared
from recombine.engines._ray_cluster import RayCluster
from recombine.engines._ray_settings import import_ray
from recombine.engines._requests import RunFailedError
from recombine.engines._sweep_view import View
from recombine.engines._sweeps import POLL_SECONDS, Answer, Job, Sweep, answer_of

if TYPE_CHECKING:
    from recombine.training import StopRequest

NO_ROOM_SECONDS = 30.0
"""How long to wait for a node when none is left that can hold a task."""


class RaySweep(Sweep):
    """A sweep whose jobs are tasks of a cluster."""

    def __init__(self, cluster: RayCluster, view: View, stop: "StopRequest"):
        super().__init__(view, stop, cluster.retries)
        self._ray = import_ray()
        self._cluster = cluster
        self._board = make_board(self._ray)
        self._work = self._ray.remote(work)
        self._running: dict[Any, Job] = {}
        self._had_room = time.monotonic()

    def submit(self, jobs: Iterable[Job], *, first: bool = False) -> None:
        """Hands jobs to Ray, which starts them when there is room, in an order of its own."""
        for job in jobs:
            self.rows[job.row].jobs[job.id] = {}
            gpus, marker = self._cluster.gpus_per_task, self._cluster.marker
            reference = self._work.options(**self._cluster.task_options).remote(
                job.function, job.arguments, self._board, job.id, job.metric, gpus, marker
            )
            self._running[reference] = job

    def open_jobs(self) -> list[Job]:
        """Returns the jobs that have not ended."""
        return list(self._running.values())

    def run(self) -> None:
        """Waits until all jobs have ended. After Ctrl-C those at work save, and no more begin."""
        self.obey()
        while self._running:
            ended, _ = self._ray.wait(
                list(self._running), num_returns=len(self._running), timeout=POLL_SECONDS
            )
            self._read_board()
            for reference in ended:
                self.end(self._running.pop(reference), self._collect(reference))
            self.obey()
            at_work = sum(self._has_begun(job) for job in self._running.values())
            self.view.show(self.rows, at_work)
            if self._running and not at_work:
                self._check_room()
            else:
                self._had_room = time.monotonic()

    def _call_off(self, jobs: set[Job]) -> None:
        chosen = {job.id for job in jobs}
        self._board.stop.remote(chosen)
        for reference, job in self._running.items():
            if job.id in chosen and not self._has_begun(job):
                self._ray.cancel(reference)

    def _has_begun(self, job: Job) -> bool:
        return bool(self.rows[job.row].jobs[job.id].get("host"))

    def _collect(self, reference: Any) -> Answer:
        """Returns how a task ended: what it says, or what Ray says of it."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.TaskCancelledError:
            return Answer("stopped")
        except (errors.RayTaskError, errors.RuntimeEnvSetupError) as error:
            return Answer("failed", text=str(error).strip().splitlines()[-1])
        except errors.RayError as error:  # the worker, its node, or its memory
            return Answer("died", text=type(error).__name__)

    def _read_board(self) -> None:
        """Hands the news of the tasks to their rows; without a board the work goes on unseen."""
        try:
            news = self._ray.get(self._board.read.remote())
        except self._ray.exceptions.RayError:
            return
        known = {job.id: self.rows[job.row] for job in self._running.values()}
        for job, what in news.items():
            if job in known:
                known[job].jobs[job].update(what)

    def _check_room(self) -> None:
        """Gives up when tasks wait for a node that nobody brings back."""
        if self._cluster.has_room():
            self._had_room = time.monotonic()
        elif time.monotonic() - self._had_room > NO_ROOM_SECONDS:
            raise RunFailedError(
                f"no node is left with {self._cluster.cpus_per_task:g} CPUs and "
                f"{self._cluster.gpus_per_task:g} GPUs for a task. Finished work is kept; bring "
                f"the node back, and the same command resumes the rest."
            )


def work(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    board: Any,
    job: str,
    metric: str | None,
    gpus: float,
    marker: Path,
) -> Answer:
    """Runs in a worker: does a job, and says in words what became of it."""
    progress = TaskProgress(board, job, metric)
    progress.tell(host=socket.gethostname(), at_once=True)

    def do() -> Any:
        if not marker.exists():  # a node that came after the check
            raise not_shared(socket.gethostname(), marker.parent, "it is another one there")
        if gpus:
            check_gpu()
        return function(*arguments, progress=progress)

    return answer_of(do)


def check_gpu() -> None:
    """JAX without its CUDA plugin would train on the CPU, and say nothing."""
    import jax

    if jax.default_backend() == "cpu":
        raise RunFailedError(
            f"the task has a GPU of the node {socket.gethostname()}, but JAX does not see it; "
            f"install recombine[cuda] there, or run with `--gpus-per-task 0`"
        )
