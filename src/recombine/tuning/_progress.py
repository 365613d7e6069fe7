"""How a search shows itself: one bar on a terminal, a line for each trial elsewhere."""

import sys
from collections.abc import Sequence
from typing import Any, Protocol

from recombine._live_bar import has_terminal, make_bar
from recombine.results import StudyTable, Trial


class StudyProgress(Protocol):
    """What a search tells while it works."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: object) -> None: ...

    def begin(self, table: StudyTable, total: int) -> None:
        """The search begins, or goes on from the trials in the table."""
        ...

    def within(self, trials: int) -> Any:
        """Returns what is shown while so many trials are trained, as for `fit`."""
        ...

    def told(self, trials: Sequence[Trial], table: StudyTable) -> None:
        """Some trials have ended."""
        ...


class SilentStudy:
    """Says nothing."""

    def __enter__(self) -> "SilentStudy":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def begin(self, table: StudyTable, total: int) -> None:
        """Says nothing."""

    def within(self, trials: int) -> Any:
        """Says nothing."""
        return False

    def told(self, trials: Sequence[Trial], table: StudyTable) -> None:
        """Says nothing."""


class PlainStudy(SilentStudy):
    """Prints a line for every trial, with the best so far."""

    def __init__(self, title: str):
        self._title = title
        self._total = 0

    def begin(self, table: StudyTable, total: int) -> None:
        """Prints what is to be done, and what was done before."""
        self._total = total
        before = _finished(table)
        resumed = f", {before} of them done before; {_best(table)}" if before else ""
        self._print(f"{total} trials{resumed}")

    def told(self, trials: Sequence[Trial], table: StudyTable) -> None:
        """Prints a line for each."""
        done = _finished(table) - len(trials)
        for count, trial in enumerate(trials, start=done + 1):
            self._print(f"trial {count}/{self._total}: {_ended(trial, table)}; {_best(table)}")

    def _print(self, text: str) -> None:
        print(f"{self._title}: {text}", file=sys.stderr, flush=True)


class TerminalStudy(SilentStudy):
    """One live bar: trials, the best so far, and the time left."""

    def __init__(self, title: str):
        self._bar = make_bar()
        self._task = self._bar.add_task(title, total=None, shown="")
        self._shown = ""
        self._done = 0
        self._total = 0

    def __enter__(self) -> "TerminalStudy":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def begin(self, table: StudyTable, total: int) -> None:
        """Sets the length of the bar."""
        self._total = total
        self._show(table)

    def within(self, trials: int) -> Any:
        """Moves the bar while trials are trained."""
        return _Within(self, trials)

    def told(self, trials: Sequence[Trial], table: StudyTable) -> None:
        """Moves the bar to the trials that have ended."""
        self._show(table)

    def move(self, trials: float, note: str = "") -> None:
        """Shows that so many trials beyond the finished ones are done."""
        self._bar.update(self._task, completed=self._done + trials, shown=note or self._shown)

    def _show(self, table: StudyTable) -> None:
        self._done = _finished(table)
        self._shown = f"{self._done}/{self._total} trials, {_best(table)}"
        self._bar.update(self._task, total=self._total, completed=self._done, shown=self._shown)


class _Within:
    """The progress of one `fit_many`, as a part of a study's bar."""

    def __init__(self, study: TerminalStudy, trials: int):
        self._study, self._trials = study, trials
        self._all = self._made = 0

    def __enter__(self) -> "_Within":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def start(self, *, steps: int, seeds: Sequence[int]) -> None:
        self._all, self._made = steps * len(seeds), 0

    def compiling(self, now: bool) -> None:
        self._study.move(self._share(), "compiling …" if now else "")

    def resumed(self, step: int) -> None:
        return None

    def advance(self, steps: int) -> None:
        self._made += steps
        self._study.move(self._share())

    def report(self, step: int, metrics: dict[str, Any]) -> None:
        return None

    def _share(self) -> float:
        return self._trials * self._made / self._all if self._all else 0.0


def make_study_progress(title: str) -> StudyProgress:
    """Returns a bar when the error output is a terminal, plain lines otherwise."""
    return TerminalStudy(title) if has_terminal() else PlainStudy(title)


def value_text(value: float | None, table: StudyTable) -> str:
    """Writes a value of the metric, as a percentage where it is a share."""
    if value is None:
        return "–"
    return f"{100 * value:.2f} %" if table.percent else f"{value:.4g}"


def _finished(table: StudyTable) -> int:
    return sum(trial.is_finished for trial in table.trials)


def _ended(trial: Trial, table: StudyTable) -> str:
    if trial.state == "failed":
        return f"failed ({trial.error})"
    pruned = "pruned at " if trial.state == "pruned" else ""
    return f"{pruned}{table.label} {value_text(trial.value, table)}"


def _best(table: StudyTable) -> str:
    best = table.best
    return (
        f"best {value_text(best.value, table)} (trial {best.number})"
        if best
        else "none is complete"
    )
