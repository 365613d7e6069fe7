"""The numbers of a search over optimizers on the levels of the side-scroller."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic.dataclasses import dataclass

from recombine.experiments.agreement._config import STRICT, Count


def _ordered(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] > ends[1]:
        raise ValueError(f"the lower end of a range must come first; got {ends}")
    return ends


Share = Annotated[float, Field(ge=0, lt=1)]
Shares = Annotated[tuple[Share, Share], AfterValidator(_ordered)]
Positive = Annotated[float, Field(gt=0)]
Positives = Annotated[tuple[Positive, Positive], AfterValidator(_ordered)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CloningConfig:
    """Levels, a network, and settings drawn at random from ranges.

    Levels and states are as many as in the thesis (App. B.2.6). It prints neither network sizes for
    pictures as small as ours, nor batch size, nor ranges; those of the optimizer are read off its
    best runs.
    """

    method: Literal["adam", "temporal-and-mask"]
    num_levels: Count = 64
    num_states: Count = 1000  # of each level
    num_test: Count = 2000  # states, each of a level of its own
    hidden_units: Count = 256
    hidden_layers: Count = 2
    batch_size: Count = 256  # states of one level
    num_trials: Count = 256
    num_best: Count = 10  # of the trials, whose mean is reported
    learning_rates: Positives = (1e-4, 1e-1)  # uniform in its logarithm
    b1: Shares = (0.0, 0.95)
    b3: Shares = (0.3, 0.99)
    thresholds: Shares = (0.0, 0.9)
    weight_decays: Positives = (1e-5, 1.0)  # uniform in its logarithm
    decay_at: tuple[Annotated[float, Field(gt=0, le=1)], ...] = (0.5, 0.75)  # of all epochs

    @model_validator(mode="after")
    def _has_enough_trials(self) -> Self:
        if self.num_best > self.num_trials:
            raise ValueError(
                f"`num_best` trials are taken of `num_trials`, and must not be more; got "
                f"{self.num_best} of {self.num_trials}"
            )
        return self
