"""A bar on the terminal for whatever takes long; every room may draw one."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


def has_terminal() -> bool:
    """Returns whether the error output is a terminal, where a bar can be drawn."""
    from rich.console import Console

    return Console(stderr=True).is_terminal


def make_bar(*, percentage: bool = False) -> "Progress":
    """Returns a bar on the error output; its tasks have a field `shown`, the text beside it."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    share = (TextColumn("{task.percentage:>3.0f}%"),) if percentage else ()
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        *share,
        TextColumn("{task.fields[shown]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
