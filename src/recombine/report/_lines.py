"""From rows and records to the lines of a table: ours beside the paper's, with a verdict.

A verdict follows the rule that the row states; nothing is judged by eye.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from recombine.experiments import Paper, Row, find_row
from recombine.report._selected import values_selected
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
    selected: Summary | None = None
    """The same at the step that the row's `selection` chooses, where it has one."""

    @property
    def paper(self) -> Paper:
        """The printed value."""
        return self.row.paper

    @property
    def status(self) -> str:
        """What has been run: "full", "quick", …, "full, changed", or "not run"."""
        if self.record is None:
            return "not run"
        return self.record.variant + (", changed" if self.changed else "")

    @property
    def changed(self) -> dict[str, Any]:
        """The settings in which the run differs from the row."""
        return changes(self.row, self.record) if self.record else {}


def changes(row: Row, record: Record) -> dict[str, Any]:
    """Returns the settings in which a run differs from its row as it stands now.

    What somebody changed for a run may be what the row says today; and a row may have changed since
    a run was made by it. A setting that is younger than the run had its default there; one that the
    row no longer knows is left out.
    """
    variant = row.variant(record.variant)
    now = json.loads(json.dumps({**asdict(variant.config), "steps": variant.steps}))
    ran = {**_with_defaults(record.config, variant.config), "steps": record.steps}
    asked = {name: record.changed[name] for name in record.changed if name not in now}
    return asked | _different(ran, now)


def _with_defaults(ran: dict[str, Any], config: Any) -> dict[str, Any]:
    """Adds the defaults of settings that a record does not have; in settings within settings, too.

    A setting without a default stays missing.
    """
    filled = dict(ran)
    for field in fields(config):
        if field.name not in ran and field.default is not MISSING:
            filled[field.name] = json.loads(json.dumps(_plain(field.default)))
        elif is_dataclass(inner := getattr(config, field.name)) and field.name in ran:
            filled[field.name] = _with_defaults(ran[field.name], inner)
    return filled


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _different(ran: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Returns what differs of the settings that both know; of settings within settings, too."""
    different = {}
    for name in ran.keys() & now.keys():
        before, after = ran[name], now[name]
        if isinstance(before, dict) and isinstance(after, dict):
            before = _different(before, after)
            after = {}
        if before != after:
            different[name] = before
    return {name: different[name] for name in ran if name in different}


def make_lines(rows: Sequence[Row], records: Records) -> list[Line]:
    """Makes a line for the best record of every variant of every row; a row without one shows so.

    Of several records the finished one wins, then the one with more seeds, then the newer one.
    """
    lines = []
    known = {row.id: row for row in rows}
    for row in rows:
        mine = [entry for entry in records if entry[1].row == row.id]
        kinds: dict[tuple[str, bool], list[tuple[RunFolder, Record]]] = {}
        for folder, record in mine:
            kind = record.variant, bool(changes(row, record))
            kinds.setdefault(kind, []).append((folder, record))
        for kind in sorted(kinds, key=lambda k: (("full", "quick", "tiny").index(k[0]), k[1])):
            folder, record = max(kinds[kind], key=lambda entry: _worth(entry[1]))
            ours = Summary.of(record.values(row.metric.name)) if record.is_done else None
            verdict = _verdict(row, folder, record, records, known)
            lines.append(Line(row, verdict, ours, record, folder, _selected(row, folder, record)))
        if not kinds:
            lines.append(Line(row, Verdict("not run", "no record")))
    return lines


def _selected(row: Row, folder: RunFolder, record: Record) -> Summary | None:
    if row.selection is None or not record.is_done:
        return None
    values = values_selected(folder, row.metric, row.selection)
    return None if values is None else Summary.of(values)


def _worth(record: Record) -> tuple[bool, int, str]:
    return record.is_done, len(record.seeds), record.finished or record.started


def _verdict(
    row: Row, folder: RunFolder, record: Record, records: Records, known: Mapping[str, Row]
) -> Verdict:
    if not record.is_done:
        if record.status == "running" and not folder.is_held():
            return Verdict("unfinished", "the process that ran it is gone; run it again to resume")
        words = {"failed": "failed", "interrupted": "unfinished", "running": "running"}
        return Verdict(words[record.status], record.error or "still running")
    if changed := changes(row, record):
        settings = ", ".join(f"{name}={value}" for name, value in changed.items())
        return Verdict("not judged", f"settings differ from the row's: {settings}")
    finals = {name: np.asarray(values) for name, values in record.final.items()}
    rule = row.variant(record.variant).rule
    judgement = rule.judge(row.metric.name, finals, _others(record.variant, records, known))
    if judgement.holds is None:
        return Verdict("not judged", judgement.reason)
    return Verdict(WORDS.get((record.variant, judgement.holds), "not judged"), judgement.reason)


def _others(
    variant: str, records: Records, known: Mapping[str, Row]
) -> Callable[[str], dict[str, np.ndarray] | None]:
    def finals_of(row_id: str) -> dict[str, np.ndarray] | None:
        try:
            row = known.get(row_id) or find_row(row_id)
        except LookupError:  # a row of the user's own, outside of what is shown
            row = None
        done = [
            record
            for _, record in records
            if (record.row, record.variant) == (row_id, variant)
            and record.is_done
            and not (changes(row, record) if row else record.changed)
        ]
        if not done:
            return None
        best = max(done, key=_worth)
        return {name: np.asarray(values) for name, values in best.final.items()}

    return finals_of
