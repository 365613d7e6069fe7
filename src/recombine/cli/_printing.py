"""Printing for people and for programs."""

import json
from typing import Any

SHORT = 20
"""Cells up to so many characters are not folded, except in the first column."""

UNFOLDED = 160
"""The least width in characters where there is no terminal to fit into."""


def print_json(data: Any) -> None:
    """Prints JSON to the standard output; what is not a number is null."""
    print(json.dumps(data, indent=1, allow_nan=False, default=str))


def print_grid(columns: tuple[str, ...], rows: list[tuple[str, ...]], title: str = "") -> None:
    """Prints a table; columns that are empty everywhere are left out.

    Lines are as long as they need to be, except on a terminal too narrow for them, where the
    first column folds before any other does.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    used = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    grid = Table(title=title or None, title_justify="left")
    for i in used:
        longest = max(len(columns[i]), *(len(row[i]) for row in rows))
        grid.add_column(
            columns[i], overflow="fold", min_width=longest if i > 0 and longest <= SHORT else None
        )
    for row in rows:
        grid.add_row(*(escape(row[i]) for i in used))
    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console = Console(soft_wrap=False, width=max(console.width, UNFOLDED))
    console.print(grid)
