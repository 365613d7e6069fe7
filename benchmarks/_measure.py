"""How times are taken: side by side, in turns, as a ratio of medians."""

import statistics
import time
from collections.abc import Callable
from typing import Any, TypeVar

What = TypeVar("What")


def seconds(call: Callable[[], Any]) -> float:
    """Returns the wall time of one call; the call must wait for its own results."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def side_by_side(calls: dict[What, Callable[[], Any]], *, rounds: int) -> dict[What, float]:
    """Returns the median time of every call, taken in turns after one round to warm up."""
    times: dict[What, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            taken = seconds(call)
            if turn:
                times[name].append(taken)
    return {name: statistics.median(taken) for name, taken in times.items()}
