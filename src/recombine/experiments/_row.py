"""A row: one line of a published table or one curve of a figure, as plain data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from recombine.experiments._metric import Metric as Metric
from recombine.experiments._rules import Rule
from recombine.experiments._search import Search

VariantName = Literal["full", "quick", "tiny"]


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


@dataclass(frozen=True)
class Animation:
    """A moving picture of what one trained seed has learned."""

    title: str
    save: Callable[[Mapping[str, np.ndarray], Path], None]  # (inspected arrays, where: a GIF)
    needs: tuple[str, ...]  # the arrays of `inspect` that it shows


@dataclass(frozen=True)
class Sample:
    """What the task of a row looks like, for those who have run nothing yet."""

    make: Callable[[Any], Mapping[str, np.ndarray]]  # (config) to arrays; it may load JAX
    pictures: tuple[Picture, ...] = ()
    animations: tuple[Animation, ...] = ()


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
    animations: tuple[Animation, ...] = ()
    sample: Sample | None = None
    search: Search | None = None  # what `recombine tune` may search
    selection: Metric | None = None
    """What may choose a step of a run, beside the last one; never what the row is judged by."""

    def variant(self, name: str) -> Variant:
        """Returns the variant of that name; a row without a quick one says so."""
        chosen = {"full": self.full, "quick": self.quick, "tiny": self.tiny}[name]
        if chosen is None:
            raise LookupError(f"{self.id} has no quick variant; run it without `--quick`")
        return chosen


@dataclass(frozen=True)
class Panel:
    """One metric of a `Chart`: a line for each row, a dot for each seed."""

    metric: Metric
    log: bool = False
    low: float | None = None  # what lies below is drawn at the edge
    floor: str = ""  # a further metric, drawn hollow: chance, or what there is to compare with


@dataclass(frozen=True)
class Chart:
    """The final values of all rows of a group beside each other."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Group:
    """The rows of one table or figure."""

    id: str
    title: str
    source: str
    rows: tuple[Row, ...]
    charts: tuple[Chart, ...] = ()


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
