"""All systems and their rows; a new system is one more line."""

import difflib
import fnmatch
from collections.abc import Mapping, Sequence

from recombine.experiments._row import Row, System
from recombine.experiments.agreement import AGREEMENT
from recombine.experiments.distillation import DISTILLATION
from recombine.experiments.hypernetworks import MODULAR
from recombine.experiments.seq2seq import META_SEQ2SEQ
from recombine.experiments.skipping import SKIPPING

SYSTEMS: dict[str, System] = {
    "ilc": AGREEMENT,
    "asi": SKIPPING,
    "ldt": DISTILLATION,
    "seq2seq": META_SEQ2SEQ,
    "modular": MODULAR,
}


def match_rows(pattern: str = "*", systems: Mapping[str, System] | None = None) -> list[Row]:
    """Returns the rows whose id matches a glob; a prefix such as `ilc/synthetic` means all below.

    They are looked for in `systems`, by default in our own. Raises `LookupError` with the nearest
    ids when there is none.
    """
    chosen_from = SYSTEMS if systems is None else systems
    rows = [row for system in chosen_from.values() for row in system.rows]
    chosen = [
        row
        for row in rows
        if fnmatch.fnmatchcase(row.id, pattern) or row.id.startswith(pattern.rstrip("/") + "/")
    ]
    if not chosen:
        raise LookupError(f"no row matches {pattern!r}; {_suggestion(pattern, rows)}")
    return chosen


def find_row(row_id: str, systems: Mapping[str, System] | None = None) -> Row:
    """Returns the row of that id, or raises `LookupError` with the nearest ids."""
    rows = match_rows("*", systems)
    row = next((row for row in rows if row.id == row_id), None)
    if row is None:
        raise LookupError(f"no row is called {row_id!r}; {_suggestion(row_id, rows)}")
    return row


def _suggestion(wanted: str, rows: Sequence[Row]) -> str:
    nearest = difflib.get_close_matches(wanted, [row.id for row in rows], cutoff=0.4)
    return f"try {', '.join(nearest)}" if nearest else "`recombine list` prints them all"
