"""A search space next to a row's config: which settings may be searched, and in which ranges."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recombine.experiments._metric import Metric


@dataclass(frozen=True)
class Uniform:
    """A number between two others, all equally likely."""

    low: float
    high: float
    points: int | None = None  # how many of them a grid has; without, no grid can be made

    def __post_init__(self) -> None:
        _check(self)

    def grid(self) -> list[float] | None:
        """Returns evenly spaced points, or None where no number of them was given."""
        return (
            None if self.points is None else np.linspace(self.low, self.high, self.points).tolist()
        )


@dataclass(frozen=True)
class LogUniform:
    """A positive number whose logarithm is uniform: for what is a matter of magnitude."""

    low: float
    high: float
    points: int | None = None  # as for `Uniform`

    def __post_init__(self) -> None:
        _check(self)
        _check_positive(self)

    def grid(self) -> list[float] | None:
        """Returns points with equal ratios, or None where no number of them was given."""
        if self.points is None:
            return None
        return np.geomspace(self.low, self.high, self.points).tolist()


@dataclass(frozen=True)
class Whole:
    """A whole number; both ends belong to the range."""

    low: int
    high: int
    log: bool = False  # as for `LogUniform`
    step: int = 1

    def __post_init__(self) -> None:
        _check(self)
        if self.log:
            _check_positive(self)
        if self.step < 1 or (self.log and self.step != 1):
            raise ValueError(f"`step` must be at least 1, and with `log` it is 1; got {self.step}")

    def grid(self) -> list[int]:
        """Returns all of them."""
        return list(range(self.low, self.high + 1, self.step))


@dataclass(frozen=True)
class Choice:
    """One of several values, of any kind that a setting may have."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a `Choice` needs at least one value; got none")

    def grid(self) -> list[Any]:
        """Returns all of them."""
        return list(self.values)


Range = Uniform | LogUniform | Whole | Choice
"""What a setting is drawn from."""


@dataclass(frozen=True)
class Space:
    """Ranges by the names of settings, and what is set apart from them before a search."""

    ranges: Mapping[str, Range] = field(hash=False)
    changes: tuple[str, ...] = ()  # `key=value`, such as fewer steps


@dataclass(frozen=True)
class Search:
    """How `recombine tune` searches a row's settings, and by what it chooses.

    A setting is best chosen by data that nobody is judged by. Where a paper chose by the test set,
    `by_test` says so, and so do the record and the report.
    """

    space: Mapping[str, Range] = field(hash=False)
    metric: Metric  # with the direction in which it is better
    by_test: bool = False
    note: str = ""  # where the ranges come from
    quick: Space | None = None  # of the quick and the tiny variant; else as the full one

    def __post_init__(self) -> None:
        if not self.space:
            raise ValueError("`space` is empty: name at least one setting with its range")

    def of(self, variant: str) -> Space:
        """Returns what is searched in a variant; the changes are those of the quick one only."""
        if variant == "full" or self.quick is None:
            return Space(self.space)
        return self.quick if variant == "quick" else Space(self.quick.ranges)


def range_to_json(range_: Range) -> dict[str, Any]:
    """Returns a range as plain data.

    Example:
        >>> range_to_json(LogUniform(1e-4, 1e-1))
        {'kind': 'LogUniform', 'low': 0.0001, 'high': 0.1}
    """
    values = {name: value for name, value in vars(range_).items() if value is not None}
    return json.loads(json.dumps({"kind": type(range_).__name__, **values}))


def range_to_text(range_: Range) -> str:
    """Returns a range in words.

    Example:
        >>> range_to_text(LogUniform(1e-4, 1e-1)), range_to_text(Choice((None, "tensor")))
        ('0.0001 to 0.1, by magnitude', 'one of None, tensor')
    """
    if isinstance(range_, Choice):
        return f"one of {', '.join(map(str, range_.values))}"
    is_log = isinstance(range_, LogUniform) or (isinstance(range_, Whole) and range_.log)
    return f"{range_.low:g} to {range_.high:g}{', by magnitude' if is_log else ''}"


def _check(range_: Any) -> None:
    low, high = range_.low, range_.high
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"a {type(range_).__name__} goes from a lower number to a higher one; "
            f"got {low} to {high}"
        )
    points = getattr(range_, "points", None)
    if points is not None and points < 2:
        raise ValueError(f"`points` of a grid must be at least 2; got {points}")


def _check_positive(range_: Any) -> None:
    if range_.low <= 0:
        raise ValueError(f"a range of logarithms starts above 0; got {range_.low}")
