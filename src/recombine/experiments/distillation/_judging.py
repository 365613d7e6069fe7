"""Rules that this system needs: ratios of errors, tables of cells, and what a search found."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from recombine.experiments._rules import Finals, Judgement

Others = Callable[[str], Finals | None]


@dataclass(frozen=True)
class RatioTo:
    """The mean over that of another row lies between two bounds; either may be left out."""

    row: str
    low: float | None = None
    high: float | None = None
    metric: str | None = None  # another one than the row's own

    def judge(self, metric: str, finals: Finals, others: Others) -> Judgement:
        """Divides the means."""
        metric = self.metric or metric
        missing = _missing(metric, finals, (self.row,), others)
        if missing:
            return missing
        ratio = _mean(finals, metric) / _mean(others(self.row), metric)
        bounds = [
            f"{word} {bound:.3g}"
            for word, bound in (("at least", self.low), ("at most", self.high))
            if bound is not None
        ]
        holds = (self.low is None or ratio >= self.low) and (
            self.high is None or ratio <= self.high
        )
        return Judgement(
            bool(holds),
            f"mean {metric} is {ratio:.3g} times that of {self.row}, must be "
            f"{' and '.join(bounds)}",
        )


@dataclass(frozen=True)
class SurelyBelow:
    """The mean lies below that of another row, by Welch's test at a level."""

    row: str
    level: float = 0.01
    metric: str | None = None

    def judge(self, metric: str, finals: Finals, others: Others) -> Judgement:
        """Compares the seeds."""
        metric = self.metric or metric
        missing = _missing(metric, finals, (self.row,), others)
        if missing:
            return missing
        theirs = others(self.row)
        assert theirs is not None
        ours, rival = np.asarray(finals[metric]), np.asarray(theirs[metric])
        if min(len(ours), len(rival)) < 2:
            return Judgement(None, f"{self.row} and this row need two seeds to be compared")
        from scipy import stats  # here: it takes a while to load

        found = stats.ttest_ind(ours, rival, equal_var=False, alternative="less")
        chance = float(np.asarray(found[1]))
        return Judgement(
            chance < self.level,
            f"mean {metric} below that of {self.row} with p = {chance:.2g}, must be below "
            f"{self.level:g}",
        )


@dataclass(frozen=True)
class NearTable:
    """The means of several metrics are on average within a distance of a table's values."""

    cells: tuple[tuple[str, float], ...]  # metric and value
    within: float

    def judge(self, metric: str, finals: Finals, others: Others) -> Judgement:
        """Averages the distances."""
        del metric, others
        missing = [name for name, _ in self.cells if name not in finals]
        if missing:
            return Judgement(None, f"{missing[0]} was not measured")
        distances = [abs(_mean(finals, name) - value) for name, value in self.cells]
        far, worst = max(zip(distances, [name for name, _ in self.cells], strict=True))
        mean = float(np.mean(distances))
        return Judgement(
            mean <= self.within,
            f"mean distance from {len(self.cells)} values read off the figure {mean:.3g}, must be "
            f"at most {self.within:.3g}; farthest {worst} by {far:.3g}",
        )


@dataclass(frozen=True)
class SomewhereAbove:
    """The mean of at least one of several metrics exceeds that of another row by a margin."""

    row: str
    metrics: tuple[str, ...]
    margin: float = 0.0

    def judge(self, metric: str, finals: Finals, others: Others) -> Judgement:
        """Looks at the largest lead."""
        del metric
        for name in self.metrics:
            missing = _missing(name, finals, (self.row,), others)
            if missing:
                return missing
        leads = {name: _mean(finals, name) - _mean(others(self.row), name) for name in self.metrics}
        best = max(leads, key=lambda name: leads[name])
        return Judgement(
            leads[best] > self.margin,
            f"largest lead over {self.row} {leads[best]:.3g}, in {best}, must be above "
            f"{self.margin:.3g}",
        )


@dataclass(frozen=True)
class Rising:
    """Over other rows and this one, which comes last, means rise: their rank correlation does."""

    before: tuple[str, ...]
    metric: str | None = None

    def judge(self, metric: str, finals: Finals, others: Others) -> Judgement:
        """Compares the order of the means with that of the rows."""
        metric = self.metric or metric
        missing = _missing(metric, finals, self.before, others)
        if missing:
            return missing
        means = [*(_mean(others(row), metric) for row in self.before), _mean(finals, metric)]
        places = np.arange(len(means))
        correlation = float(np.corrcoef(places, np.argsort(np.argsort(means)))[0, 1])
        shown = ", ".join(f"{mean:.4g}" for mean in means)
        return Judgement(
            correlation > 0,
            f"rank correlation of {metric} over {shown} is {correlation:.2g}, must be above 0",
        )


@dataclass(frozen=True)
class EverySettingAbove:
    """Every setting of a search has a mean above that of another row, times a factor."""

    row: str
    of: str  # the metric of a setting is `<of>/<setting>`
    factor: float = 1.0

    def judge(self, metric: str, finals: Finals, others: Others) -> Judgement:
        """Compares the best setting."""
        del metric
        prefix = f"{self.of}/"
        means = {
            name.removeprefix(prefix): _mean(finals, name)
            for name in finals
            if name.startswith(prefix)
        }
        if not means:
            return Judgement(None, f"{self.of} was not measured")
        missing = _missing(None, finals, (self.row,), others, of=self.of)
        if missing:
            return missing
        best = min(means, key=lambda name: means[name])
        bound = self.factor * _mean(others(self.row), self.of)
        share = f" ({self.factor:.3g} times its mean)" if self.factor != 1 else ""
        return Judgement(
            bool(means[best] > bound),
            f"mean {self.of} of the best of {len(means)} settings, {best}, {means[best]:.4g}, must "
            f"be above {bound:.4g} of {self.row}{share}",
        )


def _missing(
    metric: str | None,
    finals: Finals,
    rows: tuple[str, ...],
    others: Others,
    of: str | None = None,
) -> Judgement | None:
    if metric is not None and metric not in finals:
        return Judgement(None, f"{metric} was not measured")
    wanted = of or metric
    absent = [row for row in rows if wanted not in (others(row) or {})]
    if not absent:
        return None
    return Judgement(None, f"{', '.join(absent)} must be run in the same variant to compare with")


def _mean(finals: Finals | None, metric: str) -> float:
    assert finals is not None
    return float(np.mean(finals[metric]))
