"""Runs as files, made by hand: records with curves and arrays to draw."""

from pathlib import Path
from typing import Any

import numpy as np

from made_up import folder_of, make_record
from recombine.experiments import find_row
from recombine.results import Provenance, Record

PROVENANCE = Provenance(
    device="NVIDIA H200",
    num_devices=1,
    versions={"python": "3.11.7", "recombine": "0.1.0", "jax": "0.10.2"},
    commit="0123456789abcdef0123456789abcdef01234567",
)


def write_run_to(
    runs: Path,
    row: str,
    variant: str = "full",
    *,
    final: dict[str, list[float]] | None = None,
    curves: dict[str, np.ndarray] | None = None,
    inspect: dict[str, np.ndarray] | None = None,
    **fields: Any,
) -> Record:
    """Writes the files of one run of a row, finished unless told otherwise.

    A curve has a row for every evaluation, at steps 10, 20 and so on, and a column for every seed.
    """
    final = final or {}
    standard: dict[str, Any] = {
        "eval_every": find_row(row).variant(variant).eval_every,
        "seeds": tuple(range(max((len(values) for values in final.values()), default=1))),
        "final": {name: tuple(values) for name, values in final.items()},
        "seconds": {"compile": 5.0, "run": 70.0},
        "provenance": PROVENANCE,
    }
    record = make_record(row=row, variant=variant, **{**standard, **fields})
    folder = folder_of(runs, record)
    if curves is not None:
        count = len(next(iter(curves.values())))
        folder.write_curves([10 * (step + 1) for step in range(count)], curves)
    if inspect is not None:
        folder.write_inspect(inspect)
    return record
