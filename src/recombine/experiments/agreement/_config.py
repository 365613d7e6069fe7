"""The numbers of one run on the synthetic memorisation data."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class SyntheticConfig:
    """Spirals and shortcuts; the defaults are those of the thesis, Table B.1 and App. B.

    `threshold` and `rescale` are not: with the printed threshold of 1 and 128 examples from each
    environment, unanimity of 32 environments is too noisy to train in the printed 930 steps.
    """

    num_envs: Annotated[int, Field(ge=2)] = 32
    num_examples: Annotated[int, Field(ge=1)] = 1280  # per environment
    num_shortcuts: Annotated[int, Field(ge=1)] = 32
    num_test: Annotated[int, Field(ge=1)] = 2000
    style: Literal["thesis", "variance", "release"] = "thesis"
    hidden_units: Annotated[int, Field(ge=1)] = 256
    hidden_layers: Annotated[int, Field(ge=1)] = 3
    batch_size: Annotated[int, Field(ge=1)] = 128  # per environment
    learning_rate: Annotated[float, Field(gt=0)] = 1e-2
    decay_at: tuple[Annotated[float, Field(gt=0, le=1)], ...] = (0.5, 0.75)  # of all steps
    l2: Annotated[float, Field(ge=0)] = 1e-4
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.8  # 0 is the plain mean
    rescale: Literal["tensor", "global"] | None = "tensor"
