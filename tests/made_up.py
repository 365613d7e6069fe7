"""Records made by hand."""

import dataclasses
import json
from typing import Any

from recombine.experiments import find_row
from recombine.results import Provenance, Record

DEVICE = Provenance("imaginary chip", 1, {"jax": "0.10"}, "abc123")


def make_record(
    row: str = "ilc/synthetic/and-mask",
    variant: str = "quick",
    changed: dict[str, Any] | None = None,
    **fields: Any,
) -> Record:
    """Returns a finished run with the row's own settings, but for `changed`, and three seeds."""
    chosen, changed = find_row(row).variant(variant), changed or {}
    settings = dataclasses.asdict(chosen.config) | {"steps": chosen.steps} | changed
    steps = settings.pop("steps")
    record = Record(
        row=row,
        variant=variant,
        changed=changed,
        config=json.loads(json.dumps(settings)),
        steps=steps,
        eval_every=5,
        seeds=(0, 1, 2),
        status="done",
        started="2026-01-01T00:00:00Z",
        finished="2026-01-01T00:01:00Z",
        provenance=DEVICE,
        seconds={"compile": 1.0, "run": 2.0},
        final={"test_accuracy": (0.99, 1.0, 0.98)},
    )
    return dataclasses.replace(record, **fields)


def folder_of(runs, record: Record):
    """Writes a record where it belongs and returns its folder."""
    from recombine.results import RunFolder

    folder = RunFolder.of(runs, row=record.row, variant=record.variant, run_hash=record.hash)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write(record)
    return folder
