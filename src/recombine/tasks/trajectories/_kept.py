"""Arrays that are made once and kept in the cache folder.

A kept file is named after everything it depends on: the parameters of the request, among them the
seed, and the version of the code that makes it, which is a hash of the source. A changed generator
therefore looks for another name and never finds old data. Beside the arrays lies a manifest with
all of this in words and the hash of the arrays; a file whose arrays do not have this hash is made
anew.
"""

import contextlib
import hashlib
import io
import json
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recombine._cache_folder import cache_folder

Arrays = dict[str, np.ndarray]


def keep_or_make(
    name: str,
    parameters: Mapping[str, Any],
    version: str,
    make: Callable[[], Arrays],
    *,
    folder: str | Path | None = None,
    keep: bool = True,
) -> Arrays:
    """Returns the arrays that `make` makes, from the disk where they were made before.

    Args:
        name: of the folder in the cache, for example the task's.
        parameters: everything that the arrays depend on, the seed included; must fit into JSON.
        version: of the code that makes them; see `code_version`.
        make: makes the arrays.
        folder: the cache folder; by default the library's.
        keep: whether to look there, and to keep what is made.

    Example:
        >>> import tempfile
        >>> make = lambda: {"numbers": np.arange(3)}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     keep_or_make("demo", {"seed": 0}, "1", make, folder=folder)["numbers"].tolist()
        [0, 1, 2]
    """
    if not keep:
        return make()
    request = {"name": name, "parameters": dict(parameters), "code_version": version}
    fingerprint = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    place = (cache_folder() if folder is None else Path(folder)) / name
    path = place / f"{fingerprint[:20]}.npz"
    kept = _read(path, request)
    if kept is not None:
        return kept
    arrays = make()
    _write(path, request, arrays)
    return arrays


def code_version(files: Iterable[str | Path]) -> str:
    """Returns a hash of source files, as Python reads them: comments and layout do not count.

    Example:
        >>> len(code_version([__file__]))
        16
    """
    import ast

    digest = hashlib.sha256()
    for file in sorted(Path(file) for file in files):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        digest.update(f"{file.name}\n{ast.dump(tree)}\n".encode())
    return digest.hexdigest()[:16]


def _read(path: Path, request: dict[str, Any]) -> Arrays | None:
    try:
        manifest = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if manifest["request"] != json.loads(json.dumps(request)):
            return None
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in kept.files}
        return arrays if manifest["sha256"] == _hash(arrays) else None
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None


def _write(path: Path, request: dict[str, Any], arrays: Arrays) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # pyright: ignore[reportArgumentType]
    manifest = {
        "request": request,
        "sha256": _hash(arrays),
        "arrays": {name: f"{a.dtype}{list(a.shape)}" for name, a in arrays.items()},
        # Arrays of strings, such as the versions of a simulator, are there to be read.
        "words": {name: a.tolist() for name, a in arrays.items() if a.dtype.kind == "U"},
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, buffer.getvalue())
        # Last: a reader that finds the manifest finds its arrays, or sees that they differ.
        _replace(path.with_suffix(".json"), json.dumps(manifest, indent=1).encode())
    except OSError as error:
        warnings.warn(
            f"the trajectories are not kept: {path} cannot be written ({error.strerror}). Set "
            f"RECOMBINE_CACHE to a folder that can be written.",
            stacklevel=3,
        )


def _hash(arrays: Arrays) -> str:
    """Hashes what is in the arrays; a compressed file also has the time of day in it."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype}{list(array.shape)}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _replace(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
