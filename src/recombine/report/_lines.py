"""From rows and records to the lines of a table: ours beside the paper's, with a verdict.

A verdict follows the rule that the row states; nothing is judged by eye.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recombine.experiments import Paper, Row
from recombine.results import Record, RunFolder

Records = Sequence[tuple[RunFolder, Record]]

WORDS = {
    ("full", True): "reproduced",
    ("full", False): "missed",
    ("quick", True): "effect shown",
    ("quick", False): "effect not shown",
}
"""How a judged run is called: a quick one shows an effect, it reproduces nothing."""


class Summary(NamedTuple):
    """Mean and spread over seeds; `sd` divides by n - 1 and is None for one seed."""

    mean: float | None
    sd: float | None
    n: int | None

    @classmethod
    def of(cls, values: np.ndarray) -> "Summary | None":
        """Summarises the final values of the seeds."""
        if not len(values):
            return None
        sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return cls(float(np.mean(values)), sd, len(values))


class Verdict(NamedTuple):
    """A word for the table, and the reason behind it."""

    word: str
    reason: str


@dataclass(frozen=True)
class Line:
    """One row of a table."""

    row: Row
    verdict: Verdict
    ours: Summary | None = None
    record: Record | None = None
    folder: RunFolder | None = None

    @property
    def paper(self) -> Paper:
        """The printed value."""
        return self.row.paper

    @property
    def status(self) -> str:
        """What has been run: "full", "quick", …, "full, changed", or "not run"."""
        if self.record is None:
            return "not run"
        return self.record.variant + (", changed" if self.record.changed else "")


def make_lines(rows: Sequence[Row], records: Records) -> list[Line]:
    """Makes a line for the best record of every variant of every row; a row without one shows so.

    Of several records the finished one wins, then the one with more seeds, then the newer one.
    """
    lines = []
    for row in rows:
        mine = [entry for entry in records if entry[1].row == row.id]
        kinds = {(record.variant, bool(record.changed)) for _, record in mine}
        for kind in sorted(kinds, key=lambda k: (("full", "quick", "tiny").index(k[0]), k[1])):
            folder, record = max(
                (entry for entry in mine if (entry[1].variant, bool(entry[1].changed)) == kind),
                key=lambda entry: _worth(entry[1]),
            )
            ours = Summary.of(record.values(row.metric.name)) if record.is_done else None
            lines.append(Line(row, _verdict(row, folder, record, records), ours, record, folder))
        if not kinds:
            lines.append(Line(row, Verdict("not run", "no record")))
    return lines


def _worth(record: Record) -> tuple[bool, int, str]:
    return record.is_done, len(record.seeds), record.finished or record.started


def _verdict(row: Row, folder: RunFolder, record: Record, records: Records) -> Verdict:
    if not record.is_done:
        if record.status == "running" and not folder.is_held():
            return Verdict("unfinished", "the process that ran it is gone; run it again to resume")
        words = {"failed": "failed", "interrupted": "unfinished", "running": "running"}
        return Verdict(words[record.status], record.error or "still running")
    if record.changed:
        changes = ", ".join(f"{name}={value}" for name, value in record.changed.items())
        return Verdict("not judged", f"settings were changed: {changes}")
    finals = {name: np.asarray(values) for name, values in record.final.items()}
    rule = row.variant(record.variant).rule
    judgement = rule.judge(row.metric.name, finals, _others(record.variant, records))
    if judgement.holds is None:
        return Verdict("not judged", judgement.reason)
    return Verdict(WORDS.get((record.variant, judgement.holds), "not judged"), judgement.reason)


def _others(variant: str, records: Records) -> Callable[[str], dict[str, np.ndarray] | None]:
    def finals_of(row_id: str) -> dict[str, np.ndarray] | None:
        done = [
            record
            for _, record in records
            if (record.row, record.variant) == (row_id, variant)
            and record.is_done
            and not record.changed
        ]
        if not done:
            return None
        best = max(done, key=_worth)
        return {name: np.asarray(values) for name, values in best.final.items()}

    return finals_of
