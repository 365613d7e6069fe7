"""Final values of all rows of a group beside each other: a line for each, a dot for each seed."""

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from recombine.experiments import Chart, Panel
from recombine.report._curves import preferred
from recombine.report._figures import PALETTE, draw_svg
from recombine.report._lines import Line

LABEL_INCHES, PANEL_INCHES, ROW_INCHES = 2.6, 2.6, 0.24
"""The width of the names, the width of a panel, the height of a row."""

LABEL_WIDTH = 33
"""Letters below a panel, in one line."""


class DrawnChart(NamedTuple):
    """A chart of what has been run."""

    title: str
    caption: str
    svg: Markup


def draw_charts(charts: Sequence[Chart], lines: Sequence[Line], *, name: str) -> list[DrawnChart]:
    """Draws every chart for which at least one row has a finished run; others are left out."""
    found = []
    for chart in charts:
        shown = _shown(lines, chart)
        if not shown:
            continue
        size = (
            LABEL_INCHES + PANEL_INCHES * len(chart.panels),
            0.9 + ROW_INCHES * len(shown),
        )
        svg = draw_svg(
            lambda axes, chart=chart, shown=shown: draw_chart(axes, chart, shown),
            name=f"{name}/chart/{chart.title}",
            title=_describe(chart, shown),
            size=size,
        )
        found.append(DrawnChart(chart.title, _caption(chart), svg))
    return found


def draw_chart(axes: Any, chart: Chart, lines: Sequence[Line]) -> None:
    """Draws the panels side by side, in place of the axes that are given."""
    figure = axes.figure
    axes.remove()
    panels = figure.subplots(1, len(chart.panels), sharey=True, squeeze=False)[0]
    for panel, where in zip(chart.panels, panels, strict=True):
        _draw_panel(where, panel, lines)
    panels[0].set_yticks(range(len(lines)), [_label(line) for line in lines])
    panels[0].set_ylim(len(lines) - 0.4, -0.6)
    for where in panels:
        where.tick_params(axis="y", length=0)
        where.grid(axis="both", color="black", alpha=0.12, linewidth=0.6)
        where.spines["left"].set_visible(False)


def _draw_panel(axes: Any, panel: Panel, lines: Sequence[Line]) -> None:
    from matplotlib.ticker import MaxNLocator

    scale = 100 if panel.metric.percent else 1
    if panel.log:
        axes.set_xscale("log")
    for place, line in enumerate(lines):
        values = _values(line, panel.metric.name)
        if not len(values):
            continue
        clipped = values if panel.low is None else np.maximum(values, panel.low)
        off = panel.low is not None and bool(np.mean(values) < panel.low)
        axes.plot(clipped * scale, np.full(len(values), place), "o", color=PALETTE[0], alpha=0.45,
                  markersize=3.5, markeredgewidth=0)  # fmt: skip
        mark = "<" if off else "|"
        axes.plot([np.mean(clipped) * scale], [place], mark, color=PALETTE[0], markersize=9,
                  markeredgewidth=1.8)  # fmt: skip
        floor = _values(line, panel.floor)
        if len(floor):
            axes.plot([np.mean(floor) * scale], [place], "o", color=PALETTE[1], fillstyle="none",
                      markersize=5)  # fmt: skip
    if not panel.log:
        axes.xaxis.set_major_locator(MaxNLocator(4))  # more run together
    label = panel.metric.label + (", %" if panel.metric.percent else "")
    axes.set_xlabel(textwrap.fill(label, LABEL_WIDTH))


def _shown(lines: Sequence[Line], chart: Chart) -> list[Line]:
    """Returns the preferred finished run of every row that has one with the chart's numbers."""
    found = []
    for row in dict.fromkeys(line.row.id for line in lines):
        for line in preferred([line for line in lines if line.row.id == row]):
            assert line.record is not None
            if line.record.is_done and len(_values(line, chart.panels[0].metric.name)):
                found.append(line)
                break
    return found


def _values(line: Line, metric: str) -> np.ndarray:
    """Returns the final values of the seeds, as far as they are numbers."""
    assert line.record is not None
    values = np.asarray(line.record.final.get(metric, ()), float)
    return values[np.isfinite(values)]


def _label(line: Line) -> str:
    return line.row.method + ("" if line.status == "full" else f" ({line.status})")


def _caption(chart: Chart) -> str:
    floors = any(panel.floor for panel in chart.panels)
    names = ", ".join(panel.floor.replace("_", " ") for panel in chart.panels if panel.floor)
    hollow = f" Hollow: {names}." if floors else ""
    edges = " An arrow points to means beyond the edge." if any(p.low for p in chart.panels) else ""
    return f"Dots: seeds. Bar: their mean.{hollow}{edges}"


def _describe(chart: Chart, lines: Sequence[Line]) -> str:
    parts = []
    for line in lines:
        means = [
            f"{panel.metric.label} {np.mean(values):.3g}"
            for panel in chart.panels
            if len(values := _values(line, panel.metric.name))
        ]
        parts.append(f"{_label(line)}: {', '.join(means)}")
    return f"{chart.title}. " + "; ".join(parts) + "."
