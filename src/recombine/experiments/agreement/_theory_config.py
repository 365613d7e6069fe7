"""The numbers of the rows that check the theory: examples with known answers, and propositions."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(extra="forbid")

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LandscapeConfig:
    """Descents on two landscapes; a step is one start (Neitz, thesis, Fig. 3.1).

    The figure prints no numbers, so all of these are ours.
    """

    epsilon: Positive = 0.01
    learning_rate: Positive = 0.05
    descent_steps: Count = 1000
    walk_steps: Count = 100  # of the ascent that measures a score


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PatchworkConfig:
    """The patchwork network; a step is one more start of the ascent (Neitz, thesis, App. B.1.1).

    `radius` is the distance of the variation that the thesis prints; `epsilon` is ours.
    """

    offset: float = -50.0  # the second parameter; the target's ramp has its middle at -45
    epsilon: Positive = 1e-3
    radius: Positive = 1.5
    walk_steps: Count = 60
    num_points: Count = 4096  # of each environment


@dataclass(frozen=True, kw_only=True, config=STRICT)
class MaskedDescentConfig:
    """Masked descent on random quadratic losses; a step is one update (proposition 1)."""

    num_envs: Annotated[int, Field(ge=2)] = 8
    num_params: Count = 50
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    stride: Annotated[float, Field(gt=0, le=1)] = 1.0  # of the largest learning rate allowed


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RandomGradientsConfig:
    """Random gradients joined over environments; a step is one draw (Fig. 3.4)."""

    num_envs: tuple[Count, ...] = (5, 10, 20, 30, 50, 80, 100, 110, 120)
    num_params: Count = 3000
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.6  # at least 0.8 of the environments agree


@dataclass(frozen=True, kw_only=True, config=STRICT)
class HessianPairsConfig:
    """Random pairs of diagonal Hessians; a step draws `num_pairs` (proposition 3)."""

    constant: Positive = 4.0  # the thesis prints 2
    num_pairs: Count = 1000
    max_params: Count = 3
    decades: Positive = 2.0  # curvatures from 10 ** -decades to 10 ** decades


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LinearToyConfig:
    """A weight for each environment and one for all; the authors' notebook."""

    rule: Literal["arithmetic", "and-mask", "geometric"] = "and-mask"
    learning_rate: Positive = 0.3
    rate_decay: Annotated[float, Field(gt=0, le=1)] = 0.9995  # before every step
    weight_decay: Annotated[float, Field(ge=0)] = 0.01  # times the rate, after every step
    num_seen: Annotated[int, Field(ge=2, le=3)] = 2  # environments where others are held out
