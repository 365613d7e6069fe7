r"""How far apart two means are, and how sure one can be: bootstrap intervals over seeds.

Runs are drawn anew, with replacement, from those there are; the means of many such draws show how
much a mean of this many runs varies (Efron 1979). Where both sides have the same seeds the
differences within seeds are drawn, so that what a seed does to both cancels.

Percentiles of these means make an interval that is too narrow for few runs: it divides by n where
n - 1 is due, and takes the spread for known. Hesterberg (2015, "expanded percentile")
takes percentiles further out,

$$\frac{\alpha'}{2} = \Phi\Big(-\sqrt{\frac{n}{n-1}}\; t_{\alpha/2,\, n-1}\Big)$$

and so do we. For unpaired runs, where the root is that of a single sample, we put the ratio of the
two standard errors in its place, and Welch's degrees of freedom in that of n - 1.

What no percentile can mend: a mean of drawn differences lies between the smallest and the largest
of them, and if differences are as often too high as too low all n lie on one side of the truth with
probability $2^{1-n}$. Below six pairs no such interval can hold the truth in 95 of 100 cases.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LEVEL = 0.95
RESAMPLES = 20_000


class Difference(NamedTuple):
    """The difference of two means, over seeds that both have or, where none is shared, over all."""

    mean: float
    low: float | None  # None where a side has one run only, which says nothing on how runs vary
    high: float | None
    pairs: int | None  # how many seeds both have; None where the runs are not paired
    level: float = LEVEL

    @property
    def is_paired(self) -> bool:
        """Whether runs with the same seed were compared."""
        return self.pairs is not None

    @property
    def reachable(self) -> float:
        """The share of cases in which so few pairs can hold the truth at best; 1 if unpaired."""
        return 1.0 if self.pairs is None else 1.0 - 2.0 ** (1 - self.pairs)


def difference_of_means(
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    random_state: int = 0,
) -> Difference:
    """Returns our mean less theirs, with a bootstrap interval; the same every time it is called.

    Args:
        ours: seed to value; finite, at least one.
        theirs: what to compare with.
        level: in how many of all cases the interval is to hold the true difference.
        resamples: how often to draw.
        random_state: of the draws.

    Example:
        >>> difference_of_means({0: 1.0, 1: 2.0, 2: 3.0}, {0: 0.5, 1: 1.5, 2: 2.5})
        Difference(mean=0.5, low=0.5, high=0.5, pairs=3, level=0.95)
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"`level` is a share of all cases, between 0 and 1; got {level}")
    if resamples < 1:
        raise ValueError(f"`resamples` must be at least 1; got {resamples}")
    for name, values in (("ours", ours), ("theirs", theirs)):
        if not values or not all(math.isfinite(value) for value in values.values()):
            raise ValueError(f"`{name}` must be finite values, at least one; got {dict(values)}")
    shared = [seed for seed in ours if seed in theirs]
    rng = np.random.default_rng(random_state)
    if shared:
        within = np.array([ours[seed] - theirs[seed] for seed in shared])
        low, high = _interval([within], level, resamples, rng)
        return Difference(float(within.mean()), low, high, len(shared), level)
    sides = [np.array(list(ours.values()), float), -np.array(list(theirs.values()), float)]
    low, high = _interval(sides, level, resamples, rng)
    return Difference(float(sides[0].mean() + sides[1].mean()), low, high, None, level)


def _interval(
    samples: list[Float[np.ndarray, " runs"]],
    level: float,
    resamples: int,
    rng: np.random.Generator,
) -> tuple[float, float] | tuple[None, None]:
    """Returns an interval for the sum of the samples' means."""
    if min(len(sample) for sample in samples) < 2:
        return None, None
    drawn = np.zeros(resamples)
    for sample in samples:
        drawn += rng.choice(sample, (resamples, len(sample))).mean(axis=1)
    tail = _tail(samples, level)
    low, high = np.quantile(drawn, [tail, 1.0 - tail])
    return float(low), float(high)


def _tail(samples: list[Float[np.ndarray, " runs"]], level: float) -> float:
    """Returns the percentile to take, further out than (1 - level) / 2 by the rule above."""
    from scipy.special import ndtr, stdtrit

    squares = np.array([sample.var(ddof=1) / len(sample) for sample in samples])
    if not squares.sum() > 0.0:
        return (1.0 - level) / 2.0  # all runs are equal, and so are all percentiles
    freedom = [len(sample) - 1 for sample in samples]
    drawn = np.array([sample.var() / len(sample) for sample in samples])
    welch = squares.sum() ** 2 / np.sum(squares**2 / freedom)
    widening = math.sqrt(squares.sum() / drawn.sum())
    return float(ndtr(widening * stdtrit(welch, (1.0 - level) / 2.0)))
