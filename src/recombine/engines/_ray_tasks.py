"""Tasks of a Ray cluster: handed out, watched, started again where a worker died."""

import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from recombine.engines._ray_board import TaskProgress, make_board
from recombine.engines._ray_checks import not_shared
from recombine.engines._ray_cluster import RayCluster
from recombine.engines._ray_settings import import_ray
from recombine.engines._ray_view import RowState, View
from recombine.engines._requests import RunFailedError

if TYPE_CHECKING:
    from recombine.training import StopRequest

POLL_SECONDS = 0.1
NO_ROOM_SECONDS = 30.0
"""How long to wait for a node when none is left that can hold a task."""


class Answer(NamedTuple):
    """How a task ended. Errors travel as words: not all of them survive the way."""

    kind: Literal["done", "failed", "held", "stopped", "died"]
    value: Any = None
    text: str = ""


@dataclass
class Job:
    """A piece of work for one task.

    Args:
        row: the row that it belongs to, for the view.
        title: how to call it.
        function: called in a worker as `function(*arguments, progress=...)`.
        arguments: plain data.
        on_end: told how it ended; returns the jobs that follow from it.
        metric: the metric to show.
    """

    row: str
    title: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    on_end: Callable[[Answer], Iterable["Job"]]
    metric: str | None = None
    deaths: int = field(default=0, init=False)

    @property
    def id(self) -> str:
        """A name on the board that no other job has."""
        return f"{self.title} #{id(self)}"


class Sweep:
    """Everything that is to be done in one go."""

    def __init__(self, cluster: RayCluster, view: View, stop: "StopRequest"):
        self._ray = import_ray()
        self._cluster = cluster
        self._view = view
        self._stop = stop
        self._board = make_board(self._ray)
        self._work = self._ray.remote(work)
        self._running: dict[Any, Job] = {}
        self._had_room = time.monotonic()
        self.rows: dict[str, RowState] = {}
        self.is_stopped = False

    def submit(self, job: Job) -> None:
        """Hands a job to Ray, which starts it when there is room."""
        self.rows[job.row].jobs[job.id] = {}
        gpus = self._cluster.gpus_per_task
        reference = self._work.options(**self._cluster.task_options).remote(
            job.function, job.arguments, self._board, job.id, job.metric, gpus, self._cluster.marker
        )
        self._running[reference] = job

    def run(self) -> None:
        """Waits until all jobs have ended. After Ctrl-C those at work save, and no more begin."""
        while self._running:
            ended, _ = self._ray.wait(
                list(self._running), num_returns=len(self._running), timeout=POLL_SECONDS
            )
            self._read_board()
            for reference in ended:
                self._end(self._running.pop(reference), self._collect(reference))
            if self._stop.asked and not self.is_stopped:
                self.is_stopped = True
                self._view.say(
                    "stopping: tasks save after the chunk they are at; Ctrl-C again stops now"
                )
                self.stop(list(self._running.values()))
            at_work = sum(self._has_begun(job) for job in self._running.values())
            self._view.show(self.rows, at_work)
            if self._running and not at_work:
                self._check_room()
            else:
                self._had_room = time.monotonic()

    def stop(self, jobs: Iterable[Job]) -> None:
        """Asks jobs to stop: those at work after their chunk, the others before they begin."""
        chosen = {job.id for job in jobs}
        self._board.stop.remote(chosen)
        for reference, job in self._running.items():
            if job.id in chosen and not self._has_begun(job):
                self._ray.cancel(reference)

    def _has_begun(self, job: Job) -> bool:
        return bool(self.rows[job.row].jobs[job.id].get("host"))

    def _end(self, job: Job, answer: Answer) -> None:
        if answer.kind == "died":
            if self.is_stopped:
                answer = Answer("stopped", text=answer.text)
            elif job.deaths >= self._cluster.retries:
                answer = Answer(
                    "failed",
                    text=f"{job.title}: its worker died {job.deaths + 1} times, the last time with "
                    f"{answer.text}. The last checkpoint is kept; the same command resumes it.",
                )
            else:
                job.deaths += 1
                host = self.rows[job.row].jobs[job.id].get("host") or "a node"
                self._view.say(
                    f"{job.title}: its worker on {host} died ({answer.text}); started again from "
                    f"its last checkpoint, {job.deaths} of {self._cluster.retries} times"
                )
                self.submit(job)
                return
        self.rows[job.row].jobs[job.id].pop("host", None)
        for following in job.on_end(answer):
            self.submit(following)

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
    from recombine.results import RunHeldError
    from recombine.training import Interrupted

    progress = TaskProgress(board, job, metric)
    progress.tell(host=socket.gethostname(), at_once=True)
    try:
        if not marker.exists():  # a node that came after the check
            raise not_shared(socket.gethostname(), marker.parent, "it is another one there")
        if gpus:
            check_gpu()
        return Answer("done", function(*arguments, progress=progress))
    except Interrupted as stopped:
        return Answer("stopped", text=str(stopped))
    except RunHeldError as held:
        return Answer("held", text=str(held))
    except Exception as error:
        is_ours = type(error).__module__.startswith("recombine.")
        return Answer("failed", text=str(error) if is_ours else f"{type(error).__name__}: {error}")


def check_gpu() -> None:
    """JAX without its CUDA plugin would train on the CPU, and say nothing."""
    import jax

    if jax.default_backend() == "cpu":
        raise RunFailedError(
            f"the task has a GPU of the node {socket.gethostname()}, but JAX does not see it; "
            f"install recombine[cuda] there, or run with `--gpus-per-task 0`"
        )
