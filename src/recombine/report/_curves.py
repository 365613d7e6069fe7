"""Learning curves: the rows of a group beside each other, one figure per metric."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from markupsafe import Markup

from recombine.experiments import Metric
from recombine.report._figures import PALETTE, draw_svg
from recombine.report._lines import Line

MAX_POINTS = 300
"""Drawn per curve; more could not be told apart."""

DECADES = 30.0
"""Values so many times apart are drawn on a logarithmic axis."""

DASHES = ("none", "5 2", "1.5 1.5", "6 1.5 1.5 1.5")
"""In SVG's notation. Neighbours differ in colour and in dash, for those who see no colour."""


class Pen(NamedTuple):
    """How a row is drawn in all figures of its group."""

    color: str
    series: int  # the page's colour of that number
    dash: str

    @classmethod
    def number(cls, index: int) -> "Pen":
        """Returns the pen of the row of that number; they repeat only after a good many."""
        series = index % len(PALETTE)
        return cls(PALETTE[series], series, DASHES[(index + index // len(PALETTE)) % len(DASHES)])

    @property
    def line_style(self) -> Any:
        """The dash as matplotlib writes it."""
        return "-" if self.dash == "none" else (0, tuple(float(n) for n in self.dash.split()))


class Curve(NamedTuple):
    """What one run measured over time."""

    line: Line
    pen: Pen
    steps: Int[np.ndarray, " evaluations"]
    metrics: Mapping[str, Float[np.ndarray, "evaluations seeds"]]

    @property
    def label(self) -> str:
        """Which row, which run of it, and how many seeds."""
        assert self.line.record is not None
        seeds = len(self.line.record.seeds)
        return (
            f"{self.line.row.method}: {self.line.status}, {seeds} seed{'s' if seeds > 1 else ''}"
            f"{'' if self.line.record.is_done else ', ' + self.line.verdict.word}"
        )


class CurveFigure(NamedTuple):
    """A drawn metric."""

    metric: Metric
    svg: Markup

    @property
    def caption(self) -> str:
        """What is drawn and, where that is not the step, against what."""
        over = self.metric.over
        return self.metric.label + (f" against {over.label}" if over else "")


def preferred(lines: Sequence[Line]) -> list[Line]:
    """Returns the lines of a row that were run, the one most worth drawing first.

    A finished run comes before an unfinished one, then unchanged settings before changed ones,
    then the full variant before the quick one.
    """
    run = [(line, line.record) for line in lines if line.record]  # full before quick already
    run.sort(key=lambda entry: (not entry[1].is_done, bool(entry[0].changed)))
    return [line for line, _ in run]


def read_curves(lines: Sequence[Line]) -> list[Curve]:
    """Reads one curve per row, that of the preferred run that left one."""
    curves: list[Curve] = []
    for number, row in enumerate(dict.fromkeys(line.row.id for line in lines)):
        for line in preferred([line for line in lines if line.row.id == row]):
            assert line.folder is not None
            arrays = line.folder.read_curves()
            steps = arrays.pop("steps", np.zeros(0, int))
            metrics = {
                name: values
                for name, values in arrays.items()
                if values.ndim == 2 and len(values) == len(steps) > 0 and values.shape[1]
            }
            if metrics:
                curves.append(Curve(line, Pen.number(number), steps, metrics))
                break
    return curves


def draw_curves(curves: Sequence[Curve], *, name: str) -> list[CurveFigure]:
    """Draws a figure for every metric that the rows name and at least one of them recorded.

    Rows that mean different things by one name do not share a figure.
    """
    named: dict[tuple[str, str, bool, str], Metric] = {}
    for curve in curves:
        for metric in _metrics(curve):
            key = metric.name, metric.label, metric.percent, _over(metric)
            named.setdefault(key, metric)
    figures = []
    for metric in named.values():
        needed = {metric.name, _over(metric) or metric.name}
        shown = [
            curve
            for curve in curves
            if needed <= set(curve.metrics) and not _means_another(curve, metric)
        ]
        if shown:
            svg = draw_svg(
                lambda axes, metric=metric, shown=shown: _draw_metric(axes, metric, shown),
                name="/".join(filter(None, (name, metric.name, _over(metric)))),
                title=_describe(metric, shown),
                size=(4.4, 2.75),
            )
            figures.append(CurveFigure(metric, svg))
    return figures


def mean_and_spread(
    values: Float[np.ndarray, "evaluations seeds"],
) -> tuple[Float[np.ndarray, " evaluations"], Float[np.ndarray, " evaluations"]]:
    """Returns mean and standard deviation (over n - 1) of the seeds that have a finite value."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    values = np.where(known, values, 0.0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(count > 0, values.sum(axis=1) / count, np.nan)
        squares = np.where(known, values - mean[:, None], 0.0) ** 2
        spread = np.where(count > 1, np.sqrt(squares.sum(axis=1) / (count - 1)), 0.0)
    return mean, spread


def thinned(count: int) -> Int[np.ndarray, " points"]:
    """Returns which of so many points to draw: all, or `MAX_POINTS` from first to last."""
    return np.unique(np.linspace(0, count - 1, min(count, MAX_POINTS)).round().astype(int))


def _metrics(curve: Curve) -> tuple[Metric, ...]:
    return curve.line.row.metric, *curve.line.row.also


def _means_another(curve: Curve, metric: Metric) -> bool:
    """Whether the row of a curve calls something else by the metric's name."""
    same = [one for one in _metrics(curve) if one.name == metric.name]
    return bool(same) and all(
        (one.label, one.percent) != (metric.label, metric.percent) for one in same
    )


def _over(metric: Metric) -> str:
    """Returns the name of what a metric is drawn against; empty for the step."""
    return metric.over.name if metric.over else ""


def _draw_metric(axes: Any, metric: Metric, curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    scale = 100 if metric.percent else 1
    is_log = not metric.percent and _spans_decades(metric, curves)
    if is_log:
        axes.set_yscale("log")
    for curve in curves:
        kept = thinned(len(curve.steps))
        steps = curve.steps[kept]
        if metric.over:
            steps, _ = mean_and_spread(curve.metrics[metric.over.name][kept])
        mean, spread = mean_and_spread(curve.metrics[metric.name][kept] * scale)
        low, high = mean - spread, mean + spread
        if metric.percent:  # a share cannot leave its range
            low, high = np.maximum(low, 0), np.minimum(high, 100)
        elif is_log:
            low = np.maximum(low, mean / 100)  # zero has no place on such an axis
        color = curve.pen.color
        axes.fill_between(steps, low, high, color=color, alpha=0.18, linewidth=0)
        axes.plot(steps, mean, color=color, linestyle=curve.pen.line_style)
        if len(steps) == 1:
            axes.plot(steps, mean, "o", color=color, markersize=3)
        paper = curve.line.paper.mean
        if paper is not None and metric.name == curve.line.row.metric.name:
            axes.axhline(paper * scale, color=color, linestyle=(0, (0.6, 2)), linewidth=1)
    axes.grid(axis="y", color="black", alpha=0.12, linewidth=0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if is_log:
        axes.set_ylim(bottom=_means(metric, curves).min() / 1.5)  # a wide band may reach lower
    else:
        axes.yaxis.set_major_locator(MaxNLocator(6))
    few = axes.get_xlim()[1] >= 1e6  # long numbers need room
    axes.xaxis.set_major_locator(MaxNLocator(4 if few else 6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    if metric.percent:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g} %"))
    axes.set_xlabel(metric.over.label if metric.over else "step")


def _spans_decades(metric: Metric, curves: Sequence[Curve]) -> bool:
    """Whether the means are so far apart that on a linear axis the small ones lie on one line."""
    known = _means(metric, curves)
    return bool(len(known)) and bool(known.min() > 0) and bool(known.max() > DECADES * known.min())


def _means(metric: Metric, curves: Sequence[Curve]) -> Float[np.ndarray, " points"]:
    """Returns the means of all curves at all steps, as far as they are numbers."""
    means = np.concatenate([mean_and_spread(curve.metrics[metric.name])[0] for curve in curves])
    return means[np.isfinite(means)]


def _describe(metric: Metric, curves: Sequence[Curve]) -> str:
    ends = []
    for curve in curves:
        mean, _ = mean_and_spread(curve.metrics[metric.name][-1:])
        value = f"{mean[0] * 100:.1f} %" if metric.percent else f"{mean[0]:.4g}"
        ends.append(f"{curve.label}, ends at {value}")
    along = metric.over.label if metric.over else "training steps"
    return f"{metric.label} over {along}. " + "; ".join(ends) + "."
