"""All systems and their rows; a new system is one more line."""

import difflib
import fnmatch

from recombine.experiments._row import Row, System
from recombine.experiments.agreement import AGREEMENT
from recombine.experiments.seq2seq import META_SEQ2SEQ

SYSTEMS: dict[str, System] = {
    "ilc": AGREEMENT,
    "seq2seq": META_SEQ2SEQ,
}


def match_rows(pattern: str = "*") -> list[Row]:
    """Returns the rows whose id matches a glob; a prefix such as `ilc/synthetic` means all below.

    Raises `LookupError` with the nearest ids when there is none.
    """
    rows = [row for system in SYSTEMS.values() for row in system.rows]
    chosen = [
        row
        for row in rows
        if fnmatch.fnmatchcase(row.id, pattern) or row.id.startswith(pattern.rstrip("/") + "/")
    ]
    if not chosen:
        ids = [row.id for row in rows]
        nearest = difflib.get_close_matches(pattern, ids, cutoff=0.4) or ids[:5]
        raise LookupError(f"no row matches {pattern!r}; try {', '.join(nearest)}")
    return chosen


def find_row(row_id: str) -> Row:
    """Returns the row of that id, or raises `LookupError` with the nearest ids."""
    row = next((row for row in match_rows("*") if row.id == row_id), None)
    if row is None:
        ids = [row.id for row in match_rows("*")]
        nearest = difflib.get_close_matches(row_id, ids, cutoff=0.4) or ids[:5]
        raise LookupError(f"no row is called {row_id!r}; try {', '.join(nearest)}")
    return row
