"""Lines as JSON, as Markdown, and as short texts."""

from collections.abc import Sequence
from typing import Any

from recombine.experiments import Metric
from recombine.report._lines import Line, Summary

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


def to_markdown(lines: Sequence[Line]) -> str:
    """Returns a Markdown table."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(cells(line) for line in lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def summary_text(summary: Summary | None, metric: Metric) -> str:
    """Returns the mean and, where known, the spread: `99.95 ± 0.08 %`."""
    if summary is None or summary.mean is None:
        return "–"
    scale, digits, unit = (100, 2, " %") if metric.percent else (1, 4, "")
    spread = "" if summary.sd is None else f" ± {summary.sd * scale:.{digits}f}"
    return f"{summary.mean * scale:.{digits}f}{spread}{unit}"
