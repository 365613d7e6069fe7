"""The numbers of one run with adaptive or fixed skips."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

TaskName = Literal["room-runner", "funnel-board", "funnel-board-switch"]
"""In the last one the funnels begin to bounce in the course of the run."""

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class SkipConfig:
    """One model on one task; the defaults are those of the full method (Neitz, thesis, App. A)."""

    task: TaskName
    frames: Literal["images", "vectors"] = "images"
    """What the model sees: the drawn frames, or place and velocity with the map beside them."""
    cells: Annotated[int, Field(ge=8, le=16)] = 16
    """Rooms are kept to so many cells in each direction, which are all that is drawn."""
    board_rows: Literal[2, 4, 6] = 6
    board_columns: Literal[3, 5] = 5
    """Of the board, as far as there is one: of sliders and of funnels, and of platforms."""
    num_train: Count = 500
    num_validation: Count = 500
    data_seed: Annotated[int, Field(ge=0)] = 0
    shortest_skip: Count = 1
    longest_skip: Count = 21  # the horizon H; equal to the shortest: a fixed step
    matching: Literal["greedy", "global", "soft"] = "greedy"
    learning_rate: Positive = 5e-4
    schedule_steps: Positive = 37_500.0
    """The length of the run that the next three are meant for; they are scaled to the run's own."""
    exploration_steps: Annotated[float, Field(ge=0)] = 7_500.0  # K; 0 is none
    sampling_steps: Positive = 20_000.0  # S
    decay_every: Positive = 15_000.0
    warm_up_steps: Annotated[float, Field(ge=0)] = 0.0  # steps of the run itself; 0 is none
    switch_share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Of a run whose data change: how much of it comes before."""
    longest_gradient: Positive | None = None
    """In usual lengths; longer ones are shortened. None is as published."""
    batch_size: Count = 2
    architecture: Literal["simple", "dilated", "strided"] = "strided"  # of images
    kernels: Count = 48
    start: Literal["random", "copy"] = "random"
    """How a model of images starts: as published, or by returning what it is given."""
    precision: Literal["highest", "default", "bfloat16"] = "default"  # of the convolutions
    hidden: tuple[Count, ...] = (128, 128)  # of vectors
    greedy_share: Annotated[float, Field(ge=0, le=1)] = 0.5  # of a run that ends with alignment
    temperature: Positive = 1e-3  # of the soft alignment
    step_cost: Annotated[float, Field(ge=0)] = 0.0  # of an alignment
    aligned_steps: Count | None = None  # predictions that an alignment may take; None: any number
    num_watched: Count = 125  # validation trajectories that are measured on the way
    chunk: Count = 8
    """Steps of a rollout of images that are made before one looks whether all have ended."""
    lanes: Count | None = None
    """Trajectories of a batch that are followed at a time; None: as is fastest on the device. With
    fixed steps there may be more, for pieces of trajectories."""
    rematerialize: bool = False
    vectorize_seeds: bool = True  # on an accelerator: one program for all seeds

    @model_validator(mode="after")
    def _skips_are_in_order(self) -> "SkipConfig":
        if self.longest_skip < self.shortest_skip:
            raise ValueError(
                f"`longest_skip` must be at least `shortest_skip`, {self.shortest_skip}; got "
                f"{self.longest_skip}"
            )
        return self

    @model_validator(mode="after")
    def _sizes_are_of_the_task(self) -> "SkipConfig":
        if self.cells != 16 and self.task != "room-runner":
            raise ValueError(f"`cells` is for the task room-runner; the task is {self.task}")
        if (self.board_rows, self.board_columns) != (6, 5) and self.task == "room-runner":
            raise ValueError(
                "`board_rows` and `board_columns` are for boards; the task is room-runner"
            )
        return self
