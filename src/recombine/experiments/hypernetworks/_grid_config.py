"""The numbers of one run on a grid world; defaults are the linear hypernetwork's, as published."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from recombine.experiments.hypernetworks._config import (
    EPS_ROOT,
    Count,
    LearnerName,
    NotNegative,
    Rate,
    Steps,
)

_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class GridConfig:
    """What both grid worlds need to know of a learner (Schug et al. 2024)."""

    learner: LearnerName = "linear-hnet"
    width: Count
    num_hidden: Count
    num_templates: Count  # the length of a hypernetwork's embedding row
    adapts_bias: bool = True  # only of a linear hypernetwork
    inner_steps: Steps = 10
    inner_rate: Rate
    inner_eps_root: Rate = EPS_ROOT  # under the root of the inner optimizer
    batch_size: Count | None = None  # rows in an inner step; all of them where there is none
    outer_rate: Rate
    weight_decay: NotNegative = 1e-2
    clip_norm: Rate | None
    skips: bool  # whether one update that is not finite is left out
    num_tasks: Count = 128
    num_measured: Count = 1024
    num_played: Count = 128  # tasks that are also played, at the end
    chunk_size: Count = 128
    precision: str | None = None  # of matrix products; the device's own where there is none


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class PreferenceConfig(GridConfig):
    """Action values in the preference grid."""

    width: Count = 64
    num_hidden: Count = 3
    num_templates: Count = 32
    inner_rate: Rate = 0.1
    outer_rate: Rate = 3e-4
    clip_norm: Rate | None = 1.0
    skips: bool = True
    support: Literal["random", "non-compositional", "connected", "disconnected"] = "random"
    num_modules: Annotated[int, Field(ge=2)] = 8
    num_types: Count = 8  # of objects
    max_active: Count = 3  # modules; 2 for the connected and the disconnected support
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.25  # for the random support
    num_support: Count = 16  # episodes
    num_query: Count = 16  # episodes, in training
    terminal_nothing: bool = False


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class GoalConfig(GridConfig):
    """The expert's actions in the goal grid."""

    width: Count = 32
    num_hidden: Count = 2
    num_templates: Count = 8
    inner_rate: Rate = 0.3
    outer_rate: Rate = 3e-3
    clip_norm: Rate | None = 2.0
    skips: bool = False
    support: Literal["random", "non-compositional"] = "random"
    held_out: Annotated[float, Field(ge=0, le=0.9)] = 0.25  # for the random support
    num_support: Count = 1  # demonstrations
    num_mazes: Annotated[int, Field(ge=5)] = 100  # of which a seed draws five
    exclude_goal_cell: bool = False


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class SmallGoalConfig(GoalConfig):
    """The goal grid in mazes of another size than the published ones, for quick variants."""

    size: Annotated[int, Field(ge=5)]  # cells in each direction; odd
    nearest_start: Count  # moves from the goal at which the agent may start
    num_rows: Count  # of a demonstration, with those after its end
