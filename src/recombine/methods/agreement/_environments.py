"""Where a learner's environments come from: arrays given once, or drawn anew for every seed."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray, Shaped


class LabelledEnvironments(NamedTuple):
    """Training data; every environment has the same number of examples."""

    inputs: Float[Array, " envs examples *features"]
    labels: Shaped[Array, "envs examples"]


class LabelledExamples(NamedTuple):
    """Examples to be measured on."""

    inputs: Float[Array, " examples *features"]
    labels: Shaped[Array, " examples"]


class Split(NamedTuple):
    """What is learned from, and what is measured on."""

    train: LabelledEnvironments
    test: LabelledExamples


class Fixed(eqx.Module):
    """The same arrays for every seed; they stay with the learner."""

    data: Split

    def draw(self, key: PRNGKeyArray) -> None:
        """Draws nothing."""

    def split(self, drawn: Any) -> Split:
        """Returns the arrays."""
        return self.data


class Drawn(eqx.Module):
    """A data set of its own for every seed; it is part of the seed's state."""

    sample: Callable[[PRNGKeyArray], Split] = eqx.field(static=True)

    def draw(self, key: PRNGKeyArray) -> Split:
        """Draws the data set."""
        return self.sample(key)

    def split(self, drawn: Any) -> Split:
        """Returns what was drawn."""
        return drawn


Source = Fixed | Drawn
