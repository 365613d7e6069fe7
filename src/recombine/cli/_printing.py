"""Printing for people and for programs."""

import json
from typing import Any


def print_json(data: Any) -> None:
    """Prints JSON to the standard output; what is not a number is null."""
    print(json.dumps(data, indent=1, allow_nan=False, default=str))


def print_grid(columns: tuple[str, ...], rows: list[tuple[str, ...]], title: str = "") -> None:
    """Prints a table; columns that are empty everywhere are left out."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    used = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    grid = Table(title=title or None, title_justify="left")
    for i in used:
        grid.add_column(columns[i], overflow="fold", no_wrap=i == 0)
    for row in rows:
        grid.add_row(*(escape(row[i]) for i in used))
    Console(soft_wrap=False).print(grid)
