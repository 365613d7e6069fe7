"""A comparison as a figure: the seeds of every run, and the differences with their intervals."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from recombine.report._figures import PALETTE, draw_png, draw_svg_file
from recombine.report._side_by_side import SideBySide
from recombine.results import write_atomically

FORMATS = (".png", ".svg")
"""How the name of a plot may end."""

LABEL_INCHES, PANEL_INCHES, RUN_INCHES = 0.075, 2.6, 0.3
"""The width of a letter of the names, the width of a panel, the height of a run."""


def save_comparison(found: SideBySide, path: str | Path) -> None:
    """Draws a comparison to a PNG or SVG file, by the end of its name; whole or not at all.

    Args:
        found: what `compare_runs` returned.
        path: the file; its folder must exist.

    Raises:
        OSError: the file cannot be written there; the message says why.
    """
    path = _checked(path)
    longest = max(len(run.label) for run in found.runs)
    size = (
        0.4 + LABEL_INCHES * longest + 2 * PANEL_INCHES,
        0.8 + RUN_INCHES * len(found.runs),
    )

    def draw(axes: Any) -> None:
        draw_comparison(axes, found)

    if path.suffix.lower() == ".svg":
        content = draw_svg_file(draw, name=f"compare/{found.metric.name}", size=size)
    else:
        content = draw_png(draw, size=size)
    write_atomically(path, lambda file: file.write(content))


def draw_comparison(axes: Any, found: SideBySide) -> None:
    """Draws two panels in place of the axes that are given: values, and differences."""
    figure = axes.figure
    axes.remove()
    values, differences = figure.subplots(1, 2, sharey=True)
    scale, unit = (100, ", %") if found.metric.percent else (1, "")
    for place, run in enumerate(found.runs):
        seeds = np.array(list(run.values.values())) * scale
        values.plot(seeds, np.full(len(seeds), place), "o", color=PALETTE[0], alpha=0.45,
                    markersize=3.5, markeredgewidth=0)  # fmt: skip
        values.plot([seeds.mean()], [place], "|", color=PALETTE[0], markersize=11,
                    markeredgewidth=1.8)  # fmt: skip
        apart = run.difference
        if apart is None:
            continue
        if apart.low is not None and apart.high is not None:
            differences.plot([apart.low * scale, apart.high * scale], [place, place], "-",
                             color=PALETTE[1])  # fmt: skip
        differences.plot([apart.mean * scale], [place], "o", color=PALETTE[1], markersize=4,
                         fillstyle="full" if apart.is_paired else "none")  # fmt: skip
    differences.axvline(0, color="black", alpha=0.5, linewidth=0.8)
    values.set_xlabel(found.metric.label + unit)
    points = ", points" if found.metric.percent else ""
    differences.set_xlabel(
        f"difference{points}, with {found.level * 100:g} % interval\nfrom {found.reference}"
    )
    values.set_yticks(range(len(found.runs)), [run.label for run in found.runs])
    values.set_ylim(len(found.runs) - 0.4, -0.6)
    for where in (values, differences):
        where.tick_params(axis="y", length=0)
        where.grid(axis="both", color="black", alpha=0.12, linewidth=0.6)
        where.spines["left"].set_visible(False)


def _checked(path: str | Path) -> Path:
    """Returns the path if a figure can be written there, and otherwise says why not."""
    path = Path(path)
    problem = None
    if path.suffix.lower() not in FORMATS:
        problem = f"its name must end with {' or '.join(FORMATS)}"
    elif not path.parent.is_dir():
        problem = f"there is no folder {path.parent}"
    elif path.is_dir():
        problem = "that is a folder"
    elif not os.access(path.parent, os.W_OK):
        problem = f"no permission to write in {path.parent}"
    if problem:
        raise OSError(f"the plot cannot be written to {path}: {problem}")
    return path
