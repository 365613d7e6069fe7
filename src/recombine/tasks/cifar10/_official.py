"""The official archives, as the University of Toronto gives them out.

An archive is compared with its published checksum before anything in it is looked at, and nothing
is written to the disk. The binary version holds records of one label byte and 3,072 pixel bytes.
The python version holds pickles, which `_pickled` reads without running anything.
"""

import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from recombine.tasks.cifar10._images import CLASSES, SIDE, Cifar10, LabelledImages
from recombine.tasks.cifar10._pickled import read_batch

PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
PIXELS = 3 * SIDE * SIDE
MAX_MEMBER_BYTES = 64 * 2**20  # a batch has 31 MB


class OfficialArchive(NamedTuple):
    """What identifies an archive."""

    size: int  # in bytes
    md5: str


OFFICIAL_ARCHIVES = {
    "cifar-10-binary.tar.gz": OfficialArchive(170_052_171, "c32a1d4ab5d03f1284b67883e8d87530"),
    "cifar-10-python.tar.gz": OfficialArchive(170_498_071, "c58f30108f718f92721af3b95e74349a"),
}
"""By file name, with the checksums of the official page."""


def read_official(path: Path) -> Cifar10:
    """Reads an archive whose name is in `OFFICIAL_ARCHIVES`; anything else in it is an error."""
    verify(path)
    if "binary" in path.name:
        names, read = _names("cifar-10-batches-bin/", ".bin"), _read_records
    else:
        names, read = _names("cifar-10-batches-py/", ""), _read_pickled
    parts = _read_members(path, names, read)
    *train, test = (parts[name] for name in names)
    joined = LabelledImages(
        np.concatenate([part.images for part in train]),
        np.concatenate([part.labels for part in train]),
    )
    return Cifar10(joined, test)


def verify(path: Path) -> None:
    """Raises `ValueError` unless the file is, byte for byte, the official one of its name."""
    expected = OFFICIAL_ARCHIVES[path.name]
    size = path.stat().st_size
    if size != expected.size:
        raise ValueError(
            f"{path} has {size:,} bytes where the official archive has {expected.size:,}: the "
            f"download is incomplete, or it is another file. Get it again from {PAGE}"
        )
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != expected.md5:
        raise ValueError(
            f"{path} has the MD5 checksum {found} where the official archive has {expected.md5}; "
            f"it was not unpacked. Get it again from {PAGE}"
        )


def _names(folder: str, ending: str) -> list[str]:
    batches = [f"data_batch_{number}" for number in range(1, 6)]
    return [f"{folder}{name}{ending}" for name in (*batches, "test_batch")]


def _read_members(
    path: Path, names: list[str], read: Callable[[bytes, str], LabelledImages]
) -> dict[str, LabelledImages]:
    parts: dict[str, LabelledImages] = {}
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name in names else None
            if file is not None:
                if member.size > MAX_MEMBER_BYTES:
                    raise ValueError(f"{path}: {member.name} is too large: {member.size:,} bytes")
                parts[member.name] = read(file.read(), f"{path}: {member.name}")
    missing = [name for name in names if name not in parts]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}")
    return parts


def _read_records(data: bytes, where: str) -> LabelledImages:
    if not data or len(data) % (1 + PIXELS):
        raise ValueError(
            f"{where} must hold records of {1 + PIXELS:,} bytes, a label and {PIXELS:,} pixels; "
            f"got {len(data):,} bytes"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, 1 + PIXELS)
    return _labelled(records[:, 1:], records[:, 0], where)


def _read_pickled(data: bytes, where: str) -> LabelledImages:
    pixels, labels = read_batch(data, where)
    return _labelled(pixels, labels, where)


def _labelled(
    pixels: UInt8[np.ndarray, "examples 3072"], labels: np.ndarray, where: str
) -> LabelledImages:
    """Turns planes of red, green and blue into channels-last images."""
    if labels.max(initial=0) >= len(CLASSES) or labels.min(initial=0) < 0:
        raise ValueError(f"{where}: labels must be 0 to {len(CLASSES) - 1}; got {labels.max()}")
    planes = pixels.reshape(-1, 3, SIDE, SIDE)
    return LabelledImages(
        np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels.astype(np.int32)
    )
