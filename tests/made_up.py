"""Records made by hand."""

import dataclasses

from recombine.results import Provenance, Record

DEVICE = Provenance("imaginary chip", 1, {"jax": "0.10"}, "abc123")


def make_record(**changes) -> Record:
    """Returns a finished quick run of the AND-mask with three seeds."""
    record = Record(
        row="ilc/synthetic/and-mask",
        variant="quick",
        changed={},
        config={"l2": 1e-4, "decay_at": [0.5]},
        steps=10,
        eval_every=5,
        seeds=(0, 1, 2),
        status="done",
        started="2026-01-01T00:00:00Z",
        finished="2026-01-01T00:01:00Z",
        provenance=DEVICE,
        seconds={"compile": 1.0, "run": 2.0},
        final={"test_accuracy": (0.99, 1.0, 0.98)},
    )
    return dataclasses.replace(record, **changes)


def folder_of(runs, record: Record):
    """Writes a record where it belongs and returns its folder."""
    from recombine.results import RunFolder

    folder = RunFolder.of(runs, row=record.row, variant=record.variant, run_hash=record.hash)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write(record)
    return folder
