"""The progress of `fit` in a task: it is told to somebody else, who may also ask to stop."""

import _thread
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

TELL_SECONDS = 0.25
"""A task tells at most so often; evaluations can follow each other quickly."""


class TellingProgress(ABC):
    """Counts what a task has done and tells it, and stops training when it is asked to."""

    def __init__(self, metric: str | None = None):
        self._metric = metric
        self._news: dict[str, Any] = {}
        self._told = 0.0
        self._done = 0
        self._seeds = 1
        self._is_stopping = False

    @abstractmethod
    def _send(self, news: dict[str, Any]) -> None:
        """Hands news over, at most waits until they are taken; bears that nobody is there."""

    @abstractmethod
    def _hear(self) -> bool:
        """Says whether the task was asked to stop."""

    def __enter__(self) -> "TellingProgress":
        return self

    def __exit__(self, *error: object) -> None:
        if self._news:
            self._send(self._news)

    def start(self, *, steps: int, seeds: Sequence[int]) -> None:
        """Training begins."""
        self._done, self._seeds = 0, len(seeds)
        self.tell(done=0, at_once=True)

    def compiling(self, now: bool) -> None:
        """A compilation begins or ends."""
        self.tell(compiling=now, at_once=True)

    def resumed(self, step: int) -> None:
        """A checkpoint was read."""
        self._done = step * self._seeds
        self.tell(done=self._done, at_once=True)

    def advance(self, steps: int) -> None:
        """One seed has made so many steps."""
        self._done += steps
        self.tell(done=self._done)

    def report(self, step: int, metrics: dict[str, np.ndarray]) -> None:
        """All seeds were evaluated."""
        self._done = step * self._seeds
        name = self._metric if self._metric in metrics else next(iter(metrics), None)
        if name is not None:
            self._news["shown"] = (name, float(np.mean(metrics[name])))
        self.tell(done=self._done)

    def tell(self, *, at_once: bool = False, **news: Any) -> None:
        """Hands news over, unless some were told a moment ago; they go with the next then."""
        self._news.update(news)
        now = time.monotonic()
        if not at_once and now - self._told < TELL_SECONDS:
            return
        if not self._is_stopping and self._hear():
            self._is_stopping = True  # once is enough: a second time would stop at once
            _thread.interrupt_main()  # what Ctrl-C does to `fit` in a process of its own
        if self._news:
            self._send(self._news)
            self._told, self._news = now, {}
