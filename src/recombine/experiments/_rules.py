"""Rules that say, before a run, what its numbers must be."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

Finals = Mapping[str, np.ndarray]
"""Metric name to the final values of the seeds."""


class Judgement(NamedTuple):
    """Whether a rule holds; `None` when something that it needs has not been run."""

    holds: bool | None
    reason: str


class Rule(Protocol):
    """Judges the final values of a row's seeds."""

    def judge(
        self, metric: str, finals: Finals, others: Callable[[str], Finals | None]
    ) -> Judgement:
        """Applies the rule.

        Args:
            metric: the row's own metric.
            finals: the row's final values.
            others: the final values of another row, run in the same variant.
        """
        ...


Statistic = Literal["mean", "median", "min", "max"]


@dataclass(frozen=True)
class AtLeast:
    """A statistic over the seeds reaches a bound."""

    bound: float
    statistic: Statistic = "mean"
    metric: str | None = None  # another one than the row's own

    def judge(
        self, metric: str, finals: Finals, others: Callable[[str], Finals | None]
    ) -> Judgement:
        """Compares, inclusively."""
        return _compare(self, "at least", self.metric or metric, finals)


@dataclass(frozen=True)
class AtMost:
    """A statistic over the seeds stays within a bound."""

    bound: float
    statistic: Statistic = "mean"
    metric: str | None = None

    def judge(
        self, metric: str, finals: Finals, others: Callable[[str], Finals | None]
    ) -> Judgement:
        """Compares, inclusively."""
        return _compare(self, "at most", self.metric or metric, finals)


@dataclass(frozen=True)
class NearPaper:
    """The mean is within so many of the paper's standard deviations, or within `floor`, of it."""

    mean: float
    sd: float = 0.0
    sds: float = 2.0
    floor: float = 0.01

    def judge(
        self, metric: str, finals: Finals, others: Callable[[str], Finals | None]
    ) -> Judgement:
        """Compares the means."""
        reach = max(self.sds * self.sd, self.floor)
        ours = float(np.mean(finals[metric]))
        reason = f"mean {metric} {ours:.4g}, must be within {reach:.3g} of {self.mean:.4g}"
        return Judgement(abs(ours - self.mean) <= reach, reason)


@dataclass(frozen=True)
class Above:
    """The mean exceeds that of another row by a margin."""

    row: str
    margin: float = 0.0
    metric: str | None = None  # another one than the row's own

    def judge(
        self, metric: str, finals: Finals, others: Callable[[str], Finals | None]
    ) -> Judgement:
        """Compares the means."""
        return _order(self.row, self.margin, self.metric or metric, finals, others, sign=1)


@dataclass(frozen=True)
class Below:
    """The mean lies below that of another row by a margin."""

    row: str
    margin: float = 0.0
    metric: str | None = None

    def judge(
        self, metric: str, finals: Finals, others: Callable[[str], Finals | None]
    ) -> Judgement:
        """Compares the means."""
        return _order(self.row, self.margin, self.metric or metric, finals, others, sign=-1)


@dataclass(frozen=True)
class AllOf:
    """All of several rules hold."""

    rules: tuple[Rule, ...]

    def judge(
        self, metric: str, finals: Finals, others: Callable[[str], Finals | None]
    ) -> Judgement:
        """A rule that fails outweighs one that cannot be judged yet."""
        judged = [rule.judge(metric, finals, others) for rule in self.rules]
        reason = "; ".join(judgement.reason for judgement in judged)
        holds = [judgement.holds for judgement in judged]
        return Judgement(False if False in holds else (None if None in holds else True), reason)


def _compare(rule: AtLeast | AtMost, word: str, metric: str, finals: Finals) -> Judgement:
    if metric not in finals:
        return Judgement(None, f"{metric} was not measured")
    value = float(getattr(np, rule.statistic)(finals[metric]))
    holds = value >= rule.bound if word == "at least" else value <= rule.bound
    return Judgement(
        bool(holds), f"{rule.statistic} {metric} {value:.4g}, must be {word} {rule.bound:.4g}"
    )


def _order(
    row: str,
    margin: float,
    metric: str,
    finals: Finals,
    others: Callable[[str], Finals | None],
    *,
    sign: int,
) -> Judgement:
    if metric not in finals:
        return Judgement(None, f"{metric} was not measured")
    other = others(row)
    if other is None or metric not in other:
        return Judgement(None, f"{row} must be run in the same variant to compare with")
    ours, theirs = float(np.mean(finals[metric])), float(np.mean(other[metric]))
    word = "above" if sign > 0 else "below"
    by = f" by {margin:.3g}" if margin else ""
    return Judgement(
        bool(sign * (ours - theirs) > margin),
        f"mean {metric} {ours:.4g}, must be {word} {theirs:.4g} of {row}{by}",
    )
