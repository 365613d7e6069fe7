"""The numbers of one run; the defaults are the published ones (Neitz, thesis, App. C).

What the thesis leaves open for the toy tasks is as in the authors' released script.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, lt=1)]

Split = Literal["fixed", "resample", "ascending"]
"""Whether the validation part is drawn once, or anew in every iteration; then the training part is
shuffled, or stays in the order of the data, as in the released script."""

GRID_SIZES = (128, 147, 169, 194, 223, 256, 294, 338, 388, 446, 512, 588, 676, 776, 891, 1024)
"""Sixteen training sizes, evenly spaced on a logarithmic scale."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class HiddenXorConfig:
    """Task A over a grid of dimensions and training sizes, all cells at once."""

    method: Literal["none", "ldt"] = "ldt"
    dimensions: tuple[Count, ...] = (64, 128, 256, 512)
    sizes: tuple[Count, ...] = GRID_SIZES  # of the training set, its validation part included
    judged_sizes: tuple[Count, ...] = ()  # whose mean the row is judged by; none: all
    split: Literal["fixed", "resample"] = "resample"
    validation_share: Share = 0.5
    bottleneck: Count = 32  # the layer that is taught, which has no activation
    hidden: Count = 128
    teacher_hidden: tuple[Count, ...] = (256, 256)
    batch_size: Count = 16
    learning_rate: Rate = 1e-3
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.5  # of both optimizers
    weight_decay: NotNegative = 1e-8
    inner_steps: Count = 32
    teaching_weight: NotNegative = 1e3
    meta_rate: Rate = 3e-4
    num_test: Count = 1000
    num_selection: Count = 1000

    @model_validator(mode="after")
    def _judges_what_it_runs(self) -> "HiddenXorConfig":
        missing = sorted(set(self.judged_sizes) - set(self.sizes))
        if missing:
            raise ValueError(f"`judged_sizes` must be among `sizes`; {missing} are not")
        return self


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class NoisyLabelsConfig:
    """Task B: labels drawn by chance, and a view of the chances."""

    method: Literal["none", "ldt"] = "ldt"
    split: Split = "resample"
    validation_share: Share = 0.5
    entropy_weight: NotNegative = 0.0  # β: how much the baselines are rewarded for doubt
    num_inputs: Count = 128
    num_train: Count = 1000
    num_test: Count = 1000
    hidden: tuple[Count, ...] = (256, 256)
    teacher_hidden: tuple[Count, ...] = (256, 256)
    batch_size: Count = 32
    student_steps: Count = 8
    learning_rate: Rate = 1e-3
    weight_decay: NotNegative = 1e-6
    inner_steps: Count = 64
    teaching_weight: NotNegative = 1e4
    meta_rate: Rate = 1e-3


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class LifeConfig:
    """The Game of Life over training sizes, all at once."""

    method: Literal["none", "fixed-random", "fixed-oracle", "ldt"] = "ldt"
    sizes: tuple[Count, ...] = (512, 2048, 8192)
    in_order: bool = False  # whether the boards of the future keep their true order
    oracle_is_told: bool = True  # otherwise it takes the scrambled order for the true one
    board: Count = 17
    num_steps: Count = 3  # of the automaton; three layers of the student for each
    num_maps: Count = 8
    batch_size: Count = 32
    student_steps: Count = 24
    learning_rate: Rate = 2e-3
    weight_decay: NotNegative = 1e-6
    teaching_weights: tuple[NotNegative, ...] = (10.0, 100.0)  # trials; the best is reported
    attention_scale: Rate = 1e-2  # of a teacher's first logits
    validation_share: Share = 0.3
    most_validation: Count = 512
    inner_steps: Count = 24
    meta_rate: Rate = 10.0
    meta_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    iterations: Count = 25  # in one step of the run, after which all is measured
    num_test: Count = 10_000
    num_selection: Count = 1000


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class ControlConfig:
    """16-step returns in a simulated body; the defaults are those of table C.6."""

    task: Literal["halfcheetah", "hopper", "swimmer", "walker2d"]
    method: Literal["model-free", "auxiliary", "ldt", "untrained"] = "ldt"
    data: Literal["simulated", "random"] = "simulated"
    """Random numbers of the same shapes need no simulator; they are for tests and timing."""
    num_train: Count = 4000
    num_selection: Count = 1000
    num_test: Count = 10_000
    data_seed: Whole = 0
    hidden: tuple[Count, ...] = (128,) * 5
    batch_size: Count = 24
    student_steps: Count = 24
    learning_rate: Rate = 1e-3
    weight_decay: NotNegative = 0.0
    teaching_weight: NotNegative = 316.22776601683796  # α; of an auxiliary task its weight
    validation_share: Share = 0.3
    resample: bool = False  # whether the validation part is drawn anew in every iteration
    ascending: bool = False  # whether a training part drawn anew stays in the order of the data
    permuted: bool = False  # the frames of each example in an order of their own
    noisy_frames: Annotated[int, Field(ge=0, le=16)] = 0  # so many of the last are noise
    teacher_maps: tuple[Count, ...] = (96, 96, 96, 256)
    teacher_hidden: Count = 768
    gate_scale: Rate = 1.0
    gate_shift: float = -1.0
    inner_steps: Count = 96
    inner_rate: Rate = 1e-2
    inner_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.75
    inner_weight_decay: NotNegative = 1e-8
    meta_rate: Rate = 5e-4
    meta_beta1: Annotated[float, Field(ge=0, lt=1)] = 0.0
    skip_runaways: bool = True  # whether a meta-step whose inner loop diverges is left out
    longest_meta_gradient: Rate | None = None  # a longer one counts as that of a diverged loop
    keep: Literal["everything", "steps", "segments"] = "steps"  # for the backward pass
    iterations: Count = 5  # in one step of the run, after which all is measured
    precision: str | None = None  # of matrix products; the device's own where there is none


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class ControlSearchConfig:
    """All settings of a baseline within the published ranges, side by side (tables C.2, C.3)."""

    base: ControlConfig
    learning_rates: tuple[Rate, ...] = (1e-3, 1e-2)
    weight_decays: tuple[NotNegative, ...] = (0.0, 1e-5, 1e-4)
    batch_sizes: tuple[Count, ...] = (8, 16, 32)
    teaching_weights: tuple[NotNegative, ...] = (1.0,)
