"""The mean of the best runs of a search, with a bootstrap interval."""

from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

RESAMPLES = 2000
LEVEL = 0.95


class BestRuns(NamedTuple):
    """A mean, and between which ends it would lie if the same runs were drawn again."""

    mean: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]


def mean_of_best(losses: Float[Array, " runs"], num_best: int) -> BestRuns:
    """Returns the mean of the lowest losses and its 95 % bootstrap interval, always the same.

    The percentiles of means of as many runs, drawn from the best with replacement (Neitz, thesis,
    Fig. 3.12). The runs were chosen for being the best: the interval says how much they differ, not
    what another search would find.
    """
    best = jnp.sort(losses)[:num_best]
    drawn = jr.randint(jr.key(0), (RESAMPLES, len(best)), 0, len(best))
    means = jnp.mean(best[drawn], axis=1)
    tail = (1 - LEVEL) / 2
    low, high = jnp.quantile(means, jnp.array([tail, 1 - tail]))
    return BestRuns(jnp.mean(best), low, high)
