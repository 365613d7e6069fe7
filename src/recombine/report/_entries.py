"""A line of a table as the page shows it: texts for people, keys for sorting."""

import math
from dataclasses import dataclass
from typing import Any

from recombine.report._lines import Line, Summary
from recombine.report._tables import selected_text, signed_text, summary_text
from recombine.results import Record

TONES = {
    "reproduced": "good",
    "effect shown": "good",
    "missed": "bad",
    "effect not shown": "bad",
    "failed": "bad",
    "unfinished": "open",
    "running": "open",
}
"""What a verdict means for its colour; the others, "not run" and "not judged", are neutral."""


def tone_of(verdict: str) -> str:
    """Returns "good", "bad", "open" or "none"."""
    return TONES.get(verdict, "none")


@dataclass(frozen=True)
class Cell:
    """A text, and what it is sorted by where that is a number."""

    label: str
    text: str
    key: float | None = None
    is_number: bool = False
    remark: str = ""  # smaller, below the text


@dataclass(frozen=True)
class Entry:
    """One line, ready for the page."""

    line: Line

    @property
    def tone(self) -> str:
        """The verdict's."""
        return tone_of(self.line.verdict.word)

    @property
    def cells_before(self) -> tuple[Cell, ...]:
        """What stands between the row's name and its verdict."""
        line, metric = self.line, self.line.row.metric
        paper = Summary(line.paper.mean, line.paper.sd, line.paper.n)
        size = f"n = {paper.n}" if paper.n and paper.mean is not None else ""
        difference = self.difference
        return (
            Cell("metric", metric.label),
            Cell("paper", summary_text(paper, metric), paper.mean, True, size),
            Cell("ours", summary_text(line.ours, metric), _mean(line.ours), True),
            Cell("difference", self._difference_text(), difference, True),
        )

    @property
    def cells_after(self) -> tuple[Cell, ...]:
        """What stands behind the verdict."""
        record = self.line.record
        if record is None:
            texts = ("not run", "–", "–", "–")
            labels = ("run", "seeds", "device", "time")
            numbers = ("seeds", "time")
            return tuple(
                Cell(label, text, None, label in numbers)
                for label, text in zip(labels, texts, strict=True)
            )
        seconds = record.total_seconds if record.seconds else None
        return (
            Cell("run", self.line.status),
            Cell("seeds", str(len(record.seeds)), len(record.seeds), True),
            Cell("device", record.provenance.device),
            Cell("time", "–" if seconds is None else duration(seconds), seconds, True),
        )

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        ours, paper = _mean(self.line.ours), self.line.paper.mean
        return None if ours is None or paper is None else ours - paper

    @property
    def note(self) -> str:
        """How the settings of this run, or of the row's full run, differ from the published."""
        record = self.line.record
        return self.line.row.variant(record.variant if record else "full").note

    @property
    def selected(self) -> str:
        """What came of the step that validation would choose; empty where nothing chooses."""
        return selected_text(self.line)

    @property
    def error(self) -> str:
        """Why the run did not finish; empty when it did."""
        record = self.line.record
        if record is None or record.is_done:
            return ""
        return record.error or self.line.verdict.reason

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What was run, and on what."""
        record = self.line.record
        return [] if record is None else [(name, text) for name, text in _facts(record) if text]

    @property
    def settings(self) -> list[tuple[str, str]]:
        """The config, flat; nested names have dots."""
        return [] if self.line.record is None else _flat(self.line.record.config)

    def _difference_text(self) -> str:
        if self.difference is None:
            return "–"
        return signed_text(self.difference, self.line.row.metric)


def duration(seconds: float) -> str:
    """Returns a time span in the two units that matter.

    Example:
        >>> duration(8.25), duration(75), duration(7384)
        ('8.2 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _mean(summary: Summary | None) -> float | None:
    if summary is None or summary.mean is None or not math.isfinite(summary.mean):
        return None
    return summary.mean


def _facts(record: Record) -> list[tuple[str, str]]:
    versions = record.provenance.versions
    return [
        ("run", f"{record.variant}-{record.hash}"),
        ("steps", f"{record.steps:,}, evaluated every {record.eval_every:,}"),
        ("seeds", _spans(record.seeds)),
        ("started", record.started),
        ("finished", record.finished or ""),
        ("time", ", ".join(f"{name} {duration(s)}" for name, s in record.seconds.items())),
        ("device", f"{record.provenance.num_devices} × {record.provenance.device}"),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("commit", record.provenance.commit or ""),
    ]


def _spans(seeds: tuple[int, ...]) -> str:
    """Writes runs of neighbours short: `0–49`, `3, 7–9`."""
    spans: list[list[int]] = []
    for seed in seeds:
        if spans and seed == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], seed]
        else:
            spans.append([seed])
    return ", ".join("–".join(str(seed) for seed in span) for span in spans)


def _flat(config: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    flat: list[tuple[str, str]] = []
    for name, value in config.items():
        if isinstance(value, dict):
            flat += _flat(value, f"{prefix}{name}.")
        else:
            flat.append((prefix + name, str(value)))
    return flat
