"""Where a study lives: Optuna's journal in a file of its own, or any storage with a URL."""

import contextlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recombine.tuning._errors import StorageError, StudyError, missing_optuna

JOURNAL = "journal.log"
WAIT_SECONDS = 60.0
"""How long to wait for another process that writes to the same study; writing takes moments."""


class StorageWarning(UserWarning):
    """Something about a storage that was set right."""


class SystemLock:
    """A lock that the system releases when its holder dies, however it dies."""

    def __init__(self, path: Path):
        from filelock import FileLock

        self._lock = FileLock(f"{path}.lock")

    def acquire(self) -> bool:
        """Waits a while, then gives up."""
        self._lock.acquire(timeout=WAIT_SECONDS)
        return True

    def release(self) -> None:
        """Lets others write."""
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


def open_storage(storage: str | None, folder: Path) -> Any:
    """Opens the storage of a study; a journal is made where there is none.

    Raises:
        StorageError: it is damaged, locked or cannot be reached; nothing in it was changed.
    """
    try:
        import optuna
    except ImportError:
        raise missing_optuna() from None

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if storage is not None and "://" in storage:
        with explained(storage):
            return optuna.storages.get_storage(storage)
    path = folder / JOURNAL if storage is None else Path(storage)
    with explained(str(path)):
        return _open_journal(path)


@contextlib.contextmanager
def explained(place: str) -> Iterator[None]:
    """Turns what goes wrong in a storage into a `StorageError`."""
    from filelock import Timeout

    try:
        yield
    except (StorageError, StudyError):
        raise
    except Timeout:
        raise StorageError(
            f"the study in {place} is locked: another process has been writing to it for more "
            f"than {WAIT_SECONDS:.0f} s. Wait for it, or end it; finished trials are kept"
        ) from None
    except Exception as error:
        if not _is_of_storage(error):
            raise
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise StorageError(
            f"the study in {place} cannot be read or written: {line[:200]}. It was left as it is: "
            f"restore it from a copy, or move it away to begin the search anew"
        ) from error


def _is_of_storage(error: Exception) -> bool:
    module = type(error).__module__
    is_theirs = module.startswith(("sqlalchemy", "sqlite3")) or "optuna" in module
    return is_theirs or isinstance(error, OSError | ValueError | KeyError | ImportError)


def _open_journal(path: Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    lock = SystemLock(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        _check_journal(path, lock)
    journal: Any = JournalFileBackend  # which asks its lock for no more than these two methods
    return JournalStorage(journal(str(path), lock_obj=lock))


def _check_journal(path: Path, lock: "SystemLock") -> None:
    """Names the line that cannot be read, and cuts off a last one that was never finished.

    A process that is killed while it writes leaves half a line; the next line would be written
    behind it, and neither could be read.
    """
    with lock:
        lines = path.read_bytes().split(b"\n")
        half = lines.pop()  # empty where the file ends as it should
        for number, line in enumerate(lines, start=1):
            try:
                is_entry = isinstance(json.loads(line), dict)
            except ValueError:
                is_entry = False
            if not is_entry:
                raise StorageError(
                    f"line {number} of the study in {path} is damaged. The file was left as it "
                    f"is: restore it from a copy, or move it away to begin the search anew"
                )
        if half:
            os.truncate(path, path.stat().st_size - len(half))
            warnings.warn(
                f"the last line of {path} was never finished, and was cut off",
                StorageWarning,
                stacklevel=4,
            )
