"""Images in class folders, `train/<class>/*` and `test/<class>/*`, in a folder or in an archive.

Archives are read from end to end and never unpacked to the disk. Within a class the images are in
the order of their names, so that the same files always make the same arrays.
"""

import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
from jaxtyping import UInt8

from recombine.tasks.cifar10._images import CLASSES, SIDE, Cifar10, LabelledImages

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
ARCHIVE_ENDINGS = (*TAR_ENDINGS, ".zip")
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg")
MAX_IMAGE_BYTES = 2**20  # an image of 32 x 32 needs a few thousand
PARTS = ("train", "test")

Place = tuple[str, str, str]
"""Part, class and file name of an image."""


def read_folders(path: Path) -> Cifar10:
    """Reads a folder or an archive of class folders; the classes are those of CIFAR-10."""
    images: dict[Place, UInt8[np.ndarray, "32 32 3"]] = {}
    for name, data in _files(path):
        place = _place(path, name)
        if place is not None:
            if place in images:
                raise ValueError(f"{path} has {'/'.join(place)} twice")
            images[place] = _decode(data, f"{path}: {name}")
    return Cifar10(*(_part(path, part, images) for part in PARTS))


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the name, with forward slashes, and the contents of every image file."""
    if path.is_dir():
        for part in PARTS:
            for file in sorted((path / part).rglob("*")):
                name = file.relative_to(path).as_posix()
                if file.is_file() and _is_image(name):
                    yield name, _limited(file.read_bytes(), name, path)
    elif path.name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if not member.is_dir() and _is_image(member.filename):
                    _check_size(member.file_size, member.filename, path)
                    yield member.filename, archive.read(member)
    else:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                if _is_image(member.name):
                    file = archive.extractfile(member) if member.isreg() else None
                    if file is None:
                        raise ValueError(f"{path}: {member.name} is a link or no plain file")
                    _check_size(member.size, member.name, path)
                    yield member.name, file.read()


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGE_ENDINGS)


def _limited(data: bytes, name: str, path: Path) -> bytes:
    _check_size(len(data), name, path)
    return data


def _check_size(size: int, name: str, path: Path) -> None:
    if size > MAX_IMAGE_BYTES:
        raise ValueError(f"{path}: {name} has {size:,} bytes, too many for a 32 x 32 image")


def _place(path: Path, name: str) -> Place | None:
    """Finds part and class in a name; images elsewhere, such as a picture of the set, are none."""
    pure = PurePosixPath(name.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts:
        raise ValueError(f"{path}: the name {name!r} leads out of the archive; it was not read")
    if len(pure.parts) < 3 or pure.parts[-3] not in PARTS:
        return None
    part, label, file = pure.parts[-3:]
    if label not in CLASSES:
        raise ValueError(
            f"{path}: {part}/{label} is no class of CIFAR-10; they are {', '.join(CLASSES)}"
        )
    return part, label, file


def _decode(data: bytes, where: str) -> UInt8[np.ndarray, "32 32 3"]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.size == (SIDE, SIDE):  # known before any pixel is decoded
                return np.asarray(image.convert("RGB"))
            found = image.size
    except (UnidentifiedImageError, OSError) as error:
        raise ValueError(f"{where} is not a whole PNG or JPEG image: {error}") from error
    raise ValueError(f"{where} must be {SIDE} x {SIDE} pixels; got {found[0]} x {found[1]}")


def _part(
    path: Path, part: str, images: dict[Place, UInt8[np.ndarray, "32 32 3"]]
) -> LabelledImages:
    places = sorted(place for place in images if place[0] == part)
    present = {label for _, label, _ in places}
    missing = [name for name in CLASSES if name not in present]
    if missing:
        raise ValueError(
            f"{path} must have images in {part}/<class>/ for all ten classes; there are none for "
            f"{', '.join(missing)}. (An official archive is known by its name: leave it as it is.)"
        )
    labels = [CLASSES.index(label) for _, label, _ in places]
    return LabelledImages(
        np.stack([images[place] for place in places]), np.asarray(labels, np.int32)
    )
