"""Studies on disk: what a search over settings leaves behind, beside the record of its best trial.

RUNS/<row id>/tune/<variant>-<hash>/record.json   as of a run: the best trial, and what was searched
                                   /trials.json   every trial: settings, value, state
                                   /journal.log   Optuna's own journal, from which a search goes on

The record is one like any other, under the row `<row id>/tune`, which is no row that can be run.
"""

import json
import math
import warnings
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from recombine.results._files import write_atomically
from recombine.results._record import Record
from recombine.results._store import RecordWarning, RunFolder

TRIALS = "trials.json"
SUFFIX = "/tune"
TABLE_FORMAT = 1

TrialState = Literal["complete", "pruned", "failed", "running"]


def study_row(row: str) -> str:
    """Returns under which row the studies of a row are recorded.

    Example:
        >>> study_row("ilc/synthetic/and-mask")
        'ilc/synthetic/and-mask/tune'
    """
    return row + SUFFIX


def studied_row(record: Record) -> str | None:
    """Returns the row whose settings were searched, or None where the record is of a plain run."""
    is_study = record.row.endswith(SUFFIX) and "search" in record.config
    return record.row.removesuffix(SUFFIX) if is_study else None


@dataclass(frozen=True)
class Trial:
    """One setting that was tried."""

    number: int
    state: TrialState
    settings: dict[str, Any]
    value: float | None = None  # of the metric that is searched by; the last one of a pruned trial
    seconds: float = 0.0  # its share of the batch
    error: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether it counts among the trials that were asked for."""
        return self.state != "running"


@dataclass(frozen=True)
class StudyTable:
    """All trials of a study, and how much each setting mattered."""

    metric: str
    label: str
    higher_is_better: bool
    percent: bool
    by_test: bool
    as_published: bool  # whether the paper chose by the test set too
    trials: tuple[Trial, ...]
    importances: dict[str, float] = field(default_factory=dict)  # empty where they are not known
    command: str = ""  # that runs the best setting

    @property
    def best(self) -> Trial | None:
        """The complete trial with the best value, the earliest of equals."""
        done = [t for t in self.trials if t.state == "complete" and t.value is not None]
        sign = -1 if self.higher_is_better else 1
        return min(
            done, key=lambda trial: (sign * (trial.value or 0.0), trial.number), default=None
        )

    def count(self, state: TrialState) -> int:
        """Returns how many trials are in a state."""
        return sum(trial.state == state for trial in self.trials)

    @property
    def chosen_by(self) -> str:
        """Says by what the best trial was chosen, loudly where it was the test set."""
        if self.by_test:
            why = ", as the paper's protocol does" if self.as_published else ""
            return f"chosen by TEST data ({self.label}){why}"
        return f"chosen by {self.label}"


def write_study(folder: RunFolder, table: StudyTable) -> None:
    """Replaces the table of a study."""
    data = {"format": TABLE_FORMAT, **asdict(table)}
    text = json.dumps(_finite(data), indent=1, allow_nan=False)
    write_atomically(folder.path / TRIALS, lambda file: file.write(text.encode() + b"\n"))


def read_study(folder: RunFolder) -> StudyTable | None:
    """Returns the table of a study; None, with a warning, where it cannot be read."""
    path = folder.path / TRIALS
    try:
        data = json.loads(path.read_text())
        if data.pop("format") != TABLE_FORMAT:
            raise ValueError("its format is another one; upgrade recombine")
        trials = tuple(Trial(**trial) for trial in data.pop("trials"))
        return StudyTable(trials=trials, **data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        warnings.warn(f"{path} was passed over: {error}", RecordWarning, stacklevel=2)
        return None


def _finite(value: Any) -> Any:
    """Returns plain data in which what is not a number is null."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
