"""The pictures that rows define, drawn from what their runs left to look at."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from recombine.experiments import Picture
from recombine.report._curves import preferred
from recombine.report._figures import draw_png, draw_svg
from recombine.report._lines import Line
from recombine.results import write_atomically

SIZE = (3.0, 3.0)
"""Width and height in inches, unless a picture chooses its own."""


class Drawn(NamedTuple):
    """A picture of one run, or the reason why there is none."""

    line: Line
    seed: int
    svg: Markup | None
    problem: str = ""


class Comparison(NamedTuple):
    """The same picture of several rows, side by side."""

    title: str
    pictures: list[Drawn]


def draw_pictures(lines: Sequence[Line], *, name: str) -> list[Comparison]:
    """Draws every picture of every row whose preferred run left the arrays that it needs."""
    comparisons: dict[str, Comparison] = {}
    for picture, line, arrays in _drawable(lines):
        comparison = comparisons.setdefault(picture.title, Comparison(picture.title, []))
        comparison.pictures.append(_draw(picture, line, arrays, name))
    return list(comparisons.values())


def save_pictures(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Writes the same pictures as PNG files, named by row and title; returns where they are."""
    found = list(_drawable(lines))
    if found:
        folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for picture, line, arrays in found:
        drawn = draw_png(lambda axes, p=picture, a=arrays: p.draw(axes, a), size=SIZE)
        path = folder / f"{_slug(line.row.id)}-{_slug(picture.title)}.png"
        write_atomically(path, lambda file, drawn=drawn: file.write(drawn))
        paths.append(path)
    return paths


def _drawable(
    lines: Sequence[Line],
) -> Iterator[tuple[Picture, Line, Mapping[str, np.ndarray]]]:
    """Finds for every picture of every row the preferred run that left what it needs."""
    for row in {line.row.id: line.row for line in lines}.values():
        arrays_of = [
            (line, line.folder.read_inspect())
            for line in preferred([line for line in lines if line.row.id == row.id])
            if row.pictures and line.folder
        ]
        for picture in row.pictures:
            for line, arrays in arrays_of:
                if all(need in arrays for need in picture.needs):
                    yield picture, line, arrays
                    break


def _slug(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _draw(picture: Picture, line: Line, arrays: Mapping[str, np.ndarray], name: str) -> Drawn:
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
