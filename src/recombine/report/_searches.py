"""Searches over settings: what was tried, what was found, and which settings mattered."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from recombine.experiments import Group, Metric, Row
from recombine.report._entries import Cell, duration
from recombine.report._figures import PALETTE, draw_svg
from recombine.report._lines import Line, Records, Summary, Verdict
from recombine.report._tables import summary_text
from recombine.results import Record, RunFolder, StudyTable, Trial, read_study, studied_row

HISTORY, IMPORTANCE = (3.6, 2.4), (3.6, 2.4)
"""Width and height of the figures, in inches."""

SHOWN_TRIALS = 10
"""The best of them stand in the page's table; the file beside the record has all."""


class FoundStudy(NamedTuple):
    """A search of one row, as it was recorded."""

    row: Row
    folder: RunFolder
    record: Record
    table: StudyTable

    @property
    def value(self) -> str:
        """The best value, in the unit of its metric."""
        best = self.table.best
        return "–" if best is None else value_of(best, self.table)

    @property
    def status(self) -> str:
        """What has been run, in words; an unfinished search says so."""
        done = "" if self.record.is_done else ", unfinished"
        return f"tune, {self.record.variant}{done}"

    @property
    def summary(self) -> str:
        """One sentence: how many trials, how they were drawn, and by what the best was chosen."""
        table, search = self.table, self.record.config["search"]
        parts = [
            f"{table.count(state)} {state}"
            for state in ("complete", "pruned", "failed", "running")
            if table.count(state)
        ]
        batch = self.record.config["batch"]
        at_once = f", {batch} at once" if batch > 1 else ""
        seeds = len(self.record.seeds)
        return (
            f"{', '.join(parts) or 'no'} trials ({search['sampler']}{at_once}, "
            f"{seeds} seed{'s' if seeds > 1 else ''} each), {table.chosen_by}"
        )


class DrawnStudy(NamedTuple):
    """A search, ready for the page."""

    study: FoundStudy
    history: Markup
    importance: Markup | None
    trials: list[list[Cell]]


def find_studies(rows: Sequence[Row], records: Records) -> list[FoundStudy]:
    """Returns the searches of some rows, in their order; those without a table are left out."""
    known = {row.id: row for row in rows}
    found = []
    for folder, record in records:
        row = known.get(studied_row(record) or "")
        table = read_study(folder) if row else None
        if row and table:
            found.append(FoundStudy(row, folder, record, table))
    order = list(known)
    return sorted(found, key=lambda one: order.index(one.row.id))


def study_line(row: Row, folder: RunFolder, record: Record) -> Line:
    """Returns a search as a line: the values of its best trial, never judged."""
    ours = Summary.of(record.values(row.metric.name)) if record.is_done else None
    by = "TEST data" if record.config["search"]["by_test"] else record.config["search"]["metric"]
    verdict = Verdict("not judged", f"the best of a search, chosen by {by}")
    return Line(row, verdict, ours, record, folder)


def draw_studies(group: Group, records: Records) -> list[DrawnStudy]:
    """Draws every search of a group's rows."""
    return [_draw(study) for study in find_studies(group.rows, records)]


def study_to_json(study: FoundStudy) -> dict[str, Any]:
    """Returns the documented, stable form of a search (see the command line page)."""
    best = study.table.best
    return {
        "variant": study.record.variant,
        "status": study.record.status,
        "metric": study.table.metric,
        "by_test": study.table.by_test,
        "trials": len(study.table.trials),
        "best_value": None if best is None else best.value,
        "best_settings": {} if best is None else best.settings,
        "command": study.table.command,
        "folder": str(study.folder.path),
    }


def value_of(trial: Trial, table: StudyTable) -> str:
    """Writes a trial's value as the tables write values."""
    metric = Metric(table.metric, table.label, table.higher_is_better, table.percent)
    return summary_text(None if trial.value is None else Summary(trial.value, None, 1), metric)


def _draw(study: FoundStudy) -> DrawnStudy:
    table, name = study.table, f"{study.row.id}/{study.folder.path.name}"
    history = draw_svg(
        lambda axes: draw_history(axes, table),
        name=f"{name}/history",
        title=f"every trial of a search of {study.row.id}; the best has {study.value}",
        size=HISTORY,
    )
    importance = None
    if table.importances:
        most = max(table.importances, key=lambda one: table.importances[one])
        importance = draw_svg(
            lambda axes: draw_importances(axes, table),
            name=f"{name}/importance",
            title=f"how much each setting of {study.row.id} mattered; most of all {most}",
            size=IMPORTANCE,
        )
    return DrawnStudy(study, history, importance, _best_trials(table))


def draw_history(axes: Any, table: StudyTable) -> None:
    """Draws the value of every trial in the order of asking, and the best so far."""
    scale = 100 if table.percent else 1
    for state, mark, color in (("complete", "o", PALETTE[0]), ("pruned", "x", PALETTE[1])):
        shown = [t for t in table.trials if t.state == state and t.value is not None]
        if not shown:
            continue
        axes.plot(
            [trial.number for trial in shown],
            [scale * (trial.value or 0.0) for trial in shown],
            mark,
            color=color,
            markersize=3.5,
            alpha=0.7,
            label=state,
        )
    done = [t for t in table.trials if t.state == "complete" and t.value is not None]
    if done:
        values = np.array([trial.value for trial in done], dtype=float)
        better = np.maximum if table.higher_is_better else np.minimum
        so_far = better.accumulate(values)
        axes.step(
            [trial.number for trial in done],
            scale * so_far,
            where="post",
            color="black",
            linewidth=1.2,
            label="best so far",
        )
    failed = [trial.number for trial in table.trials if trial.state == "failed"]
    if failed:
        bottom = axes.get_ylim()[0]
        axes.plot(failed, [bottom] * len(failed), "|", color=PALETTE[1], label="failed")
    axes.set_xlabel("trial")
    axes.set_ylabel(table.label + (" (%)" if table.percent else ""))
    axes.legend(frameon=False, fontsize=7.5)


def draw_importances(axes: Any, table: StudyTable) -> None:
    """Draws the share of the spread that each setting explains, the largest on top."""
    pairs = sorted(table.importances.items(), key=lambda pair: pair[1])
    axes.barh([name for name, _ in pairs], [100 * share for _, share in pairs], color=PALETTE[0])
    axes.set_xlabel("importance (%)")
    axes.tick_params(axis="y", length=0)


def _best_trials(table: StudyTable) -> list[list[Cell]]:
    sign = -1 if table.higher_is_better else 1
    done = [t for t in table.trials if t.state == "complete" and t.value is not None]
    done.sort(key=lambda trial: (sign * (trial.value or 0.0), trial.number))
    return [
        [
            Cell("trial", str(trial.number), trial.number, True),
            Cell(table.label, value_of(trial, table), trial.value, True),
            *(Cell(name, _setting(value)) for name, value in trial.settings.items()),
            Cell("time", duration(trial.seconds), trial.seconds, True),
        ]
        for trial in done[:SHOWN_TRIALS]
    ]


def _setting(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
