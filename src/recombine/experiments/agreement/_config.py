"""The numbers of one run on the synthetic memorisation data.

Every method has a config of its own with the settings that it reads, and no others.
"""

import math
from dataclasses import fields, replace
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(extra="forbid")
Count = Annotated[int, Field(ge=1)]
Strength = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DataConfig:
    """Spirals and shortcuts; the defaults are those of the thesis, App. B."""

    num_envs: Annotated[int, Field(ge=2)] = 32
    num_examples: Count = 1280  # per environment
    num_shortcuts: Count = 32
    num_test: Count = 2000
    style: Literal["thesis", "variance", "release"] = "thesis"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SpiralsConfig(DataConfig):
    """A network, a schedule and weight decay; what all methods share (thesis, Table B.1)."""

    hidden_units: Count = 256
    hidden_layers: Count = 3
    batch_size: Count = 128  # per environment
    learning_rate: Annotated[float, Field(gt=0)] = 1e-2
    decay_at: tuple[Annotated[float, Field(gt=0, le=1)], ...] = (0.5, 0.75)  # of all steps
    l2: Strength = 1e-4


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SyntheticConfig(SpiralsConfig):
    """The AND-mask and, with a threshold of 0, the plain mean.

    `threshold` and `rescale` are not those of the thesis: with the printed threshold of 1 and 128
    examples from each environment, unanimity of 32 environments is too noisy to train in the
    printed 930 steps.
    """

    threshold: Annotated[float, Field(ge=0, le=1)] = 0.8  # 0 is the plain mean
    rescale: Literal["tensor", "global"] | None = "tensor"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Options:
    """What Table B.1 switches on and off, beside the sizes."""

    l1: Strength = 0.0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    batch_norm: bool = False
    optimizer: Literal["adam", "sgd"] = "adam"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RegularizedConfig(Options, SyntheticConfig):
    """The AND-mask, the geometric mean or the plain mean, with every regularizer at choice."""

    mean: Literal["arithmetic", "geometric"] = "arithmetic"
    decoupled: bool = False  # takes the decay past Adam, as AdamW does


@dataclass(frozen=True, kw_only=True, config=STRICT)
class IrmConfig(Options, SpiralsConfig):
    """Invariant risk minimization, inside Table B.2, which has no other regularizer."""

    l2: Strength = 0.0
    penalty_weight: Strength = 100.0
    anneal_epochs: Annotated[int, Field(ge=0)] = 4  # the unit is not printed


@dataclass(frozen=True, kw_only=True, config=STRICT)
class VrexConfig(Options, SpiralsConfig):
    """Risk extrapolation, which the thesis does not compare with; weights as in DomainBed."""

    l2: Strength = 0.0
    penalty_weight: Strength = 10.0
    anneal_epochs: Annotated[int, Field(ge=0)] = 4


@dataclass(frozen=True, kw_only=True, config=STRICT)
class FishrConfig(Options, SpiralsConfig):
    """Matched gradient variances, which the thesis does not compare with; as in DomainBed."""

    l2: Strength = 0.0
    penalty_weight: Strength = 1000.0
    anneal_epochs: Annotated[int, Field(ge=0)] = 4
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.95


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DannConfig(Options, SpiralsConfig):
    """Domain-adversarial training; the coefficient of the reversal is not printed.

    `hidden_layers` is not read: the three parts have two layers each.
    """

    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    l2: Strength = 0.0
    reversal: Strength = 1.0


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EnvironmentsConfig(SyntheticConfig):
    """Any number of environments: pooled, or some of them in each step (thesis, Fig. B.6).

    Examples are drawn independently, not in epochs.
    """

    group_size: Count | None = 32  # environments in a step; None pools them all into one


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SearchConfig(DataConfig):
    """A random search inside Table B.1, or B.2 for IRM.

    Sizes that change the shape of arrays are tried in every combination, once in every round; all
    other numbers are drawn for each trial, each from its choices with equal chances. The kinds of
    regularizer (L2, L1, none) have equal chances too, where there are choices for both.
    """

    method: Literal["standard", "and-mask", "irm", "dann"]
    rounds: Count = 5
    hidden_units: tuple[Count, ...] = (256, 512)
    hidden_layers: tuple[Count, ...] = (3, 5)
    batch_sizes: tuple[Count, ...] = (64, 128, 256)  # per environment
    batch_norm: tuple[bool, ...] = (False, True)
    learning_rates: tuple[Strength, ...] = (1e-3, 1e-2, 1e-1)
    dropouts: tuple[Strength, ...] = (0.0, 0.5)
    l2: tuple[Strength, ...] = (1e-5, 1e-4, 1e-3)
    l1: tuple[Strength, ...] = (1e-6, 1e-5, 1e-4)
    thresholds: tuple[Strength, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)  # not printed
    penalty_weights: tuple[Strength, ...] = (10.0, 100.0, 1000.0)
    anneal_epochs: tuple[int, ...] = (0, 1, 2, 4, 8)
    reversal_exponents: tuple[float, float] = (-2.0, 2.0)  # of ten, uniform; not printed
    decay_at: tuple[Annotated[float, Field(gt=0, le=1)], ...] = (0.5, 0.75)

    @property
    def num_trials(self) -> int:
        """How many settings are tried."""
        return len(self.batch_norm) * self.rounds * self.num_shapes

    @property
    def num_shapes(self) -> int:
        """How many combinations of sizes there are, batch normalisation left aside."""
        return math.prod(map(len, (self.hidden_units, self.hidden_layers, self.batch_sizes)))


@dataclass(frozen=True, kw_only=True, config=STRICT)
class UnevenSearchConfig(SearchConfig):
    """A search in which trials with batch normalisation, where they are dear, are fewer."""

    norm_rounds: Count = 1
    norm_hidden_layers: tuple[Count, ...] = (3,)

    @property
    def parts(self) -> tuple[SearchConfig, ...]:
        """The searches without and with batch normalisation."""
        names = [field.name for field in fields(SearchConfig)]
        search = SearchConfig(**{name: getattr(self, name) for name in names})
        dear = {"rounds": self.norm_rounds, "hidden_layers": self.norm_hidden_layers}
        return tuple(
            replace(search, batch_norm=(norm,), **(dear if norm else {}))
            for norm in self.batch_norm
        )

    @property
    def num_trials(self) -> int:
        """How many settings are tried."""
        return sum(part.num_trials for part in self.parts)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CorrelationConfig:
    """Gradients of random networks (thesis, Fig. 3.7 and App. B)."""

    num_envs: Annotated[int, Field(ge=2)] = 16
    num_examples: Count = 1024  # per environment
    num_shortcuts: Count = 32
    style: Literal["thesis", "variance", "release"] = "thesis"
    hidden_units: Count = 256
    hidden_layers: Count = 3
    start: Literal["normal", "uniform"] = "uniform"  # not printed; PyTorch's own is uniform
