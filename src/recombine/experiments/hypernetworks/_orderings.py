"""Rules about several rows at once: this is what a paper claims when it prints only figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from recombine.experiments._rules import Finals, Judgement

Others = Callable[[str], Finals | None]


@dataclass(frozen=True)
class AboveEach:
    """The mean exceeds that of each of several rows.

    By `margin` and, where asked, by more than the sum of the two standard errors. With a `factor`
    it must be above that many times theirs.
    """

    rows: tuple[str, ...]
    margin: float = 0.0
    metric: str | None = None  # another one than the row's own
    beyond_errors: bool = False
    factor: float = 1.0

    def judge(self, metric: str, finals: Finals, others: Others) -> Judgement:
        """Compares with the one that comes nearest."""
        return _compare(self, self.metric or metric, finals, others, sign=1)


@dataclass(frozen=True)
class BelowEach:
    """The mean lies below that of each of several rows; see `AboveEach`."""

    rows: tuple[str, ...]
    margin: float = 0.0
    metric: str | None = None
    beyond_errors: bool = False
    factor: float = 1.0

    def judge(self, metric: str, finals: Finals, others: Others) -> Judgement:
        """Compares with the one that comes nearest."""
        return _compare(self, self.metric or metric, finals, others, sign=-1)


@dataclass(frozen=True)
class Lead:
    """How far the mean is above the best rival, compared with another row and its rivals."""

    over: tuple[str, ...]
    than_of: str
    than_over: tuple[str, ...]
    larger: bool
    metric: str | None = None

    def judge(self, metric: str, finals: Finals, others: Others) -> Judgement:
        """Compares the two leads."""
        metric = self.metric or metric
        needed = (*self.over, self.than_of, *self.than_over)
        missing = _missing(needed, metric, others)
        if missing:
            return missing
        ours = _mean(finals, metric) - max(_mean(others(row), metric) for row in self.over)
        rivals = max(_mean(others(row), metric) for row in self.than_over)
        theirs = _mean(others(self.than_of), metric) - rivals
        word = "above" if self.larger else "below"
        return Judgement(
            bool(ours > theirs if self.larger else ours < theirs),
            f"leads {_names(self.over)} by {ours:.3g} in {metric}, must be {word} the "
            f"{theirs:.3g} of {self.than_of}",
        )


def _compare(
    rule: AboveEach | BelowEach,
    metric: str,
    finals: Finals,
    others: Others,
    *,
    sign: int,
) -> Judgement:
    if metric not in finals:
        return Judgement(None, f"{metric} was not measured")
    missing = _missing(rule.rows, metric, others)
    if missing:
        return missing
    ours = _mean(finals, metric)
    bounds = {}
    for row in rule.rows:
        theirs = others(row)
        margin = rule.margin
        if rule.beyond_errors:
            margin += _standard_error(finals, metric) + _standard_error(theirs, metric)
        bounds[row] = rule.factor * _mean(theirs, metric) + sign * margin
    nearest = (max if sign > 0 else min)(bounds, key=lambda row: bounds[row])
    word = "above" if sign > 0 else "below"
    share = f" ({rule.factor:.3g} times its mean)" if rule.factor != 1 else ""
    among = f", the nearest of {len(bounds)}" if len(bounds) > 1 else ""
    return Judgement(
        bool(sign * (ours - bounds[nearest]) > 0),
        f"mean {metric} {ours:.4g}, must be {word} {bounds[nearest]:.4g}, from {nearest}{share}"
        f"{among}",
    )


def _missing(rows: Sequence[str], metric: str, others: Others) -> Judgement | None:
    missing = [row for row in rows if metric not in (others(row) or {})]
    if not missing:
        return None
    return Judgement(None, f"{_names(missing)} must be run in the same variant to compare with")


def _names(rows: Sequence[str]) -> str:
    return ", ".join(rows)


def _mean(finals: Finals | None, metric: str) -> float:
    assert finals is not None
    return float(np.mean(finals[metric]))


def _standard_error(finals: Finals | None, metric: str) -> float:
    assert finals is not None
    values = finals[metric]
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
