"""The numbers of rows beside the paper's: encoders that are taught, oracles and controls."""

from typing import Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from recombine.experiments.hypernetworks._config import (
    Count,
    HyperteacherConfig,
    NotNegative,
    Rate,
)

_STRICT = ConfigDict(extra="forbid")

ControlName = Literal[
    "told-student", "told-mlp", "ridge-head", "in-context", "nearest-task", "pooled"
]
"""Two oracles that are told which modules a task has: a student of the teacher's form, and a
network without modules. Four controls that are not: a head that is solved for, a transformer whose
queries look at the support, the best of all trained tasks as the teacher has them, and one network
for all tasks."""


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class DistilledConfig(HyperteacherConfig):
    """An encoder of supports that may be taught by gradient descent."""

    distilled: NotNegative | None = None  # weight of the distance to what descent finds
    descent_steps: Count = 10
    descent_rate: Rate = 0.3


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class ControlConfig(HyperteacherConfig):
    """An oracle or a control; `learner` is the one whose sizes and rates it has."""

    control: ControlName
