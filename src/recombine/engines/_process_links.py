"""This end of a worker process: how it is started, heard, stopped and outlived."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from queue import SimpleQueue
from typing import Any

from recombine.engines._sweeps import Answer
from recombine.results import Record

PYTHON = (sys.executable, "-P")
"""This interpreter; without the working directory, which this process need not import from."""

WORKER = "recombine.engines._process_worker"

MESSAGES = {"answer", "news", "warning"}
"""The names under which a worker says something."""


class Link:
    """A process at work on one task.

    It writes lines of JSON, which are put on `heard` together with the link, and `None` after the
    last one. Its standard input stays open as long as this process lives: so it knows.

    Args:
        task: plain data, what `_process_worker` reads.
        environment: variables that it gets beside those of this process.
        heard: where its messages go.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        task: dict[str, Any],
        environment: dict[str, str],
        heard: "SimpleQueue[tuple[Link, dict[str, Any] | None]]",
    ):
        self.answer: Answer | None = None
        self._heard = heard
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed when it has ended
        try:
            self._process = subprocess.Popen(
                [*PYTHON, "-m", WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=os.environ | environment | {"PYTHONPATH": python_path()},
                start_new_session=True,  # a Ctrl-C on the terminal is for this process to hand on
            )
        except OSError:
            self._errors.close()
            raise
        self._tell(task)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def stop(self) -> None:
        """Asks it to stop after its chunk."""
        self._tell("stop")

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()

    def ended(self) -> Answer:
        """Returns how it ended: what it said, or what the system says of it."""
        self._listener.join()
        code = self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]
        with self._errors as errors:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - 2000))
            words = errors.read().decode(errors="replace").strip().splitlines()
        return self.answer or Answer("died", text=_cause(code, words))

    def _tell(self, message: Any) -> None:
        pipe: Any = self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it is dead, as will be heard
            pipe.write(json.dumps(message).encode() + b"\n")
            pipe.flush()

    def _listen(self) -> None:
        try:
            with self._process.stdout as lines:  # pyright: ignore[reportOptionalContextManager]
                for message in filter(None, map(message_in, lines)):
                    if "answer" in message:
                        kind, value, text = message["answer"]
                        if isinstance(value, dict):
                            value = Record.from_json(value)
                        self.answer = Answer(kind, value, text)
                    else:
                        self._heard.put((self, message))
        finally:
            self._heard.put((self, None))  # whatever happened: somebody waits for it


def message_in(line: bytes) -> dict[str, Any] | None:
    """Returns a worker's message, or `None`: imports may print, and a death cuts lines off."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and MESSAGES & message.keys() else None


def python_path() -> str:
    """Returns where this process imports from, for another one to do the same."""
    return os.pathsep.join(os.path.abspath(place) for place in sys.path)


def _cause(code: int, words: list[str]) -> str:
    if code < 0:
        # Signals for real-time programs have no names.
        return next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
    return f"exit code {code}" + (f": {words[-1][:300]}" if words else "")
