"""The board: one small actor where all tasks say how far they are, and hear when to stop."""

import contextlib
from collections.abc import Iterable
from typing import Any

from recombine.engines._ray_settings import import_ray
from recombine.engines._task_progress import TellingProgress


class Board:
    """What the tasks have told; it lives in a process of its own, beside the one that asks."""

    def __init__(self) -> None:
        self._news: dict[str, dict[str, Any]] = {}
        self._stopped: set[str] = set()

    def tell(self, job: str, news: dict[str, Any]) -> bool:
        """Takes what a task says of itself; the answer is whether it is to stop."""
        self._news.setdefault(job, {}).update(news)
        return job in self._stopped

    def read(self) -> dict[str, dict[str, Any]]:
        """Returns what is new since the last time, by task."""
        news, self._news = self._news, {}
        return news

    def stop(self, jobs: Iterable[str]) -> None:
        """Asks tasks to stop after their chunk."""
        self._stopped |= set(jobs)


def make_board(ray: Any) -> Any:
    """Starts the board on the node of this process: it lives as long as somebody can look at it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    place = NodeAffinitySchedulingStrategy(node_id=here, soft=False)
    return ray.remote(Board).options(num_cpus=0, scheduling_strategy=place).remote()


class TaskProgress(TellingProgress):
    """Tells the board, and stops when the board says so; a board that is gone is no reason to fail.

    Workers block the signal of Ctrl-C, so that it is for the board to hand on.
    """

    def __init__(self, board: Any, job: str, metric: str | None = None):
        super().__init__(metric)
        self._board, self._job = board, job
        self._answer: Any = None

    def _send(self, news: dict[str, Any]) -> None:
        self._answer = self._board.tell.remote(self._job, news)

    def _hear(self) -> bool:
        """Reads the board's last answer, if it has come."""
        ray = import_ray()
        if self._answer is None or not ray.wait([self._answer], timeout=0)[0]:
            return False
        answer, self._answer = self._answer, None
        with contextlib.suppress(ray.exceptions.RayError):
            return ray.get(answer)
        return False
