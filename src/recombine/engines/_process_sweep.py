"""A sweep whose jobs are processes of this machine, so many at a time."""

from collections import deque
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from recombine.engines._process_links import Link
from recombine.engines._requests import RunFailedError
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
        self._trouble = ""  # why no more processes can be started

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

    def open_jobs(self) -> list[Job]:
        """Returns the jobs that have not ended."""
        return [*self._at_work.values(), *self._queue]

    def run(self) -> None:
        """Waits until all jobs have ended. After Ctrl-C those at work save, and no more begin.

        Raises:
            RunFailedError: a process could not be started; those at work have saved.
        """
        self.obey()
        while self._at_work or self._queue or self._spared:
            while self._spared:
                self.end(self._spared.popleft(), Answer("stopped"))
            while self._queue and len(self._at_work) < self._workers:
                self._begin(self._queue.popleft())
            self._hear()
            self.obey()
            self.view.show(self.rows, len(self._at_work))
        if self._trouble:
            raise RunFailedError(
                f"a worker process cannot be started ({self._trouble}). What is finished is kept; "
                f"try fewer `--workers`, and the same command resumes the rest."
            )

    def _call_off(self, jobs: set[Job]) -> None:
        for link, job in self._at_work.items():
            if job in jobs:
                link.stop()
        self._spared.extend(job for job in self._queue if job in jobs)
        self._queue = deque(job for job in self._queue if job not in jobs)

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
        try:
            self._at_work[Link(task, self._environment, self._heard)] = job
        except OSError as error:
            self._give_up(job, error)
        else:
            self.rows[job.row].jobs[job.id]["host"] = "this machine"

    def _give_up(self, job: Job, error: OSError) -> None:
        """Stops everything, the job that could not begin included."""
        if not self._trouble:
            self.view.say("stopping, for no worker can be started: those at work save")
        self._trouble = str(error)
        self.is_stopped = True
        self._queue.appendleft(job)
        self.stop(self.open_jobs())

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
