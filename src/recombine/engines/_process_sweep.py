"""A sweep whose jobs are processes of this machine, so many at a time."""

from collections import deque
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from recombine.engines._process_links import Link
from recombine.engines._sweep_view import View
from recombine.engines._sweeps import POLL_SECONDS, Answer, Job, Sweep

if TYPE_CHECKING:
    from recombine.training import StopRequest


class ProcessSweep(Sweep):
    """Starts a process for every job, when there is room; all are gone when the context ends.

    Args:
        workers: how many may be at work at once.
        backend: what JAX must run on there.
        environment: the variables of a worker.
        view: where progress is shown.
        stop: knows of Ctrl-C.
        retries: how often a job is started again after its process died.
    """

    def __init__(
        self,
        workers: int,
        backend: str,
        environment: dict[str, str],
        view: View,
        stop: "StopRequest",
        retries: int,
    ):
        super().__init__(view, stop, retries)
        self._workers = workers
        self._backend = backend
        self._environment = environment
        self._queue: deque[Job] = deque()
        self._spared: deque[Job] = deque()  # stopped before they began
        self._at_work: dict[Link, Job] = {}
        self._heard: SimpleQueue[tuple[Link, dict[str, Any] | None]] = SimpleQueue()
        self._warned: set[str] = set()

    def __enter__(self) -> "ProcessSweep":
        return self

    def __exit__(self, *error: object) -> None:
        for link in self._at_work:
            link.kill()
        for link in self._at_work:
            link.ended()

    def submit(self, jobs: Iterable[Job], *, first: bool = False) -> None:
        """Takes jobs, to be started when there is room; `first` before those that wait."""
        jobs = list(jobs)
        for job in jobs:
            self.rows[job.row].jobs[job.id] = {}
        if first:
            self._queue.extendleft(reversed(jobs))
        else:
            self._queue.extend(jobs)

    def stop(self, jobs: Iterable[Job]) -> None:
        """Asks jobs to stop: those at work after their chunk, the others before they begin."""
        chosen = set(jobs)
        for link, job in self._at_work.items():
            if job in chosen:
                link.stop()
        self._spared.extend(job for job in self._queue if job in chosen)
        self._queue = deque(job for job in self._queue if job not in chosen)

    def open_jobs(self) -> list[Job]:
        """Returns the jobs that have not ended."""
        return [*self._at_work.values(), *self._queue]

    def run(self) -> None:
        """Waits until all jobs have ended. After Ctrl-C those at work save, and no more begin."""
        self.obey()
        while self._at_work or self._queue or self._spared:
            while self._spared:
                self.end(self._spared.popleft(), Answer("stopped"))
            while self._queue and len(self._at_work) < self._workers:
                self._begin(self._queue.popleft())
            self._hear()
            self.obey()
            self.view.show(self.rows, len(self._at_work))

    def _begin(self, job: Job) -> None:
        order, runs, checkpoint_seconds, *more = job.arguments
        task = {
            "work": job.function.__name__,
            "order": order.to_json(),
            "runs": str(runs),
            "checkpoint_seconds": checkpoint_seconds,
            "more": more,
            "metric": job.metric,
            "backend": self._backend,
        }
        self._at_work[Link(task, self._environment, self._heard)] = job
        self.rows[job.row].jobs[job.id]["host"] = "this machine"

    def _hear(self) -> None:
        """Takes what the workers have said, after waiting a moment for the first of it."""
        try:
            self._take(*self._heard.get(timeout=POLL_SECONDS if self._at_work else 0))
            while True:
                self._take(*self._heard.get_nowait())
        except Empty:
            return

    def _take(self, link: Link, message: dict[str, Any] | None) -> None:
        job = self._at_work[link]
        if message is None:
            answer = link.ended()
            del self._at_work[link]
            self.end(job, answer)
        elif "warning" in message:
            self._warn(message["warning"])
        else:
            self.rows[job.row].jobs[job.id].update(message["news"])

    def _warn(self, text: str) -> None:
        """Passes a worker's warning on, once: the others have the same to say."""
        import warnings

        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, stacklevel=2)
