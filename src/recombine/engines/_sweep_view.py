"""The progress of all tasks in one view: live bars on a terminal, plain lines elsewhere."""

import time
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass
class RowState:
    """What is known of a row whose tasks are at work."""

    title: str
    total: int  # steps of all seeds
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)  # the newest of every task
    is_over: bool = False

    @property
    def done(self) -> int:
        """Steps made, over all seeds."""
        return min(sum(job.get("done", 0) for job in self.jobs.values()), self.total)

    @property
    def is_running(self) -> bool:
        """Whether a task has begun."""
        return not self.is_over and any(job.get("host") for job in self.jobs.values())

    def describe(self) -> str:
        """Returns the metric, averaged over the tasks that have one, and what else is going on."""
        shown = [job["shown"] for job in self.jobs.values() if "shown" in job]
        words = []
        if shown:
            words.append(f"{shown[0][0]} {sum(value for _, value in shown) / len(shown):.4g}")
        if any(job.get("compiling") for job in self.jobs.values()):
            words.append("compiling")
        return "  ".join(words)


class View(Protocol):
    """Where progress is shown."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: object) -> None: ...

    def say(self, text: str) -> None:
        """Shows a sentence."""
        ...

    def show(self, rows: dict[str, RowState], tasks: int) -> None:
        """Shows where the rows are, and how many tasks are at work."""
        ...


class SilentView:
    """Shows nothing."""

    def __enter__(self) -> "SilentView":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def say(self, text: str) -> None:
        """Shows nothing."""

    def show(self, rows: dict[str, RowState], tasks: int) -> None:
        """Shows nothing."""


class PlainView:
    """Prints a line for every row at work, now and then."""

    def __init__(self, every_seconds: float = 5.0):
        from rich.console import Console

        self._console = Console(stderr=True, soft_wrap=True, highlight=False)
        self._every = every_seconds
        self._printed = time.monotonic()
        self._last: dict[str, str] = {}

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def say(self, text: str) -> None:
        """Prints a sentence."""
        self._console.print(text, markup=False)

    def show(self, rows: dict[str, RowState], tasks: int) -> None:
        """Prints what has changed, if the last lines are old enough."""
        if time.monotonic() - self._printed < self._every:
            return
        self._printed = time.monotonic()
        for row in rows.values():
            line = f"{row.title}: {row.done}/{row.total} steps  {row.describe()}".rstrip()
            if row.is_running and self._last.get(row.title) != line:
                self._last[row.title] = line
                self.say(line)


class TerminalView:
    """A bar for all rows together, and one for each that is at work."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[shown]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._all = self._bar.add_task("all rows", total=None, shown="starting")
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> "TerminalView":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """Prints a sentence above the bars."""
        self._bar.console.print(text, markup=False, highlight=False)

    def show(self, rows: dict[str, RowState], tasks: int) -> None:
        """Moves the bars; a row that is over loses its own."""
        over = sum(row.is_over for row in rows.values())
        done = sum(row.total if row.is_over else row.done for row in rows.values())
        total = sum(row.total for row in rows.values())
        shown = f"{over}/{len(rows)} rows, {tasks} tasks at work"
        self._bar.update(self._all, completed=done, total=total, shown=shown)
        for key, row in rows.items():
            if row.is_running:
                if key not in self._tasks:
                    self._tasks[key] = self._bar.add_task(row.title, total=row.total, shown="")
                self._bar.update(self._tasks[key], completed=row.done, shown=row.describe())
            elif row.is_over and key in self._tasks:
                self._bar.remove_task(self._tasks.pop(key))


def make_view() -> TerminalView | PlainView:
    """Returns live bars when the error output is a terminal, plain lines otherwise."""
    from rich.console import Console

    return TerminalView() if Console(stderr=True).is_terminal else PlainView()
