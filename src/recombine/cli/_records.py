"""Which records a command looks at: those of a runs folder, or the published ones."""

import sys
from pathlib import Path

from recombine.report import Line
from recombine.results import Record, RunFolder, evidence_folder, read_records


def records_of(runs: Path, *, evidence: bool) -> list[tuple[RunFolder, Record]]:
    """Reads the records, and says so where there is no such folder."""
    if evidence:
        return read_records(evidence_folder())
    if not runs.exists():
        print(f"recombine: there is no folder {runs}: nothing has been run there", file=sys.stderr)
    return read_records(runs)


def say_why_not_judged(lines: list[Line]) -> None:
    """Prints, below a table, what the rows that were run and not judged wait for."""
    for line in lines:
        if line.record and line.verdict.word == "not judged":
            print(f"not judged: {line.row.id} ({line.status}): {line.verdict.reason}")
