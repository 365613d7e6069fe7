"""The record of a run: its settings, its numbers and where they come from."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from recombine.results._provenance import Provenance

FORMAT = 1
"""Raised when an older reader would misunderstand the files."""

Status = Literal["running", "interrupted", "failed", "done"]


class RecordError(ValueError):
    """A file that is not a record this version can read."""


@dataclass(frozen=True)
class Record:
    """One run of one row, all seeds together."""

    row: str
    variant: str  # which of the row's settings: "full", "quick" or "tiny"
    changed: dict[str, Any]  # settings that differ from the variant's
    config: dict[str, Any]
    steps: int
    eval_every: int
    seeds: tuple[int, ...]
    status: Status
    started: str
    provenance: Provenance
    finished: str | None = None
    error: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)  # compile and run
    final: dict[str, tuple[float, ...]] = field(default_factory=dict)  # one value per seed

    @property
    def hash(self) -> str:
        """The name of the settings."""
        return run_hash(self.row, self.config, self.steps, self.eval_every, self.seeds)

    @property
    def is_done(self) -> bool:
        """Whether the run reached its last step."""
        return self.status == "done"

    @property
    def total_seconds(self) -> float:
        """Compiling and running."""
        return sum(self.seconds.values())

    def values(self, metric: str) -> np.ndarray:
        """Returns the final value of each seed; an empty array when it was not measured."""
        return np.asarray(self.final.get(metric, ()), dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        """Returns plain data; what is not a number is null."""
        data = dataclasses.asdict(self)
        data["final"] = {
            name: [value if math.isfinite(value) else None for value in values]
            for name, values in self.final.items()
        }
        return {"format": FORMAT, "hash": self.hash, **data}

    @classmethod
    def from_json(cls, data: Any) -> "Record":
        """Reads what `to_json` wrote, and raises `RecordError` for anything else."""
        if not isinstance(data, dict) or "format" not in data:
            raise RecordError("it is not a record")
        if data["format"] != FORMAT:
            raise RecordError(
                f"its format is {data['format']!r}, this version reads {FORMAT}; upgrade recombine"
            )
        try:
            known = {f.name for f in dataclasses.fields(cls)}
            values = {name: value for name, value in data.items() if name in known}
            values["provenance"] = Provenance(**data["provenance"])
            values["seeds"] = tuple(int(seed) for seed in data["seeds"])
            values["final"] = {
                name: tuple(math.nan if value is None else float(value) for value in column)
                for name, column in data["final"].items()
            }
            record = cls(**values)
            if record.hash != data["hash"]:
                raise RecordError("its hash does not match its settings; it was edited")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, RecordError):
                raise
            raise RecordError(f"it is damaged ({type(error).__name__}: {error})") from error
        return record


def run_hash(
    row: str, config: dict[str, Any], steps: int, eval_every: int, seeds: Sequence[int]
) -> str:
    """Names the settings of a run; equal settings, equal name, on any machine."""
    identity = [row, config, steps, eval_every, list(seeds)]
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
