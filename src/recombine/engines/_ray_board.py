"""The board: one small actor where all tasks say how far they are, and hear when to stop."""

import _thread
import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from recombine.engines._ray_settings import import_ray

TELL_SECONDS = 0.25
"""A task tells at most so often; evaluations can follow each other quickly."""


class Board:
    """What the tasks have told; it lives in a process of its own, beside the one that asks."""

    def __init__(self) -> None:
        self._news: dict[str, dict[str, Any]] = {}
        self._stopped: set[str] = set()
        self._all_stopped = False

    def tell(self, job: str, news: dict[str, Any]) -> bool:
        """Takes what a task says of itself; the answer is whether it is to stop."""
        self._news.setdefault(job, {}).update(news)
        return self._all_stopped or job in self._stopped

    def read(self) -> dict[str, dict[str, Any]]:
        """Returns what is new since the last time, by task."""
        news, self._news = self._news, {}
        return news

    def stop(self, jobs: Iterable[str] | None = None) -> None:
        """Asks tasks, or all of them, to stop after their chunk."""
        if jobs is None:
            self._all_stopped = True
        else:
            self._stopped |= set(jobs)


def make_board(ray: Any) -> Any:
    """Starts the board on the node of this process: it lives as long as somebody can look at it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    place = NodeAffinitySchedulingStrategy(node_id=here, soft=False)
    return ray.remote(Board).options(num_cpus=0, scheduling_strategy=place).remote()


class TaskProgress:
    """The progress of `fit` in a task: tells the board, and stops when the board says so.

    Nothing is waited for, and a board that is gone is no reason to fail.
    """

    def __init__(self, board: Any, job: str, metric: str | None = None):
        self._board, self._job, self._metric = board, job, metric
        self._news: dict[str, Any] = {}
        self._answer: Any = None
        self._told = 0.0
        self._done = 0
        self._seeds = 1
        self._is_stopping = False

    def __enter__(self) -> "TaskProgress":
        return self

    def __exit__(self, *error: object) -> None:
        if self._news:
            self._board.tell.remote(self._job, self._news)

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
        self.tell(done=self._done, resumed=step, at_once=True)

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
        """Hands news to the board, unless it was told a moment ago; they go with the next then."""
        self._news.update(news)
        now = time.monotonic()
        if not at_once and now - self._told < TELL_SECONDS:
            return
        self._hear()
        if self._news:
            self._answer = self._board.tell.remote(self._job, self._news)
            self._told, self._news = now, {}

    def _hear(self) -> None:
        """Obeys the board's last answer: what Ctrl-C does to `fit` in a process of its own."""
        ray = import_ray()
        if self._is_stopping or self._answer is None or not ray.wait([self._answer], timeout=0)[0]:
            return
        answer, self._answer = self._answer, None
        with contextlib.suppress(ray.exceptions.RayError):
            if ray.get(answer):
                self._is_stopping = True  # once is enough: a second time would stop at once
                _thread.interrupt_main()  # workers block the signal itself
