"""Runs side by side: means, spread, and how far each is from one of them.

Runs are compared as they are. Which one is better is for the reader to say: of two rows with the
same metric one may be meant to fail.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recombine.experiments import Metric
from recombine.report._bootstrap import LEVEL, Difference, difference_of_means
from recombine.report._lines import Line, Summary
from recombine.report._tables import signed_text, summary_text
from recombine.results import Record, studied_row


class ComparisonError(LookupError):
    """Runs that cannot be compared as asked; says why, and what to do."""


@dataclass(frozen=True)
class Compared:
    """One run, and its difference from the reference."""

    line: Line
    label: str  # the row, and the run where there are several of that row
    values: dict[int, float]  # seed to final value, as far as they are numbers
    difference: Difference | None  # None for the reference itself

    @property
    def record(self) -> Record:
        """What was run."""
        assert self.line.record is not None
        return self.line.record

    @property
    def summary(self) -> Summary:
        """Mean and spread over the seeds."""
        found = Summary.of(np.array(list(self.values.values())))
        assert found is not None
        return found

    @property
    def run(self) -> str:
        """Which variant, and what was changed in it."""
        changes = (f"{name}={value}" for name, value in self.line.changed.items())
        kind = "best of a search, " if studied_row(self.record) else ""
        return ", ".join([kind + self.record.variant, *changes])


@dataclass(frozen=True)
class SideBySide:
    """Several runs of which all have one metric."""

    metric: Metric
    reference: str  # the label of the run that all others are compared with
    runs: tuple[Compared, ...]
    notes: tuple[str, ...]  # what one should know before one believes the intervals
    level: float = LEVEL

    @property
    def legend(self) -> str:
        """Says what stands in the column of differences."""
        unit = ", in percentage points" if self.metric.percent else ""
        return (
            f"difference: {self.metric.label} less that of {self.reference}{unit}; "
            f"the intervals are bootstrapped over seeds"
        )


def compare_runs(
    lines: Sequence[Line], *, metric: str | None = None, reference: str | Path | None = None
) -> SideBySide:
    """Puts finished runs beside each other.

    Args:
        lines: of finished runs, as `make_lines` makes them; at least two.
        metric: a final metric that all of them have; by default the one that their rows are judged
            by.
        reference: the run that the others are compared with, by its label, its row or its folder;
            by default the first.

    Raises:
        ComparisonError: there are fewer than two runs, one is not finished, they have no such
            metric in common, or none is the reference.
    """
    for line in lines:
        if line.record is None or not line.record.is_done:
            raise ComparisonError(f"{line.row.id} has no finished run to compare; run it first")
    if len(lines) < 2:
        only = f" ({lines[0].row.id})" if lines else ""
        raise ComparisonError(f"a comparison needs at least two runs; there is {len(lines)}{only}")
    chosen = _metric(lines, metric)
    labels = _labels(lines)
    values = [_values(line, chosen.name) for line in lines]
    for label, found in zip(labels, values, strict=True):
        if not found:
            raise ComparisonError(f"{label}: {chosen.name} is not a number for any seed")
    base = _reference(lines, labels, reference)
    runs = tuple(
        Compared(
            line,
            label,
            mine,
            None if number == base else difference_of_means(mine, values[base]),
        )
        for number, (line, label, mine) in enumerate(zip(lines, labels, values, strict=True))
    )
    return SideBySide(chosen, labels[base], runs, tuple(_notes(runs, values[base])))


def comparison_to_json(found: SideBySide) -> dict[str, Any]:
    """Returns the documented, stable form of a comparison (see the command line page)."""
    return {
        "metric": found.metric.name,
        "reference": found.reference,
        "level": found.level,
        "runs": [
            {
                "label": run.label,
                "id": run.line.row.id,
                "method": run.line.row.method,
                "variant": run.record.variant,
                "changed": run.line.changed,
                "hash": run.record.hash,
                "device": run.record.provenance.device,
                **run.summary._asdict(),
                "values": {str(seed): value for seed, value in run.values.items()},
                "difference": _difference_to_json(run.difference),
            }
            for run in found.runs
        ],
        "notes": list(found.notes),
    }


def comparison_table(found: SideBySide) -> list[tuple[str, ...]]:
    """Returns the texts of a table: the heads, then one line for each run."""
    interval = f"{found.level * 100:g} % interval"
    heads = ("row", "run", found.metric.label, "seeds", "difference", interval, "from")
    return [heads, *(_cells(found.metric, run) for run in found.runs)]


def comparison_to_markdown(found: SideBySide) -> str:
    """Returns a Markdown table, with the legend and the notes below."""
    heads, *lines = comparison_table(found)
    rows = [heads, ("---",) * len(heads), *lines]
    table = "".join("| " + " | ".join(row) + " |\n" for row in rows)
    return table + "".join(f"\n{note}\n" for note in (found.legend, *found.notes))


def _cells(metric: Metric, run: Compared) -> tuple[str, ...]:
    mine = (run.label, run.run, summary_text(run.summary, metric), str(len(run.values)))
    apart = run.difference
    if apart is None:
        return (*mine, "reference", "", "")
    interval = "none"
    if apart.low is not None and apart.high is not None:
        interval = f"{signed_text(apart.low, metric)} to {signed_text(apart.high, metric)}"
    how = f"{apart.pairs} pair{'s' if apart.pairs != 1 else ''}" if apart.is_paired else "unpaired"
    return (*mine, signed_text(apart.mean, metric), interval, how)


def _metric(lines: Sequence[Line], name: str | None) -> Metric:
    """Finds the metric by its name, or the one that all rows are judged by."""
    if name is None:
        own = {line.row.metric.name: line.row.metric for line in lines}
        if len(own) > 1:
            listed = "; ".join(f"{line.row.id}: {line.row.metric.name}" for line in lines)
            raise ComparisonError(
                f"the rows are judged by different metrics ({listed}); choose one with `--metric`"
            )
        name = next(iter(own))
    finals = [line.record.final for line in lines if line.record is not None]
    for line, final in zip(lines, finals, strict=True):
        if name not in final:
            common = sorted(set(final).intersection(*finals))
            near = difflib.get_close_matches(name, common) or common
            others = f"all have {', '.join(near)}" if near else "they have no metric in common"
            raise ComparisonError(f"{line.row.id} did not measure {name!r}; {others}")
    named = [metric for line in lines for metric in (line.row.metric, *line.row.also)]
    plain = Metric(name, name.replace("_", " "), percent=False)
    return next((metric for metric in named if metric.name == name), plain)


def _labels(lines: Sequence[Line]) -> list[str]:
    ids = [line.row.id for line in lines]
    return [
        line.row.id
        if ids.count(line.row.id) == 1 or line.record is None
        else f"{line.row.id}/{line.record.variant}-{line.record.hash}"
        for line in lines
    ]


def _values(line: Line, metric: str) -> dict[int, float]:
    assert line.record is not None
    pairs = zip(line.record.seeds, line.record.values(metric), strict=True)
    return {seed: float(value) for seed, value in pairs if np.isfinite(value)}


def _reference(lines: Sequence[Line], labels: Sequence[str], wanted: str | Path | None) -> int:
    """Returns the number of the run that the others are compared with."""
    if wanted is None:
        return 0
    folders = [line.folder.path.resolve() if line.folder else None for line in lines]
    places = [
        number
        for number, line in enumerate(lines)
        if (isinstance(wanted, Path) and folders[number] == wanted.resolve())
        or wanted in (labels[number], line.row.id)
    ]
    if len(places) == 1:
        return places[0]
    if places:
        named = ", ".join(labels[number] for number in places)
        raise ComparisonError(f"the reference {wanted} could be any of {named}; name one of them")
    near = difflib.get_close_matches(str(wanted), labels, cutoff=0.4) or labels
    raise ComparisonError(
        f"the reference {wanted} is not among the runs compared; try {', '.join(near)}"
    )


def _notes(runs: Sequence[Compared], base: dict[int, float]) -> list[str]:
    """Returns what the table does not show and a reader should know."""
    notes = []
    variants = list(dict.fromkeys(run.record.variant for run in runs))
    if len(variants) > 1:
        notes.append(f"runs of different variants are compared: {', '.join(variants)}")
    for run in runs:
        seeds = len(run.record.seeds)
        if lost := seeds - len(run.values):
            notes.append(f"{run.label}: {lost} of {seeds} seeds without a number are left out")
    apart = [(run, run.difference) for run in runs if run.difference is not None]
    if any(d.pairs is not None and d.pairs < max(len(r.values), len(base)) for r, d in apart):
        notes.append("where one run has more seeds, the difference is over those that both have")
    unpaired = [run.label for run, difference in apart if not difference.is_paired]
    if unpaired:
        notes.append(f"no seed is shared, so runs are not paired: {', '.join(unpaired)}")
    if any(difference.low is None for _, difference in apart):
        notes.append("one run, or one pair, has no spread and so no interval; run more seeds")
    few = [difference for _, difference in apart if difference.low is not None]
    worst = min(few, key=lambda difference: difference.reachable, default=None)
    if worst and worst.reachable < worst.level:
        notes.append(
            f"an interval from {worst.pairs} pairs spans all differences at most, and holds the "
            f"true one in no more than {worst.reachable * 100:.3g} % of cases; run six seeds or "
            f"more"
        )
    return notes


def _difference_to_json(difference: Difference | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    kept = ("mean", "low", "high", "pairs")
    return {name: getattr(difference, name) for name in kept} | {"paired": difference.is_paired}
