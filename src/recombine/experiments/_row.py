"""A row: one line of a published table or one curve of a figure, as plain data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from recombine.experiments._rules import Rule

VariantName = Literal["full", "quick", "tiny"]


@dataclass(frozen=True)
class Metric:
    """The number that a row is judged by: a final metric of its learner."""

    name: str
    label: str
    higher_is_better: bool = True
    percent: bool = True  # a share, shown as a percentage


@dataclass(frozen=True)
class Paper:
    """The printed number and where it stands; `mean` is None where there is only a picture."""

    source: str
    mean: float | None = None
    sd: float | None = None
    n: int | None = None
    words: str = ""  # the claim, where the number is stated in words


@dataclass(frozen=True)
class Variant:
    """One way to run a row, and what it must show."""

    config: Any
    steps: int
    eval_every: int
    num_seeds: int
    rule: Rule
    note: str = ""  # how it differs from the published setting


@dataclass(frozen=True)
class Picture:
    """A figure of what one trained seed has learned."""

    title: str
    draw: Callable[[Any, Mapping[str, np.ndarray]], None]  # (matplotlib axes, inspected arrays)
    needs: tuple[str, ...]  # the arrays of `inspect` that it draws


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is run, what it should show, and the printed number to hold it against."""

    id: str
    claim: str
    method: str  # how a table calls it
    make_learner: Callable[[Any, int], Any]  # (config, steps); imports JAX when it is called
    metric: Metric
    paper: Paper
    full: Variant
    quick: Variant | None
    tiny: Variant  # finishes in seconds, shows nothing: for tests
    also: tuple[Metric, ...] = ()  # further metrics worth a curve
    pictures: tuple[Picture, ...] = ()

    def variant(self, name: str) -> Variant:
        """Returns the variant of that name; a row without a quick one says so."""
        chosen = {"full": self.full, "quick": self.quick, "tiny": self.tiny}[name]
        if chosen is None:
            raise LookupError(f"{self.id} has no quick variant; run it without `--quick`")
        return chosen


@dataclass(frozen=True)
class Group:
    """The rows of one table or figure."""

    id: str
    title: str
    source: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class System:
    """One of the published learning systems."""

    id: str
    title: str
    summary: str
    groups: tuple[Group, ...]
    demo: tuple[str, ...] = field(default=())  # the quick rows that show its effect

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in the order of the paper."""
        return tuple(row for group in self.groups for row in group.rows)
