"""The pictures that rows define, drawn from what their runs left to look at."""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from markupsafe import Markup

from recombine.experiments import Animation, Picture, Row
from recombine.report._curves import preferred
from recombine.report._figures import draw_png, draw_svg
from recombine.report._lines import Line
from recombine.results import write_atomically

Shown = TypeVar("Shown", Picture, Animation)
Arrays = Mapping[str, np.ndarray]

SIZE = (3.0, 3.0)
"""Width and height in inches, unless a picture chooses its own."""


WIDE = 450.0
"""Points; wider pictures do not stand side by side."""


class Drawn(NamedTuple):
    """A picture of one run, or the reason why there is none."""

    line: Line
    seed: int
    svg: Markup | None
    problem: str = ""

    @property
    def is_wide(self) -> bool:
        """Whether it needs a line of the page for itself."""
        width = re.search(r'width="([\d.]+)"', self.svg or "")
        return width is not None and float(width[1]) > WIDE


class Comparison(NamedTuple):
    """The same picture of several rows, side by side."""

    title: str
    pictures: list[Drawn]


def draw_pictures(lines: Sequence[Line], *, name: str) -> list[Comparison]:
    """Draws every picture of every row whose preferred run left the arrays that it needs."""
    comparisons: dict[str, Comparison] = {}
    for picture, line, arrays in _drawable(lines, lambda row: row.pictures):
        comparison = comparisons.setdefault(picture.title, Comparison(picture.title, []))
        comparison.pictures.append(_draw(picture, line, arrays, name))
    return list(comparisons.values())


def save_pictures(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Writes pictures as PNG and animations as GIF files, named by row and title.

    Beside what the preferred runs left, rows that can show their task without a run do so. Returns
    where the files are. Raises `OSError` where they cannot be written; the message says why.
    """
    files: dict[str, bytes] = {}

    def draw(row: Row, picture: Picture, arrays: Arrays) -> None:
        drawn = draw_png(lambda axes: picture.draw(axes, arrays), size=SIZE)
        files[f"{_slug(row.id)}-{_slug(picture.title)}.png"] = drawn

    def animate(row: Row, animation: Animation, arrays: Arrays) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "moving.gif"
            animation.save(arrays, path)
            files[f"{_slug(row.id)}-{_slug(animation.title)}.gif"] = path.read_bytes()

    for picture, line, arrays in _drawable(lines, lambda row: row.pictures):
        draw(line.row, picture, arrays)
    for animation, line, arrays in _drawable(lines, lambda row: row.animations):
        animate(line.row, animation, arrays)
    for row in {line.row.id: line.row for line in lines}.values():
        if row.sample:
            arrays = row.sample.make(row.full.config)
            for picture in row.sample.pictures:
                draw(row, picture, arrays)
            for animation in row.sample.animations:
                animate(row, animation, arrays)
    try:
        if files:
            folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_atomically(folder / name, lambda file, content=content: file.write(content))
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"pictures cannot be written to {folder}: {reason}") from error
    return [folder / name for name in files]


def _drawable(
    lines: Sequence[Line], wanted_of: Callable[[Row], tuple[Shown, ...]]
) -> Iterator[tuple[Shown, Line, Arrays]]:
    """Finds for every picture of every row the preferred run that left what it needs."""
    for row in {line.row.id: line.row for line in lines}.values():
        wanted = wanted_of(row)
        arrays_of: list[tuple[Line, Arrays]] = [
            (line, line.folder.read_inspect())
            for line in preferred([line for line in lines if line.row.id == row.id])
            if wanted and line.folder
        ]
        for one in wanted:
            found = _find(one.needs, arrays_of)
            if found:
                yield one, *found


def _find(
    needs: Sequence[str], arrays_of: Sequence[tuple[Line, Arrays]]
) -> tuple[Line, Arrays] | None:
    """Returns the first that has everything that is needed."""
    return next((found for found in arrays_of if all(need in found[1] for need in needs)), None)


def _slug(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _draw(picture: Picture, line: Line, arrays: Arrays, name: str) -> Drawn:
    assert line.record is not None
    seed = line.record.seeds[0]
    title = f"{picture.title}: {line.row.method}, {line.status}, seed {seed}"
    try:
        svg = draw_svg(
            lambda axes: picture.draw(axes, arrays),
            name=f"{name}/{picture.title}/{line.row.id}",
            title=title,
            size=SIZE,
        )
    except Exception as error:  # a picture is a row's own code: the page must survive it
        return Drawn(line, seed, None, f"{type(error).__name__}: {error}")
    return Drawn(line, seed, svg)
