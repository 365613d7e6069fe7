"""Runs on disk: one folder each, no file that two runs share, so that many can be written at once.

RUNS/<row id>/<variant>-<hash>/record.json    settings, status, numbers; rewritten whole
                              /curves.npz     metrics over time, one column per seed
                              /inspect.npz    what the learner finds worth drawing
                              /checkpoints/   the newest states
"""

import contextlib
import io
import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from recombine.results import _locks
from recombine.results._files import write_atomically
from recombine.results._record import Record, RecordError

RECORD, CURVES, INSPECT = "record.json", "curves.npz", "inspect.npz"


class RunsFolderError(OSError):
    """A runs folder that cannot be written."""


class RecordWarning(UserWarning):
    """A file among the runs that is not a record and was passed over."""


class RunFolder:
    """The folder of one run.

    Args:
        path: where it is.
        record: the name of the record's file. Under another name than the usual one it is passed
            over by `read_records`: for a part of a run, which is no run.
    """

    def __init__(self, path: str | Path, *, record: str = RECORD):
        self.path = Path(path)
        self._record = record

    @classmethod
    def of(cls, runs: str | Path, *, row: str, variant: str, run_hash: str) -> "RunFolder":
        """Names the folder of a run; nothing is made yet."""
        return cls(Path(runs) / row / f"{variant}-{run_hash}")

    @property
    def checkpoints(self) -> Path:
        """Where training saves its state."""
        return self.path / "checkpoints"

    @contextlib.contextmanager
    def claim(
        self, *, wait: bool = True, on_wait: Callable[[str], None] = lambda _: None
    ) -> Iterator[None]:
        """Makes the folder and holds it against other processes."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK):
                raise PermissionError(13, "no permission to write", str(self.path))
        except OSError as error:
            raise RunsFolderError(
                f"runs cannot be written to {self.path}: {error.strerror}. "
                f"Choose another folder with `--runs`."
            ) from error
        with _locks.held(self.path, wait=wait, on_wait=on_wait):
            yield

    def is_held(self) -> bool:
        """Says whether a living process is working on this run."""
        return _locks.is_held(self.path)

    def write(self, record: Record) -> None:
        """Replaces the record."""
        text = json.dumps(record.to_json(), indent=1, allow_nan=False)
        write_atomically(self.path / self._record, lambda file: file.write(text.encode() + b"\n"))

    def write_curves(self, steps: list[int], curves: dict[str, np.ndarray]) -> None:
        """Writes the metrics over time, in single precision."""
        arrays = {name: curve.astype(np.float32) for name, curve in curves.items()}
        self._write_arrays(CURVES, {"steps": np.asarray(steps, np.int32), **arrays})

    def write_inspect(self, arrays: dict[str, np.ndarray]) -> None:
        """Writes what is worth drawing."""
        if arrays:
            self._write_arrays(INSPECT, arrays)

    def read(self) -> Record | None:
        """Returns the record, `None` when there is none, or raises `RecordError`."""
        try:
            text = (self.path / self._record).read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise RecordError(f"it cannot be read ({error})") from error
        try:
            return Record.from_json(json.loads(text))
        except json.JSONDecodeError as error:
            raise RecordError(f"it is cut off or not JSON ({error})") from error

    def read_curves(self) -> dict[str, np.ndarray]:
        """Returns `steps` and the metrics over time; empty when none are there."""
        return self._read_arrays(CURVES)

    def read_inspect(self) -> dict[str, np.ndarray]:
        """Returns what is worth drawing; empty when nothing is there."""
        return self._read_arrays(INSPECT)

    def _write_arrays(self, name: str, arrays: dict[str, Any]) -> None:
        packed = io.BytesIO()
        np.savez_compressed(packed, allow_pickle=False, **arrays)
        write_atomically(self.path / name, lambda file: file.write(packed.getvalue()))

    def _read_arrays(self, name: str) -> dict[str, np.ndarray]:
        path = self.path / name
        if not path.exists():
            return {}
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
                return dict(arrays)
        except Exception as error:  # zipfile, zlib and NumPy each have their own
            warnings.warn(f"{path} was passed over: {error}", RecordWarning, stacklevel=3)
            return {}


def read_records(runs: str | Path) -> list[tuple[RunFolder, Record]]:
    """Reads all records below a folder; what is not a record is named in a `RecordWarning`.

    A folder that does not exist has none. Raises `RunsFolderError` where a file is in its place.
    """
    if Path(runs).is_file():
        raise RunsFolderError(f"{runs} is a file; the folder of all runs was expected")
    found = []
    for path in sorted(Path(runs).rglob(RECORD)):
        folder = RunFolder(path.parent)
        try:
            record = folder.read()
        except RecordError as error:
            warnings.warn(f"{path} was passed over: {error}", RecordWarning, stacklevel=2)
            continue
        if record is not None:
            found.append((folder, record))
    return found


def evidence_folder() -> Path:
    """Returns where the records behind the published numbers are: package or checkout."""
    package = Path(__file__).parent.parent
    installed = package / "evidence"
    return installed if installed.is_dir() else package.parent.parent / "evidence"
