"""The numbers of one run; the defaults are those that Schug et al. (2024) train with."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

TheorySupport = Literal[
    "onehot",
    "pairs-split",
    "triples-split",
    "triples+pairs-split",
    "onehot+pairs-split",
    "pairs-ring",
    "triples-ring3",
    "triples-ring6",
    "triples-slide6",
    "all6",
    "onehot+pairs-ring",
    "onehot+triples-ring3",
    "onehot+triples-ring6",
    "onehot+all6",
]
"""Which of six modules occur together in training."""

HyperteacherSupport = Literal[
    "random",
    "non-compositional",
    "connected",
    "disconnected",
    "connected-matched",
    "disconnected-clean",
]
"""Which combinations of modules are trained on."""

LearnerName = Literal["linear-hnet", "deep-hnet", "anil", "maml"]
Encoder = Literal["deep-set", "transformer"]

Count = Annotated[int, Field(ge=1)]
Steps = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]

EPS_ROOT = 2.0**-23
"""As published: the distance from 1 to the next number in single precision. Under the root of the
inner optimizer, and larger where `InnerLoop.eps_root` is to even out the gradients of tasks."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class TheoryConfig:
    """A student of a modular teacher that sees new examples in every inner step."""

    support: TheorySupport
    latents: Literal["continuous", "discrete"] = "continuous"
    num_inputs: Count = 16
    num_outputs: Count = 4
    width: Count = 16  # of the teacher's hidden layer
    width_factor: Rate = 2.0  # by which the student's is wider
    latent_factor: Rate = 2.0  # by which its latent is longer than the six modules
    num_tasks: Count = 64
    num_rows: Count = 256  # in every inner step, and in the outer one
    num_query_rows: Count = 1024  # of a task that is measured
    num_measured: Count = 512
    chunk_size: Count = 512  # so many of them at once
    inner_optimizer: Literal["adam", "gauss-newton"] = "adam"
    inner_steps: Count = 300
    inner_rate: Rate = 3e-3  # of Gauss-Newton: the length of a step, 1 being the whole of it
    damping: Rate = 1e-2  # of Gauss-Newton steps, as a share of the mean curvature
    pull: NotNegative = 0.0  # of Gauss-Newton steps, towards the start: keeps latents from drifting
    long_inner_steps: Count = 2_000  # tells failing to infer from failing to identify
    outer_rate: Rate = 1e-3
    weight_decay: NotNegative = 0.0
    precision: str | None = "highest"  # of matrix products: losses fall below what TF32 resolves


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class HyperteacherConfig:
    """One learner on few-shot classification; the defaults are the linear hypernetwork's."""

    learner: LearnerName = "linear-hnet"
    encoder: Encoder | None = None  # predicts the embedding that a hypernetwork starts from
    support: HyperteacherSupport = "random"
    num_modules: Count = 8  # in each of the teacher's generated layers
    max_active: Count = 2
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.25  # for the random support
    teacher_hidden: Count = 3  # layers; all but the first are generated
    teacher_width: Count = 32
    num_inputs: Count = 16
    num_outputs: Count = 8
    num_support: Count = 256
    num_query: Count = 256
    num_hidden: Count = 3  # layers of the learner
    width: Count = 128
    num_templates: Count = 32  # the length of a hypernetwork's embedding row
    adapts_bias: bool = True  # only of a linear hypernetwork
    encoder_width: Count = 128
    inner_steps: Steps = 10
    inner_rate: Rate = 0.3
    inner_eps_root: Rate = EPS_ROOT  # under the root of the inner optimizer
    batch_size: Count | None = None  # rows in an inner step; all of them where there is none
    outer_rate: Rate = 1e-3
    outer_decays: bool = False  # whether the rate falls to nearly nothing, along a cosine
    weight_decay: NotNegative = 1e-2
    clip_norm: Rate | None = 1.0
    clip_tasks: Rate | None = None  # of each task's gradient, before their mean; not published
    num_tasks: Count = 128
    num_measured: Count = 1024
    chunk_size: Count = 128
    # Of matrix products; the device's own where there is none. With float16 or bfloat16 networks
    # keep what they compute in that type: half the memory to move, and with bfloat16 more noise.
    precision: str | None = None
