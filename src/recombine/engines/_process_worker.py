"""What a worker process does: reads a task, does it, says how it ended.

The task is a line of JSON on the standard input, where `"stop"` may follow; its end means that the
process that asked is dead, and this one ends too. Messages are lines of JSON on what was the
standard output; whatever else is printed goes to the error output.
"""

import contextlib
import json
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from recombine.engines._orders import Order, join, run_one_part, run_whole, share_a_program
from recombine.engines._requests import RunFailedError
from recombine.engines._sweeps import Answer, answer_of
from recombine.engines._task_progress import TellingProgress
from recombine.results import Record

WORK = {work.__name__: work for work in (run_whole, run_one_part, join, share_a_program)}
"""What a task may ask for."""


class Asker:
    """The process that asked for the task, at the other end of the pipes."""

    def __init__(self, commands: Iterator[str], messages: IO[str]):
        self.has_said_stop = threading.Event()
        self._messages = messages
        self._turn = threading.Lock()  # warnings may come from other threads
        threading.Thread(target=self._listen, args=(commands,), daemon=True).start()

    def tell(self, **message: Any) -> None:
        """Sends a message, each under its name; when nobody is there, this process soon ends."""
        with self._turn, contextlib.suppress(BrokenPipeError):
            self._messages.write(json.dumps(message) + "\n")
            self._messages.flush()

    def _listen(self, commands: Iterator[str]) -> None:
        for command in commands:
            if command == "stop":
                self.has_said_stop.set()
        os._exit(1)  # nobody waits for this any more; what was saved is kept


class WorkerProgress(TellingProgress):
    """The progress of `fit` in a worker process."""

    def __init__(self, asker: Asker, metric: str | None):
        super().__init__(metric)
        self._asker = asker

    def _send(self, news: dict[str, Any]) -> None:
        self._asker.tell(news=news)

    def _hear(self) -> bool:
        return self._asker.has_said_stop.is_set()


def main() -> None:
    """Does the task that stands on the standard input."""
    messages = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    messages.write("\n")  # ends a line that an import has begun
    commands = read_commands(0)
    task: Any = next(commands)
    asker = Asker(commands, messages)
    warnings.simplefilter("always", UserWarning)  # they are told once, by the one who asked
    warnings.showwarning = lambda message, *_, **__: asker.tell(warning=str(message))
    answer = do(task, asker)
    value = answer.value.to_json() if isinstance(answer.value, Record) else answer.value
    asker.tell(answer=(answer.kind, value, answer.text))


def do(task: dict[str, Any], asker: Asker) -> Answer:
    """Does a task, unless it was called off already."""

    def work() -> Any:
        check_backend(task["backend"])
        return WORK[task["work"]](
            Order.from_json(task["order"]),
            Path(task["runs"]),
            task["checkpoint_seconds"],
            *task["more"],
            progress=WorkerProgress(asker, task["metric"]),
        )

    if asker.has_said_stop.is_set():
        return Answer("stopped")
    return advised(answer_of(work), task["backend"])


def advised(answer: Answer, backend: str) -> Answer:
    """Says what helps where the memory of a device did not suffice for all workers."""
    is_full = answer.kind == "failed" and "RESOURCE_EXHAUSTED" in answer.text
    if backend == "cpu" or not is_full:
        return answer
    return answer._replace(
        text=f"{answer.text}; worker processes share the memory of a GPU: try fewer `--workers`"
    )


def check_backend(expected: str) -> None:
    """JAX that finds no room on a GPU would train on the CPU, and say little."""
    import jax

    if expected != "cpu" and jax.default_backend() != expected:
        raise RunFailedError(
            f"a worker process was to run on the {expected}, but JAX runs on the "
            f"{jax.default_backend()} there; is its memory in use? Try fewer `--workers`, or set "
            f"JAX_PLATFORMS=cpu to stay off it"
        )


def read_commands(source: int) -> Iterator[Any]:
    """Yields what stands on the lines of a file.

    Without Python's buffers: a thread that waits in one of them breaks the end of the process.
    """
    rest = b""
    while read := os.read(source, 65536):
        *lines, rest = (rest + read).split(b"\n")
        yield from map(json.loads, lines)


if __name__ == "__main__":
    main()
