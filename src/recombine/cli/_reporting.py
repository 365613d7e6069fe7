"""`recombine table` and `recombine report`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from recombine.cli._printing import print_grid, print_json
from recombine.cli._records import records_of, say_why_not_judged
from recombine.experiments import load_systems, match_rows
from recombine.report import COLUMNS, cells, line_to_json, make_lines, to_markdown

TERMINAL_COLUMNS = ("row", "paper", "ours", "verdict", "run", "seeds", "time")
"""What fits in 100 characters; the rest is in the other formats."""


def print_table(
    pattern: str,
    *,
    plugins: Sequence[str] = (),
    runs: Path,
    evidence: bool,
    markdown: bool,
    as_json: bool,
    only_run: bool = False,
) -> None:
    """Prints the table of all rows that match, or only of those that were run."""
    rows = match_rows(pattern, load_systems(plugins))
    lines = make_lines(rows, records_of(runs, evidence=evidence))
    if only_run:
        lines = [line for line in lines if line.record]
    if as_json:
        print_json([line_to_json(line) for line in lines])
    elif markdown:
        print(to_markdown(lines), end="")
    else:
        shown = [COLUMNS.index(name) for name in TERMINAL_COLUMNS]
        texts = [cells(line) for line in lines]
        print_grid(TERMINAL_COLUMNS, [tuple(text[i] for i in shown) for text in texts])
        say_why_not_judged(lines)


def write_report(output: Path, *, plugins: Sequence[str] = (), runs: Path, evidence: bool) -> None:
    """Writes the page and says where it is."""
    from recombine.report import write_page  # draws with matplotlib

    systems = load_systems(plugins)
    write_page(output, records_of(runs, evidence=evidence), systems=systems)
    print(f"report: {output.resolve()}", file=sys.stderr)
