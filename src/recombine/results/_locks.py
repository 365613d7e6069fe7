"""One holder per run: the system releases the lock of a process that dies, however it dies."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from recombine.results._files import write_atomically

LOCK = ".lock"
HOLDER = ".holder.json"


class RunHeldError(RuntimeError):
    """Another process, the `holder`, is working on this run."""

    def __init__(self, folder: Path, holder: str):
        super().__init__(
            f"{folder} is being run by {holder}; wait for it, or use another `--runs` folder"
        )
        self.holder = holder


@contextlib.contextmanager
def held(
    folder: Path, *, wait: bool, on_wait: Callable[[str], None] = lambda _: None
) -> Iterator[None]:
    """Holds the lock of a run's folder.

    Args:
        folder: exists already.
        wait: whether to wait for a present holder; otherwise `RunHeldError` names it.
        on_wait: told, once, who is waited for.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        who = describe_holder(folder)
        if not wait:
            raise RunHeldError(folder, who) from None
        on_wait(who)
        lock.acquire(poll_interval=0.2)
    try:
        me = {"host": socket.gethostname(), "pid": os.getpid(), "since": _now()}
        write_atomically(folder / HOLDER, lambda file: file.write(json.dumps(me).encode()))
        yield
    finally:
        with contextlib.suppress(OSError):
            (folder / HOLDER).unlink()
        lock.release()


def is_held(folder: Path) -> bool:
    """Says whether a living process holds the run; a dead one's lock is free."""
    from filelock import FileLock, Timeout

    if not (folder / LOCK).exists() or not os.access(folder / LOCK, os.W_OK):
        return False
    try:
        with FileLock(folder / LOCK, timeout=0):
            return False
    except Timeout:
        return True


def describe_holder(folder: Path) -> str:
    """Returns who holds the run, in words."""
    try:
        holder = json.loads((folder / HOLDER).read_text())
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()) + " UTC"
