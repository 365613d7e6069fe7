"""Lines as JSON, as Markdown, and as short texts."""

import math
from collections.abc import Sequence
from typing import Any

from recombine.experiments import Metric
from recombine.report._lines import Line, Summary

SMALL = 1e-3
"""Numbers below have an exponent."""

NEGLIGIBLE = 1e-5
"""A spread so small beside its mean is rounding: its digits are not shown."""

COLUMNS = ("row", "method", "metric", "paper", "ours", "verdict", "run", "seeds", "device", "time")
"""The heads of a table, in order; `cells` gives the texts below them."""


def line_to_json(line: Line) -> dict[str, Any]:
    """Returns the documented, stable form of a line (see the command line page)."""
    paper = Summary(line.paper.mean, line.paper.sd, line.paper.n)
    record = line.record
    return {
        "id": line.row.id,
        "method": line.row.method,
        "metric": line.row.metric.name,
        "higher_is_better": line.row.metric.higher_is_better,
        "paper": paper._asdict() if paper.mean is not None else None,
        "source": line.paper.source,
        "ours": line.ours._asdict() if line.ours else None,
        "selected": line.selected._asdict() if line.selected else None,
        "verdict": line.verdict.word,
        "reason": line.verdict.reason,
        "variant": record.variant if record else None,
        "changed": line.changed,
        "hash": record.hash if record else None,
        "device": record.provenance.device if record else None,
        "seconds": record.total_seconds if record and record.is_done else None,
    }


def cells(line: Line) -> tuple[str, ...]:
    """Returns the texts of a line, one for each of `COLUMNS`."""
    paper = Summary(line.paper.mean, line.paper.sd, line.paper.n)
    record = line.record
    return (
        line.row.id,
        line.row.method,
        line.row.metric.label,
        summary_text(paper if paper.mean is not None else None, line.row.metric),
        summary_text(line.ours, line.row.metric),
        line.verdict.word,
        line.status,
        str(len(record.seeds)) if record else "",
        record.provenance.device if record else "",
        f"{record.total_seconds:.0f} s" if record and record.is_done else "",
    )


def selected_text(line: Line) -> str:
    """Says what a run's metric was at the step that validation would choose; or nothing."""
    selection = line.row.selection
    if line.selected is None or selection is None:
        return ""
    value = summary_text(line.selected, line.row.metric)
    extreme = "highest" if selection.higher_is_better else "lowest"
    return f"{value} where {selection.label} is {extreme}"


def to_markdown(lines: Sequence[Line]) -> str:
    """Returns a Markdown table."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(cells(line) for line in lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def summary_text(summary: Summary | None, metric: Metric) -> str:
    """Returns the mean and, where known, the spread: `99.95 ± 0.08 %`.

    Shares have two decimals. Other numbers have four, and more where two digits of the spread, or
    three of a mean without one, need them; very small ones have an exponent.
    """
    if summary is None or summary.mean is None:
        return "–"
    mean, sd = summary.mean, summary.sd
    if metric.percent:
        return f"{mean * 100:.2f}" + ("" if sd is None else f" ± {sd * 100:.2f}") + " %"
    if 0 < max(abs(mean), sd or 0) < SMALL:
        return f"{mean:.2e}" + ("" if sd is None else f" ± {sd:.1e}")
    digits = 4
    if sd is None and mean:
        digits = max(digits, 2 - _order(mean))
    elif sd and sd > NEGLIGIBLE * abs(mean):
        digits = max(digits, 1 - _order(sd))
    return f"{mean:.{digits}f}" + ("" if sd is None else f" ± {sd:.{digits}f}")


def signed_text(value: float, metric: Metric) -> str:
    """Writes a difference with its sign, in percentage points for shares: `+1.20`, `−3.2e-05`."""
    text = f"{value * 100:+.2f}" if metric.percent else f"{value:+.3g}"
    return "0" if not text.strip("+-0.") else text.replace("-", "−", 1 if value < 0 else 0)


def _order(value: float) -> int:
    """Returns the power of ten of a number's first digit."""
    return math.floor(math.log10(abs(value)))
