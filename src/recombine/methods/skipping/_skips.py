"""How far a prediction may skip, and the coins of a training step."""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray


@dataclass(frozen=True)
class Skips:
    """The numbers of frames that one prediction may advance.

    `Skips(1, horizon)` is adaptive, `Skips(k, k)` predicts every k-th frame.
    """

    shortest: int = 1
    longest: int = 21

    def __post_init__(self) -> None:
        if self.shortest < 1:
            raise ValueError(f"`shortest` must be at least 1 frame; got {self.shortest}")
        if self.longest < self.shortest:
            raise ValueError(
                f"`longest` (the horizon) must be at least `shortest`, {self.shortest}; got "
                f"{self.longest}"
            )

    @property
    def is_fixed(self) -> bool:
        """Whether there is nothing to choose."""
        return self.shortest == self.longest

    def most_predictions(self, time: int) -> int:
        """Returns how many predictions a trajectory of `time` frames can take at most.

        Example:
            >>> Skips(1, 21).most_predictions(8), Skips(3, 3).most_predictions(8)
            (7, 2)
        """
        return (time - 1) // self.shortest

    def check(self, lengths: Int[np.ndarray, " items"]) -> None:
        """Raises `ValueError` where no trajectory is long enough for the longest skip."""
        if self.longest > int(np.max(lengths)) - 1:
            raise ValueError(
                f"a horizon of {self.longest} frames needs a trajectory of at least "
                f"{self.longest + 1}; the longest has {int(np.max(lengths))}. Use a shorter horizon"
            )


class Coins(NamedTuple):
    """Uniform numbers in [0, 1), one of each for every prediction that a batch may take.

    They are drawn beforehand, so that a step's outcome does not depend on where its loop ends.
    """

    explore: Float[Array, "steps batch"]
    """Below the rate of exploration: match a frame at random."""
    offset: Float[Array, "steps batch"]
    """Which one."""
    truth: Float[Array, "steps batch"]
    """Below the rate of truth: feed the matched frame, not the prediction."""


def flip_coins(key: PRNGKeyArray, steps: int, batch: int) -> Coins:
    """Draws the coins of one training step.

    Example:
        >>> flip_coins(jr.key(0), 7, 2).offset.shape
        (7, 2)
    """
    return Coins(*jr.uniform(key, (3, steps, batch)))


def no_coins(steps: int, batch: int) -> Coins:
    """Returns coins that never fall: no exploration, and the model is fed its own predictions."""
    ones = jnp.ones((steps, batch))
    return Coins(ones, ones, ones)
