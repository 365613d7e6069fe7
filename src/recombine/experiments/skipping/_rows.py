"""The rows of Neitz (thesis, chapter 2; Neitz et al. 2018): figures 2.9, 2.10 and 2.11.

The figures are pictures and no accuracy is printed, so the rules are the orderings that the text
asserts. All methods of a task share one architecture here, and runs are shorter than the published
150 epochs, with schedules scaled down alike; one more row of each task keeps the published length.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from recombine.experiments._row import Group, Metric, Paper, Row, Sample, System, Variant
from recombine.experiments._rules import Above, AllOf, AtLeast, AtMost, Below, Rule
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

STEPS_PER_EPOCH = 250
PUBLISHED_STEPS = 37_500  # 150 epochs
ROOM_STEPS = 4_000  # 16 epochs
FUNNEL_STEPS = 2_500  # 10 epochs
SWITCH_STEPS = 3_000  # 6 epochs without bounces, 6 with
SEEDS = 3

ROOMS = "asi/room-runner"
FUNNELS = "asi/funnel-board"
SWITCH = "asi/funnel-board-switch"

ROOM = SkipConfig(task="room-runner")  # Table A.1
FUNNEL = SkipConfig(  # Table A.2, but for the architecture
    task="funnel-board",
    exploration_steps=15_000,
    architecture="strided",
    kernels=32,
)
FUNNEL_BASELINE = {"learning_rate": 7.5e-4}  # of all other methods, in Table A.2
NO_EXPLORATION: dict[str, Any] = {"longest_skip": 18, "exploration_steps": 0}
ALIGNED_STEPS = 60  # fewer than a trajectory has frames: a free run costs less

QUICK: dict[str, Any] = {
    "frames": "vectors",
    "batch_size": 8,
    "learning_rate": 1e-3,
    "schedule_steps": 2_000,
    "exploration_steps": 1_000,
    "sampling_steps": 2_000,
    "decay_every": 1_200,
    "num_validation": 200,
    "num_watched": 100,
}
QUICK_STEPS = 2_000
EQUAL_CALLS = {1: 220, 2: 440, 3: 660, "no exploration": 880}
"""Steps in which each rival calls the model as often as adaptive skips do in `QUICK_STEPS`."""

QUICK_NOTE = (
    "place and velocity in place of images, a small network that sees what is near, batches of 8"
)
EQUAL_NOTE = (
    f"{QUICK_NOTE}; about 210,000 training calls of the model for every method, as on the axis of "
    "Fig. 2.10, and not equally many steps"
)
TINY: dict[str, Any] = {
    "frames": "vectors",
    "num_train": 4,
    "num_validation": 3,
    "hidden": (4,),
    "num_watched": 2,
}


def _make_learner(config: SkipConfig, steps: int) -> Any:
    from recombine.experiments.skipping._learners import make_skip_learner  # loads JAX

    return make_skip_learner(config, steps)


def _sample(config: SkipConfig) -> Mapping[str, np.ndarray]:
    from recombine.experiments.skipping._learners import sample_trajectory  # loads JAX

    return sample_trajectory(config)


def _fixed(skip: int) -> dict[str, Any]:
    return {"shortest_skip": skip, "longest_skip": skip, "exploration_steps": 0}


def _row(
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
    eval_every: int = STEPS_PER_EPOCH // 2,
    note: str = "",
    also: tuple[Metric, ...] = (BY_EVALUATIONS, HARD, SKIP, DEPTH),
    quick_steps: int = QUICK_STEPS,
    quick_note: str = QUICK_NOTE,
) -> Row:
    kept = {} if config.exploration_steps else {"exploration_steps": 0}
    small, short = replace(config, **QUICK | kept), min(config.longest_skip, 8)
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
        else Variant(small, quick_steps, quick_steps // 10, 2, quick, quick_note),
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


def _epochs(steps: int) -> str:
    return (
        f"{steps // STEPS_PER_EPOCH} epochs in place of 150, with all schedules scaled down alike"
    )


ONE_ROOM_MODEL = "the strided model with 48 kernels for every method"
ONE_FUNNEL_MODEL = "the strided model with 32 kernels for every method"
ROOM_NOTE = f"{_epochs(ROOM_STEPS)}; {ONE_ROOM_MODEL}"
FUNNEL_NOTE = f"{_epochs(FUNNEL_STEPS)}; {ONE_FUNNEL_MODEL}"
OWN = "not in the thesis: proposed in §2.5 and left open"
ALIGNED_NOTE = (
    "the first half as the full method, alignment after that; at most 60 predictions in one"
)


def _figure(words: str) -> Paper:
    return Paper("Fig. 2.9 and 2.10, a picture; §2.3.3", words=words, n=8)


def _fewer(row: str) -> Rule:
    return Below(row, metric="model_evaluations")


def _global_rows(task: str, config: SkipConfig, steps: int, note: str) -> tuple[Row, ...]:
    """Hard and soft alignment of whole free runs; claims of our own."""
    return (
        _row(
            f"{task}/dtw",
            "Aligning a whole free run with the trajectory at once is another way to let a model "
            "choose its steps.",
            "global alignment",
            replace(config, matching="global", aligned_steps=ALIGNED_STEPS),
            Paper(OWN, words="no claim"),
            Above(f"{task}/fixed-1"),
            Above(f"{task}/fixed-1"),
            steps=steps,
            note=f"{note}; {ALIGNED_NOTE}",
        ),
        _row(
            f"{task}/soft-dtw",
            "The soft form weighs all alignments at once, and is trained through the whole free "
            "run.",
            "soft global alignment",
            replace(config, matching="soft", aligned_steps=ALIGNED_STEPS),
            Paper(OWN, words="no claim"),
            Above(f"{task}/fixed-1"),
            Above(f"{task}/fixed-1"),
            steps=steps,
            num_seeds=1,
            note=f"{note}; {ALIGNED_NOTE}; one seed",
        ),
    )


ROOM_RUNNER = Group(
    id=ROOMS,
    title="Room runner: which of two rooms will it reach?",
    source="Neitz, thesis, §2.3 and App. A; Fig. 2.7, 2.9 and 2.10",
    rows=(
        _row(
            f"{ROOMS}/asi",
            "A model that is matched with whichever frame it fits best foresees the outcome, and "
            "better than one that is told which frame to predict.",
            "adaptive skips",
            ROOM,
            _figure("clearly above all others"),
            AllOf(
                (
                    Above(f"{ROOMS}/asi-no-exploration", 0.05),
                    Above(f"{ROOMS}/fixed-1", 0.05),
                    Above(f"{ROOMS}/fixed-2", 0.05),
                    _fewer(f"{ROOMS}/fixed-1"),
                )
            ),
            AllOf(
                (
                    AtLeast(0.93),
                    Above(f"{ROOMS}/fixed-1", 0.05),
                    _fewer(f"{ROOMS}/fixed-1"),
                )
            ),
            steps=ROOM_STEPS,
            note=_epochs(ROOM_STEPS),
        ),
        _row(
            f"{ROOMS}/asi-no-exploration",
            "Without exploration a model soon settles for short skips.",
            "adaptive skips, no exploration",
            replace(ROOM, **NO_EXPLORATION),
            _figure("below the full method, and not clearly above the fixed steps"),
            Below(f"{ROOMS}/asi", 0.05),
            Above(f"{ROOMS}/fixed-1", 0.05),
            steps=ROOM_STEPS,
            note=ROOM_NOTE,
        ),
        _row(
            f"{ROOMS}/fixed-1",
            "Predicting every frame needs a long chain of predictions, whose errors add up.",
            "every frame",
            replace(ROOM, **_fixed(1)),
            _figure("below adaptive skips; some baselines decline after an early gain"),
            Below(f"{ROOMS}/asi", 0.05),
            Below(f"{ROOMS}/asi", 0.05),
            steps=ROOM_STEPS,
            note=ROOM_NOTE,
        ),
        _row(
            f"{ROOMS}/fixed-2",
            "Every second frame makes the chain shorter, and does not help enough.",
            "every 2nd frame",
            replace(ROOM, **_fixed(2)),
            _figure("below adaptive skips"),
            Below(f"{ROOMS}/asi", 0.05),
            Below(f"{ROOMS}/asi", 0.05),
            steps=ROOM_STEPS,
            note=ROOM_NOTE,
        ),
        _row(
            f"{ROOMS}/fixed-3",
            "Nor does every third.",
            "every 3rd frame",
            replace(ROOM, **_fixed(3)),
            _figure("below adaptive skips"),
            Below(f"{ROOMS}/asi", 0.05),
            Below(f"{ROOMS}/asi", 0.05),
            steps=ROOM_STEPS,
            note=ROOM_NOTE,
        ),
        _row(
            f"{ROOMS}/asi-150-epochs",
            "Trained for as long as published, adaptive skips foresee most outcomes.",
            "adaptive skips, 150 epochs",
            ROOM,
            _figure("no number is printed; 0.8 is our own bound"),
            AtLeast(0.8),
            None,
            steps=PUBLISHED_STEPS,
            num_seeds=1,
            eval_every=STEPS_PER_EPOCH,
            note="one seed in place of eight",
        ),
        *_global_rows(ROOMS, ROOM, ROOM_STEPS, _epochs(ROOM_STEPS)),
    ),
)

FUNNEL_BOARD = Group(
    id=FUNNELS,
    title="Funnel board: on which platform will the ball fall?",
    source="Neitz, thesis, §2.3 and App. A; Fig. 2.8, 2.9 and 2.10",
    rows=(
        _row(
            f"{FUNNELS}/asi",
            "What happens inside a funnel does not matter for what comes after, and a model that "
            "may skip it foresees better where the ball falls.",
            "adaptive skips",
            FUNNEL,
            _figure("above the same without exploration, which is above all fixed steps"),
            AllOf(
                (
                    Above(f"{FUNNELS}/asi-no-exploration"),
                    Above(f"{FUNNELS}/fixed-1", 0.05),
                    Above(f"{FUNNELS}/fixed-2", 0.05),
                    _fewer(f"{FUNNELS}/fixed-1"),
                )
            ),
            AllOf(tuple(Above(f"{FUNNELS}/fixed-{skip}", 0.05) for skip in (1, 2, 3))),
            steps=FUNNEL_STEPS,
            note=FUNNEL_NOTE,
            quick_note=EQUAL_NOTE,
        ),
        _row(
            f"{FUNNELS}/asi-no-exploration",
            "Matching alone already helps; exploration adds to it.",
            "adaptive skips, no exploration",
            replace(FUNNEL, **NO_EXPLORATION, **FUNNEL_BASELINE, decay_every=10_000),
            _figure("above all fixed steps, below the full method"),
            AllOf(
                (
                    Above(f"{FUNNELS}/fixed-1"),
                    Above(f"{FUNNELS}/fixed-2"),
                    Below(f"{FUNNELS}/asi"),
                )
            ),
            AllOf(tuple(Above(f"{FUNNELS}/fixed-{skip}", 0.05) for skip in (1, 2, 3))),
            steps=FUNNEL_STEPS,
            note=FUNNEL_NOTE,
            quick_steps=EQUAL_CALLS["no exploration"],
            quick_note=EQUAL_NOTE,
        ),
        *(
            _row(
                f"{FUNNELS}/fixed-{skip}",
                claim,
                method,
                replace(FUNNEL, **_fixed(skip), **FUNNEL_BASELINE),
                _figure("below adaptive skips; some baselines decline after an early gain"),
                AllOf(
                    (Below(f"{FUNNELS}/asi", 0.05), Below(f"{FUNNELS}/asi-no-exploration")),
                ),
                Below(f"{FUNNELS}/asi", 0.05),
                steps=FUNNEL_STEPS,
                note=FUNNEL_NOTE,
                quick_steps=EQUAL_CALLS[skip],
                quick_note=EQUAL_NOTE,
            )
            for skip, method, claim in (
                (1, "every frame", "A model of every frame must also foresee every bounce."),
                (2, "every 2nd frame", "So must a model of every second frame."),
                (3, "every 3rd frame", "And one of every third."),
            )
        ),
        _row(
            f"{FUNNELS}/asi-150-epochs",
            "Trained for as long as published, adaptive skips foresee most falls.",
            "adaptive skips, 150 epochs",
            replace(FUNNEL, architecture="dilated", kernels=48),
            _figure("no number is printed; 0.75 is our own bound"),
            AtLeast(0.75),
            None,
            steps=PUBLISHED_STEPS,
            num_seeds=1,
            eval_every=STEPS_PER_EPOCH,
            note="one seed in place of eight",
        ),
        *_global_rows(FUNNELS, FUNNEL, FUNNEL_STEPS, FUNNEL_NOTE),
    ),
)

SWITCH_PAPER = Paper(
    "Fig. 2.11, a picture; §2.3.3",
    words="after the switch fixed steps collapse, although a frozen model would have kept its "
    "accuracy; adaptive skips stay",
)
SWITCH_ALSO = (ON_OLD, ON_NEW, BY_EVALUATIONS, SKIP)
SWITCH_NOTE = (
    f"{SWITCH_STEPS // STEPS_PER_EPOCH} epochs in place of 150, half of them before the switch, "
    f"with all schedules scaled down alike; {ONE_FUNNEL_MODEL}"
)

FUNNEL_SWITCH = Group(
    id=SWITCH,
    title="Funnel board, and the funnels begin to bounce halfway",
    source="Neitz, thesis, §2.3.3; Fig. 2.11",
    rows=(
        _row(
            f"{SWITCH}/asi",
            "When the details become harder to predict and the outcomes do not, adaptive skips "
            "keep what they have learned.",
            "adaptive skips",
            replace(FUNNEL, task="funnel-board-switch"),
            SWITCH_PAPER,
            AllOf((Above(f"{SWITCH}/fixed-1"), Below(f"{SWITCH}/fixed-1", metric="drop"))),
            AtMost(0.05, metric="drop"),
            steps=SWITCH_STEPS,
            note=SWITCH_NOTE,
            also=SWITCH_ALSO,
        ),
        _row(
            f"{SWITCH}/fixed-1",
            "A model of every frame begins to learn the bounces, and loses the outcomes.",
            "every frame",
            replace(FUNNEL, task="funnel-board-switch", **_fixed(1), **FUNNEL_BASELINE),
            SWITCH_PAPER,
            AllOf((AtLeast(0.02, metric="drop"), Above(f"{SWITCH}/asi", metric="drop"))),
            AllOf((AtLeast(0.02, metric="drop"), Above(f"{SWITCH}/asi", metric="drop"))),
            steps=SWITCH_STEPS,
            note=SWITCH_NOTE,
            also=SWITCH_ALSO,
        ),
    ),
)

SKIPPING = System(
    id="asi",
    title="Adaptive skip intervals",
    summary="A model of what happens next that chooses its own time step: it skips what is hard to "
    "predict and does not matter.",
    groups=(ROOM_RUNNER, FUNNEL_BOARD, FUNNEL_SWITCH),
    demo=(f"{ROOMS}/asi", f"{ROOMS}/fixed-1"),
)
