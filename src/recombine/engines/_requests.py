"""What is to be run: a row with its settings, as every engine takes it."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from recombine.experiments import Row, Variant
from recombine.results import Record, RunFolder, run_hash


class RunFailedError(RuntimeError):
    """A run that could not be finished; its record says why."""


@dataclass(frozen=True)
class RunRequest:
    """A row with the settings it is to be run with."""

    row: Row
    variant_name: str
    variant: Variant
    seeds: tuple[int, ...]
    changed: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        row: Row,
        variant_name: str,
        *,
        num_seeds: int | None = None,
        changes: Sequence[str] = (),
    ) -> "RunRequest":
        """Applies `key=value` changes to one of the row's variants."""
        from recombine.experiments import change_settings

        variant, changed = change_settings(row.variant(variant_name), changes)
        return cls(
            row, variant_name, variant, tuple(range(num_seeds or variant.num_seeds)), changed
        )

    @property
    def config(self) -> dict[str, Any]:
        """The config as plain data."""
        return plain(dataclasses.asdict(self.variant.config))

    def folder(self, runs: str | Path) -> RunFolder:
        """Returns where this run lives."""
        name = run_hash(
            self.row.id, self.config, self.variant.steps, self.variant.eval_every, self.seeds
        )
        return RunFolder.of(runs, row=self.row.id, variant=self.variant_name, run_hash=name)


def check_all_differ(requests: Sequence[RunRequest]) -> None:
    """Raises `ValueError` where two requests are the same run, which has one folder and record."""
    seen = set()
    for request in requests:
        path = request.folder("").path
        if path in seen:
            raise ValueError(
                f"`requests` are to be different runs, but {path} is asked for twice; give it once"
            )
        seen.add(path)


class RowOutcome(NamedTuple):
    """What became of a row: a record, or the reason why there is none."""

    request: RunRequest
    record: Record | None
    error: str = ""


def plain(value: Any) -> Any:
    """Returns what JSON would give back: tuples become lists."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value
