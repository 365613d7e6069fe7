"""What engines with workers have in common: jobs, how they end, and the work that follows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from recombine.engines._sweep_view import RowState, View

if TYPE_CHECKING:
    from recombine.training import StopRequest

POLL_SECONDS = 0.1


class SweepStoppedError(RuntimeError):
    """Ctrl-C while workers were busy; what is finished is finished, the rest resumes."""


class Answer(NamedTuple):
    """How a task ended. Errors travel as words: not all of them survive the way."""

    kind: Literal["done", "failed", "held", "stopped", "died"]
    value: Any = None
    text: str = ""


@dataclass(eq=False)
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
    is_called_off: bool = field(default=False, init=False)

    @property
    def id(self) -> str:
        """A name that no other job has."""
        return f"{self.title} #{id(self)}"


class Sweep(ABC):
    """Everything that is to be done in one go; engines say how jobs reach their workers."""

    def __init__(self, view: View, stop: "StopRequest", retries: int):
        self.view = view
        self.rows: dict[str, RowState] = {}
        self.is_stopped = False
        self._stop = stop
        self._retries = retries

    @abstractmethod
    def submit(self, jobs: Iterable[Job], *, first: bool = False) -> None:
        """Takes jobs, to be started when there is room; `first` before those that wait."""

    @abstractmethod
    def run(self) -> None:
        """Waits until all jobs have ended. After Ctrl-C those at work save, and no more begin."""

    def stop(self, jobs: Iterable[Job]) -> None:
        """Asks jobs to stop: those at work after their chunk, the others before they begin."""
        chosen = set(jobs)
        for job in chosen:
            job.is_called_off = True
        self._call_off(chosen)

    @abstractmethod
    def _call_off(self, jobs: set[Job]) -> None:
        """Lets workers know that jobs are to stop."""

    @abstractmethod
    def open_jobs(self) -> list[Job]:
        """Returns the jobs that have not ended."""

    def obey(self) -> None:
        """Looks whether Ctrl-C was pressed, and asks everybody to stop."""
        if self._stop.asked and not self.is_stopped:
            self.is_stopped = True
            self.view.say(
                "stopping: tasks save after the chunk they are at; Ctrl-C again stops now"
            )
            self.stop(self.open_jobs())

    def end(self, job: Job, answer: Answer) -> None:
        """Draws the conclusions from the end of a job: it begins again, or others follow."""
        news = self.rows[job.row].jobs[job.id]
        if answer.kind == "died":
            if self.is_stopped or job.is_called_off:
                answer = Answer("stopped", text=answer.text)
            elif job.deaths >= self._retries:
                answer = Answer(
                    "failed",
                    text=f"{job.title}: its worker died {job.deaths + 1} times, the last time with "
                    f"{answer.text}. The last checkpoint is kept; the same command resumes it.",
                )
            else:
                job.deaths += 1
                self.view.say(
                    f"{job.title}: its worker on {news.get('host') or 'a node'} died "
                    f"({answer.text}); started again from its last checkpoint, {job.deaths} of "
                    f"{self._retries} times"
                )
                self.submit([job], first=True)
                return
        news.pop("host", None)
        self.submit(job.on_end(answer), first=True)


def answer_of(work: Callable[[], Any]) -> Answer:
    """Runs in a worker: does a piece of work, and says in words what became of it."""
    from recombine.results import RunHeldError
    from recombine.training import Interrupted

    try:
        return Answer("done", work())
    except Interrupted as stopped:
        return Answer("stopped", text=str(stopped))
    except RunHeldError as held:
        return Answer("held", text=str(held))
    except Exception as error:
        is_ours = type(error).__module__.startswith("recombine.")
        return Answer("failed", text=str(error) if is_ours else f"{type(error).__name__}: {error}")
