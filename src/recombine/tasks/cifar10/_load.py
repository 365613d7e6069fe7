"""Finds the data set, reads it once and keeps the arrays in the cache folder.

The arrays are kept under a fingerprint of what they were read from: of an archive the hash of its
bytes, of a folder the names, sizes and times of its files. What changes has another fingerprint,
so the cache is never out of date; an unreadable one is written anew.
"""

import contextlib
import hashlib
import json
import os
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np

from recombine._cache_folder import cache_folder
from recombine.tasks.cifar10._folders import ARCHIVE_ENDINGS, PARTS, read_folders
from recombine.tasks.cifar10._images import Cifar10, LabelledImages
from recombine.tasks.cifar10._official import OFFICIAL_ARCHIVES, PAGE, read_official

FORMAT = 1  # of the kept arrays


class DataMissingError(FileNotFoundError):
    """CIFAR-10 is not there; the message says where to get it and where to put it."""


def load(path: str | Path | None = None) -> Cifar10:
    """Returns CIFAR-10 as arrays of bytes, channels last.

    It is read from one of these:

    - the official archives `cifar-10-binary.tar.gz` and `cifar-10-python.tar.gz`, whose checksums
      are verified before anything in them is read;
    - a folder, or a `.tar`, `.tar.gz`, `.tar.xz` or `.zip` archive, with images of 32 x 32 pixels
      in `train/<class>/` and `test/<class>/`, PNG or JPEG.

    Nothing is unpacked to the disk and nothing is downloaded.

    Args:
        path: one of the above, or a folder that holds one under a name that starts with `cifar`.
            By default it is looked for in the folder `$RECOMBINE_DATA`, then in `data` in the
            cache folder of the library.

    Raises:
        DataMissingError: there is none; with the places that were looked at.
        ValueError: there is one, and it is damaged or something else.
    """
    source = _find(path)
    fingerprint = _fingerprint(source)
    kept = cache_folder() / "cifar10" / f"{fingerprint[:20]}.npz"
    data = _read_kept(kept, fingerprint)
    if data is None:
        data = _read(source)
        _keep(kept, fingerprint, source, data)
    return data


def _find(path: str | Path | None) -> Path:
    if path is not None:
        places = [Path(path)]
    else:
        chosen = os.environ.get("RECOMBINE_DATA")
        places = [*([Path(chosen)] if chosen else []), cache_folder() / "data"]
    for place in places:
        found = next((entry for entry in _entries(place) if _is_source(entry)), None)
        if found is not None:
            return found.resolve()
    looked = ", then ".join(str(place) for place in places)
    raise DataMissingError(
        f"CIFAR-10 is not there; looked at {looked}. Get cifar-10-binary.tar.gz from {PAGE} and "
        f"put it, as it is, into {places[-1]}; or set RECOMBINE_DATA to the folder that has it. A "
        f"folder or archive with images in train/<class>/ and test/<class>/ will do as well."
    )


def _entries(place: Path) -> list[Path]:
    """Returns what may be the data set: the place itself, or what lies in it, official first."""
    if not place.is_dir():
        return [place]
    inside = [entry for entry in sorted(place.iterdir()) if entry.name.lower().startswith("cifar")]
    return [place, *sorted(inside, key=lambda entry: entry.name not in OFFICIAL_ARCHIVES)]


def _is_source(path: Path) -> bool:
    if path.is_dir():
        return all((path / part).is_dir() for part in PARTS)
    return path.is_file() and path.name.endswith(ARCHIVE_ENDINGS)


def _read(source: Path) -> Cifar10:
    if source.name in OFFICIAL_ARCHIVES and source.is_file():
        return read_official(source)
    try:
        return read_folders(source)
    except (EOFError, OSError, zipfile.BadZipFile, *_damage()) as error:
        raise ValueError(f"{source} cannot be read to its end: {error}") from error


def _damage() -> tuple[type[Exception], ...]:
    """Returns what the readers of archives raise on damaged ones."""
    import lzma
    import tarfile
    import zlib

    return tarfile.TarError, lzma.LZMAError, zlib.error


def _fingerprint(source: Path) -> str:
    if source.is_file():
        with source.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for part in PARTS:
        for file in sorted((source / part).rglob("*")):
            about = file.stat()
            line = f"{file.relative_to(source).as_posix()} {about.st_size} {about.st_mtime_ns}\n"
            digest.update(line.encode())
    return digest.hexdigest()


def _read_kept(path: Path, fingerprint: str) -> Cifar10 | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            manifest = json.loads(str(kept["manifest"]))
            if (manifest["format"], manifest["fingerprint"]) != (FORMAT, fingerprint):
                return None
            arrays = [kept[f"{part}_{what}"] for part in PARTS for what in LabelledImages._fields]
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None
    return Cifar10(LabelledImages(*arrays[:2]), LabelledImages(*arrays[2:]))


def _keep(path: Path, fingerprint: str, source: Path, data: Cifar10) -> None:
    """Writes the arrays and what they were read from as one file, whole or not at all."""
    manifest = {"format": FORMAT, "fingerprint": fingerprint, "source": source.name}
    arrays = {
        f"{part}_{what}": getattr(getattr(data, part), what)
        for part in PARTS
        for what in LabelledImages._fields
    }
    name = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            name = file.name
            np.savez(file, manifest=np.asarray(json.dumps(manifest)), **arrays)
        os.replace(name, path)
    except OSError as error:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)
        warnings.warn(
            f"the decoded images are not kept: {path} cannot be written ({error.strerror}). Set "
            f"RECOMBINE_CACHE to a folder that can be written.",
            stacklevel=3,
        )
