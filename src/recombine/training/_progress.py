"""How training shows itself: a live bar on a terminal, plain lines elsewhere, or nothing."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from recombine._live_bar import has_terminal, make_bar


class Progress(Protocol):
    """What `fit` tells while it works."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: object) -> None: ...

    def start(self, *, steps: int, seeds: Sequence[int]) -> None:
        """Training begins."""
        ...

    def compiling(self, now: bool) -> None:
        """A compilation begins or ends."""
        ...

    def resumed(self, step: int) -> None:
        """A checkpoint was read."""
        ...

    def advance(self, steps: int) -> None:
        """One seed has made so many steps."""
        ...

    def report(self, step: int, metrics: dict[str, np.ndarray]) -> None:
        """All seeds were evaluated."""
        ...


class SilentProgress:
    """Says nothing."""

    def __enter__(self) -> "SilentProgress":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def start(self, *, steps: int, seeds: Sequence[int]) -> None:
        """Says nothing."""

    def compiling(self, now: bool) -> None:
        """Says nothing."""

    def resumed(self, step: int) -> None:
        """Says nothing."""

    def advance(self, steps: int) -> None:
        """Says nothing."""

    def report(self, step: int, metrics: dict[str, np.ndarray]) -> None:
        """Says nothing."""


class PlainProgress:
    """Prints a line now and then, for logs and pipes.

    Args:
        title: what is being trained.
        metric: the metric to show; the first one that is reported otherwise.
        every_seconds: at most one line in this time.
    """

    def __init__(self, title: str = "", metric: str | None = None, every_seconds: float = 5.0):
        from rich.console import Console

        self._console = Console(stderr=True, soft_wrap=True, highlight=False)
        self._title = f"{title}: " if title else ""
        self._metric = metric
        self._every = every_seconds

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def start(self, *, steps: int, seeds: Sequence[int]) -> None:
        """Prints what is to be done."""
        self._steps, self._done, self._total = steps, 0, steps * len(seeds)
        self._told = False
        self._started = self._printed = time.monotonic()
        self._print(f"{_seeds(seeds)}, {steps} steps")

    def compiling(self, now: bool) -> None:
        """Prints that a compilation begins, once."""
        if now and not self._told:
            self._told = True
            self._print("compiling")

    def resumed(self, step: int) -> None:
        """Prints where the run goes on."""
        self._done = step * self._total // self._steps
        self._print(f"resumed at step {step}")

    def advance(self, steps: int) -> None:
        """Counts."""
        self._done += steps

    def report(self, step: int, metrics: dict[str, np.ndarray]) -> None:
        """Prints step, metric, speed and time left, if the last line is old enough."""
        now = time.monotonic()
        if now - self._printed < self._every and step < self._steps:
            return
        self._printed = now
        rate = self._done / max(now - self._started, 1e-9)
        left = (self._total - self._done) / max(rate, 1e-9)
        shown = _describe(metrics, self._metric)
        self._print(f"step {step}/{self._steps}  {shown}  {rate:.0f} steps/s  {left:.0f} s left")

    def _print(self, text: str) -> None:
        self._console.print(f"{self._title}{text}", markup=False)


class TerminalProgress:
    """A live bar with the current metric, steps per second and time left."""

    def __init__(self, title: str = "", metric: str | None = None):
        self._bar = make_bar(percentage=True)
        self._task = self._bar.add_task(title or "training", total=None, shown="")
        self._metric = metric
        self._shown = ""

    def __enter__(self) -> "TerminalProgress":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def start(self, *, steps: int, seeds: Sequence[int]) -> None:
        """Sets the length of the bar."""
        self._steps, self._total, self._done = steps, steps * len(seeds), 0
        self._started = time.monotonic()
        self._bar.update(self._task, total=self._total)

    def compiling(self, now: bool) -> None:
        """Says so beside the bar; the spinner goes on turning."""
        self._bar.update(self._task, shown="compiling …" if now else self._shown)

    def resumed(self, step: int) -> None:
        """Moves the bar to where the run goes on."""
        self._done = step * self._total // self._steps
        self._bar.update(self._task, completed=self._done)

    def advance(self, steps: int) -> None:
        """Moves the bar."""
        self._done += steps
        self._bar.update(self._task, completed=self._done)

    def report(self, step: int, metrics: dict[str, np.ndarray]) -> None:
        """Shows the metric and the speed."""
        rate = self._done / max(time.monotonic() - self._started, 1e-9)
        self._shown = f"{_describe(metrics, self._metric)}  {rate:.0f} steps/s"
        self._bar.update(self._task, shown=self._shown)


def make_progress(title: str = "", metric: str | None = None) -> TerminalProgress | PlainProgress:
    """Returns a live bar when the error output is a terminal, plain lines otherwise."""
    if has_terminal():
        return TerminalProgress(title, metric)
    return PlainProgress(title, metric)


def _describe(metrics: dict[str, np.ndarray], metric: str | None) -> str:
    name = metric if metric in metrics else next(iter(metrics), None)
    return f"{name} {float(np.mean(metrics[name])):.4g}" if name else ""


def _seeds(seeds: Sequence[int]) -> str:
    return "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
