"""What the rows of adaptive skips have in common: metrics, lengths, and how a row is made."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from recombine.experiments._row import Metric, Paper, Row, Sample, Variant
from recombine.experiments._rules import AtLeast, Below, Rule
from recombine.experiments.skipping._config import SkipConfig
from recombine.experiments.skipping._pictures import (
    MOVING_TRAJECTORY,
    SIDE_BY_SIDE,
    TIMELINE,
    TRAJECTORY,
)

EPOCH = Metric("epoch", "epochs", percent=False)
EVALUATIONS = Metric("model_evaluations", "training calls of the model", percent=False)
SOFT = Metric("accuracy_soft", "probability of the true outcome", over=EPOCH)
BY_EVALUATIONS = replace(SOFT, over=EVALUATIONS)
HARD = Metric("accuracy_hard", "outcomes that are right", over=EPOCH)
SKIP = Metric("mean_skip", "frames per prediction", percent=False, over=EPOCH)
DEPTH = Metric("depth", "predictions of a free run", percent=False, over=EPOCH)
ON_OLD = Metric("accuracy_soft/zero-bounce", "the same, without bounces", over=EPOCH)
ON_NEW = Metric("accuracy_soft/standard", "the same, with bounces", over=EPOCH)

PUBLISHED_STEPS = 37_500  # 150 epochs of 250 pairs
ROOM_BATCH, FUNNEL_BATCH = 8, 4  # a fall has twice as many frames
ROOM_STEPS = 2_500  # 40 epochs
FUNNEL_STEPS = 3_000  # 24 epochs
LONG_BATCH, LONG_STEPS = 8, 9_375  # 150 epochs
SWITCH_STEPS = 4_500  # 24 epochs without bounces, 12 with
FUNNEL_EVERY = 250  # steps between evaluations
FUNNEL_LANES = 16  # of fixed steps, for pieces of falls
SEEDS = 3

ROOMS = "asi/room-runner"
FUNNELS = "asi/funnel-board"
SWITCH = "asi/funnel-board-switch"

PUBLISHED_ROOM = SkipConfig(task="room-runner")  # Table A.1
PUBLISHED_FUNNEL = SkipConfig(  # Table A.2
    task="funnel-board", exploration_steps=15_000, architecture="dilated"
)


# What moves is a few pixels of thousands. From a random start a model first learns what stands
# still, and draws no runner and no ball for thousands of steps; so our runs start as a copy.
# They have larger batches, which an accelerator takes in little more time, and a learning rate that
# in short runs falls later than its share of 150 epochs would ask for, and begins low: at once, it
# ends most features of 48 kernels within 50 steps, for no pixel ever passes their ReLUs again. S is
# the published one, counted in trajectories. Convolutions are in bfloat16, losses and matching in
# float32 as always.
def _ours(
    steps: int, batch: int, rate: float, warm_up: int, decay_every: float = 22_500
) -> dict[str, Any]:
    return {
        "start": "copy",
        "batch_size": batch,
        "learning_rate": rate,
        "warm_up_steps": warm_up,
        "decay_every": decay_every,
        "sampling_steps": PUBLISHED_ROOM.sampling_steps * 2 / batch * PUBLISHED_STEPS / steps,
        "precision": "bfloat16",
        "longest_gradient": 4.0,
    }


ROOM = replace(PUBLISHED_ROOM, **_ours(ROOM_STEPS, ROOM_BATCH, 1e-3, 200))
ROOM_ASI = replace(ROOM, chunk=2)  # it ends after fewer steps
# After exploration of the published length a model drew nothing, before gradients were shortened
# and pixels mended; it takes as many steps as in shorter runs now. What helped is not known.
LONG_ROOM = replace(
    PUBLISHED_ROOM,
    **_ours(LONG_STEPS, LONG_BATCH, 7.5e-4, 400, 15_000),
    chunk=2,
    exploration_steps=2_000,
)
ON_FUNNELS: dict[str, Any] = {"architecture": "strided", "kernels": 32, "chunk": 4}
FUNNEL = replace(
    PUBLISHED_FUNNEL,
    **_ours(FUNNEL_STEPS, FUNNEL_BATCH, 7.5e-4, 400),
    **ON_FUNNELS,
    exploration_steps=7_500,
)
LONG_FUNNEL = replace(
    PUBLISHED_FUNNEL,
    **_ours(LONG_STEPS, LONG_BATCH, 7.5e-4, 400, 15_000),
    **ON_FUNNELS,
    exploration_steps=2_400,
)
# Until the switch a run is as long as one on the board without it, and has the same schedules.
SWITCHED = replace(
    FUNNEL,
    **_ours(SWITCH_STEPS, FUNNEL_BATCH, 7.5e-4, 400, 15_000),
    task="funnel-board-switch",
    switch_share=FUNNEL_STEPS / SWITCH_STEPS,
    exploration_steps=5_000,
)
NO_EXPLORATION: dict[str, Any] = {"longest_skip": 18, "exploration_steps": 0}
ALIGNED_STEPS = 60  # fewer than a trajectory has frames: a free run costs less

QUICK: dict[str, Any] = {
    "frames": "vectors",
    "start": "random",  # this and the next two are for images
    "precision": "default",
    "longest_gradient": None,
    "batch_size": 8,
    "learning_rate": 1e-3,
    "warm_up_steps": 0,
    "schedule_steps": 2_000,
    "exploration_steps": 1_000,
    "sampling_steps": 2_000,
    "decay_every": 1_200,
    "num_validation": 200,
    "num_watched": 100,
    "chunk": 8,
    "lanes": None,
    "switch_share": 0.5,
}
QUICK_SWITCH = {"decay_every": 800}  # before the switch, as in the published run


class EqualCalls(NamedTuple):
    """Quick runs in which every method calls the model about as often in training."""

    asi: int  # steps of adaptive skips
    no_exploration: int
    fixed: tuple[int, int, int]  # of every frame, every 2nd, every 3rd
    calls: str

    @property
    def note(self) -> str:
        """Says so."""
        return (
            f"{QUICK_NOTE}; about {self.calls} training calls of the model for every method, as on "
            "the axis of Fig. 2.10, and not equally many steps"
        )


QUICK_NOTE = (
    "place and velocity in place of images, a small network that sees what is near, batches of 8"
)
QUICK_FUNNEL_SEEDS = 4  # two tell little: they differ by 0.1 and more
ROOM_QUICK = EqualCalls(500, 420, (80, 160, 240), "38,000")
FUNNEL_QUICK = EqualCalls(2_000, 880, (220, 440, 660), "210,000")
TINY: dict[str, Any] = {
    "frames": "vectors",
    "num_train": 4,
    "num_validation": 3,
    "batch_size": 2,
    "hidden": (4,),
    "num_watched": 2,
}


def _make_learner(config: SkipConfig, steps: int) -> Any:
    from recombine.experiments.skipping._learners import make_skip_learner  # loads JAX

    return make_skip_learner(config, steps)


def _sample(config: SkipConfig) -> Mapping[str, np.ndarray]:
    from recombine.experiments.skipping._learners import sample_trajectory  # loads JAX

    return sample_trajectory(config)


def fixed(skip: int, lanes: int | None = None) -> dict[str, Any]:
    """Returns the settings of a model that predicts every `skip`-th frame."""
    return {"shortest_skip": skip, "longest_skip": skip, "exploration_steps": 0, "lanes": lanes}


def make_row(
    row_id: str,
    claim: str,
    method: str,
    config: SkipConfig,
    paper: Paper,
    rule: Rule,
    quick: Rule | None,
    *,
    steps: int,
    num_seeds: int = SEEDS,
    eval_every: int = 125,
    note: str = "",
    also: tuple[Metric, ...] = (BY_EVALUATIONS, HARD, SKIP, DEPTH),
    quick_steps: int = FUNNEL_QUICK.asi,
    quick_note: str = QUICK_NOTE,
    quick_seeds: int = 2,
    quick_changes: Mapping[str, Any] = MappingProxyType({}),
) -> Row:
    """Makes a row with its three variants; the quick one has vectors in place of images."""
    kept = {} if config.exploration_steps else {"exploration_steps": 0}
    small = replace(config, **QUICK | kept | dict(quick_changes))
    short = min(config.longest_skip, 8)
    return Row(
        id=row_id,
        claim=claim,
        method=method,
        make_learner=_make_learner,
        metric=SOFT,
        also=also,
        paper=paper,
        full=Variant(config, steps, eval_every, num_seeds, rule, note),
        quick=None
        if quick is None
        else Variant(small, quick_steps, quick_steps // 10, quick_seeds, quick, quick_note),
        tiny=Variant(
            replace(config, **TINY | kept, longest_skip=short),
            2,
            2,
            1,
            AtLeast(0.0),
            "for tests: too small to show anything",
        ),
        pictures=(TIMELINE,),
        animations=(SIDE_BY_SIDE,),
        sample=Sample(_sample, (TRAJECTORY,), (MOVING_TRAJECTORY,)),
    )


def ours(steps: int, config: SkipConfig, more: str = "") -> str:
    """Says how long a run is, and how its settings differ from the published ones."""
    epochs = steps * config.batch_size // config.num_train
    exploration = "" if config.exploration_steps == 0 else ", a shorter exploration"
    return (
        f"{epochs} epochs in place of 150{more}; batches of {config.batch_size} in place of 2; a "
        f"learning rate of {config.learning_rate:g}, which rises for {config.warm_up_steps:g} "
        f"steps and falls later{exploration}, and the published schedule of feeding true frames; "
        f"{OURS}"
    )


OURS = (
    "the model starts as a copy of its input; gradients are kept to four times their usual length; "
    "convolutions in bfloat16"
)


def one_model(steps: int, config: SkipConfig, more: str = "") -> str:
    """Says that too, and that all methods of the task have the same model."""
    kernels = config.kernels
    return f"{ours(steps, config, more)}; the strided model with {kernels} kernels for every method"


ROOM_NOTE, FUNNEL_NOTE = one_model(ROOM_STEPS, ROOM), one_model(FUNNEL_STEPS, FUNNEL)
PLAIN_ROOM_NOTE, PLAIN_FUNNEL_NOTE = (  # of methods that do not explore
    one_model(ROOM_STEPS, replace(ROOM, exploration_steps=0)),
    one_model(FUNNEL_STEPS, replace(FUNNEL, exploration_steps=0)),
)
OWN = "not in the thesis: proposed in §2.5 and left open"
ALIGNED_NOTE = (
    "the first half as the full method, alignment after that; at most 60 predictions in one"
)


def figure(words: str) -> Paper:
    """Returns what the two figures of learning curves show, in words."""
    return Paper("Fig. 2.9 and 2.10, a picture; §2.3.3", words=words, n=8)


def fewer_calls(row: str) -> Rule:
    """Asks for fewer training calls of the model than another row makes."""
    return Below(row, metric="model_evaluations")


SWITCH_PAPER = Paper(
    "Fig. 2.11, a picture; §2.3.3",
    words="after the switch fixed steps collapse, although a frozen model would have kept its "
    "accuracy; adaptive skips stay",
)
SWITCH_ALSO = (ON_OLD, ON_NEW, BY_EVALUATIONS, SKIP)
