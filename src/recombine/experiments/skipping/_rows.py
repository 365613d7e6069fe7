"""The rows of Neitz (thesis, chapter 2; Neitz et al. 2018): figures 2.9, 2.10 and 2.11.

The figures are pictures and no accuracy is printed, so the rules are the orderings that the text
asserts. All methods of a task share one architecture here, and runs are shorter than the published
150 epochs, in larger batches and from another start; one more row of each task keeps the published
settings.
"""

from dataclasses import replace

from recombine.experiments._row import Group, Paper, Row, System
from recombine.experiments._rules import Above, AllOf, AtLeast, AtMost, Below
from recombine.experiments.skipping._config import SkipConfig
from recombine.experiments.skipping._making_rows import (
    ALIGNED_NOTE,
    ALIGNED_STEPS,
    FUNNEL,
    FUNNEL_EVERY,
    FUNNEL_LANES,
    FUNNEL_NOTE,
    FUNNEL_QUICK,
    FUNNEL_STEPS,
    FUNNELS,
    LONG_BATCH,
    LONG_FUNNEL,
    LONG_ROOM,
    LONG_STEPS,
    NO_EXPLORATION,
    OURS,
    OWN,
    PLAIN_FUNNEL_NOTE,
    PLAIN_ROOM_NOTE,
    PUBLISHED_FUNNEL,
    PUBLISHED_ROOM,
    PUBLISHED_STEPS,
    QUICK_FUNNEL_SEEDS,
    QUICK_SWITCH,
    ROOM,
    ROOM_ASI,
    ROOM_NOTE,
    ROOM_QUICK,
    ROOM_STEPS,
    ROOMS,
    SWITCH,
    SWITCH_ALSO,
    SWITCH_PAPER,
    SWITCH_STEPS,
    SWITCHED,
    fewer_calls,
    figure,
    fixed,
    make_row,
    one_model,
    ours,
)
from recombine.experiments.skipping._small_board_rows import (
    SMALL_FUNNEL_BOARD,
    SMALL_FUNNEL_SWITCH,
)
from recombine.experiments.skipping._small_room_rows import SMALL_ROOM_RUNNER


def _global_rows(
    task: str,
    config: SkipConfig,
    steps: int,
    note: str,
    quick_steps: int,
) -> tuple[Row, ...]:
    """Hard and soft alignment of whole free runs; claims of our own."""
    return (
        make_row(
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
            quick_steps=quick_steps,
        ),
        make_row(
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
            quick_steps=quick_steps,
        ),
    )


def _published_row(task: str, config: SkipConfig, bound: float) -> Row:
    return make_row(
        f"{task}/asi-published",
        "So they do with all published settings, from a random start.",
        "adaptive skips, published settings",
        replace(config, precision="bfloat16", chunk=2),
        figure(f"no number is printed; {bound} is our own bound"),
        AtLeast(bound),
        None,
        steps=PUBLISHED_STEPS,
        num_seeds=1,
        eval_every=1_500,
        note="one seed in place of eight; convolutions in bfloat16; saturated pixels are corrected",
    )


LONG_NOTE = (
    f"batches of {LONG_BATCH} in place of 2, at a learning rate of 0.00075, which rises for 400 "
    f"steps, and with the published schedules, counted in trajectories, but for exploration, which "
    f"takes as many steps as in the shorter runs; {OURS}"
)

ROOM_RUNNER = Group(
    id=ROOMS,
    title="Room runner: which of two rooms will it reach?",
    source="Neitz, thesis, §2.3 and App. A; Fig. 2.7, 2.9 and 2.10",
    rows=(
        make_row(
            f"{ROOMS}/asi",
            "A model that is matched with whichever frame it fits best foresees the outcome, and "
            "better than one that is told which frame to predict.",
            "adaptive skips",
            ROOM_ASI,
            figure("clearly above all others"),
            AllOf(
                (
                    Above(f"{ROOMS}/asi-no-exploration", 0.05),
                    Above(f"{ROOMS}/fixed-1", 0.05),
                    Above(f"{ROOMS}/fixed-2", 0.05),
                    fewer_calls(f"{ROOMS}/fixed-1"),
                )
            ),
            # The demo runs no other fixed steps; their own rules compare them with this row.
            AllOf((AtLeast(0.93), Above(f"{ROOMS}/fixed-1", 0.05))),
            steps=ROOM_STEPS,
            note=ROOM_NOTE,
            quick_steps=ROOM_QUICK.asi,
            quick_note=ROOM_QUICK.note,
        ),
        make_row(
            f"{ROOMS}/asi-no-exploration",
            "Without exploration a model soon settles for short skips.",
            "adaptive skips, no exploration",
            replace(ROOM, **NO_EXPLORATION),
            figure("below the full method, and not clearly above the fixed steps"),
            Below(f"{ROOMS}/asi", 0.05),
            Above(f"{ROOMS}/fixed-1", 0.05),
            steps=ROOM_STEPS,
            note=PLAIN_ROOM_NOTE,
            quick_steps=ROOM_QUICK.no_exploration,
            quick_note=ROOM_QUICK.note,
        ),
        make_row(
            f"{ROOMS}/fixed-1",
            "Predicting every frame needs a long chain of predictions, whose errors add up.",
            "every frame",
            replace(ROOM, **fixed(1)),
            figure("below adaptive skips; some baselines decline after an early gain"),
            Below(f"{ROOMS}/asi", 0.05),
            Below(f"{ROOMS}/asi", 0.05),
            steps=ROOM_STEPS,
            note=PLAIN_ROOM_NOTE,
            quick_steps=ROOM_QUICK.fixed[0],
            quick_note=ROOM_QUICK.note,
        ),
        make_row(
            f"{ROOMS}/fixed-2",
            "Every second frame makes the chain shorter, and does not help enough.",
            "every 2nd frame",
            replace(ROOM, **fixed(2)),
            figure("below adaptive skips"),
            Below(f"{ROOMS}/asi", 0.05),
            Below(f"{ROOMS}/asi", 0.05),
            steps=ROOM_STEPS,
            note=PLAIN_ROOM_NOTE,
            quick_steps=ROOM_QUICK.fixed[1],
            quick_note=ROOM_QUICK.note,
        ),
        make_row(
            f"{ROOMS}/fixed-3",
            "Nor does every third.",
            "every 3rd frame",
            replace(ROOM, **fixed(3)),
            figure("below adaptive skips"),
            Below(f"{ROOMS}/asi", 0.05),
            Below(f"{ROOMS}/asi", 0.05),
            steps=ROOM_STEPS,
            note=PLAIN_ROOM_NOTE,
            quick_steps=ROOM_QUICK.fixed[2],
            quick_note=ROOM_QUICK.note,
        ),
        make_row(
            f"{ROOMS}/asi-150-epochs",
            "Trained for as long as published, adaptive skips foresee most outcomes.",
            "adaptive skips, 150 epochs",
            LONG_ROOM,
            figure("no number is printed; 0.8 is our own bound"),
            AtLeast(0.8),
            None,
            steps=LONG_STEPS,
            num_seeds=1,
            eval_every=375,
            note=f"one seed in place of eight; {LONG_NOTE}",
        ),
        _published_row(ROOMS, PUBLISHED_ROOM, 0.8),
        *_global_rows(ROOMS, ROOM, ROOM_STEPS, ours(ROOM_STEPS, ROOM), ROOM_QUICK.asi),
    ),
)

FUNNEL_BOARD = Group(
    id=FUNNELS,
    title="Funnel board: on which platform will the ball fall?",
    source="Neitz, thesis, §2.3 and App. A; Fig. 2.8, 2.9 and 2.10",
    rows=(
        make_row(
            f"{FUNNELS}/asi",
            "What happens inside a funnel does not matter for what comes after, and a model that "
            "may skip it foresees better where the ball falls.",
            "adaptive skips",
            FUNNEL,
            figure("above the same without exploration, which is above all fixed steps"),
            AllOf(
                (
                    Above(f"{FUNNELS}/asi-no-exploration"),
                    Above(f"{FUNNELS}/fixed-1", 0.05),
                    Above(f"{FUNNELS}/fixed-2", 0.05),
                    fewer_calls(f"{FUNNELS}/fixed-1"),
                )
            ),
            AllOf(tuple(Above(f"{FUNNELS}/fixed-{skip}", 0.05) for skip in (1, 2, 3))),
            steps=FUNNEL_STEPS,
            eval_every=FUNNEL_EVERY,
            note=FUNNEL_NOTE,
            quick_note=FUNNEL_QUICK.note,
            quick_seeds=QUICK_FUNNEL_SEEDS,
        ),
        make_row(
            f"{FUNNELS}/asi-no-exploration",
            "Matching alone already helps; exploration adds to it.",
            "adaptive skips, no exploration",
            replace(FUNNEL, **NO_EXPLORATION),
            figure("above all fixed steps, below the full method"),
            AllOf(
                (
                    Above(f"{FUNNELS}/fixed-1"),
                    Above(f"{FUNNELS}/fixed-2"),
                    Below(f"{FUNNELS}/asi"),
                )
            ),
            AllOf(tuple(Above(f"{FUNNELS}/fixed-{skip}", 0.05) for skip in (1, 2, 3))),
            steps=FUNNEL_STEPS,
            eval_every=FUNNEL_EVERY,
            note=PLAIN_FUNNEL_NOTE,
            quick_steps=FUNNEL_QUICK.no_exploration,
            quick_note=FUNNEL_QUICK.note,
            quick_seeds=QUICK_FUNNEL_SEEDS,
        ),
        *(
            make_row(
                f"{FUNNELS}/fixed-{skip}",
                claim,
                method,
                replace(FUNNEL, **fixed(skip, FUNNEL_LANES)),
                figure("below adaptive skips; some baselines decline after an early gain"),
                AllOf(
                    (Below(f"{FUNNELS}/asi", 0.05), Below(f"{FUNNELS}/asi-no-exploration")),
                ),
                Below(f"{FUNNELS}/asi", 0.05),
                steps=FUNNEL_STEPS,
                eval_every=FUNNEL_EVERY,
                note=PLAIN_FUNNEL_NOTE,
                quick_steps=FUNNEL_QUICK.fixed[skip - 1],
                quick_note=FUNNEL_QUICK.note,
                quick_seeds=QUICK_FUNNEL_SEEDS,
            )
            for skip, method, claim in (
                (1, "every frame", "A model of every frame must also foresee every bounce."),
                (2, "every 2nd frame", "So must a model of every second frame."),
                (3, "every 3rd frame", "And one of every third."),
            )
        ),
        make_row(
            f"{FUNNELS}/asi-150-epochs",
            "Trained for as long as published, adaptive skips foresee most falls.",
            "adaptive skips, 150 epochs",
            LONG_FUNNEL,
            figure("no number is printed; 0.75 is our own bound"),
            AtLeast(0.75),
            None,
            steps=LONG_STEPS,
            num_seeds=1,
            eval_every=375,
            note=f"one seed in place of eight; {LONG_NOTE}; the strided model with 32 kernels",
        ),
        _published_row(FUNNELS, PUBLISHED_FUNNEL, 0.75),
        *_global_rows(FUNNELS, FUNNEL, FUNNEL_STEPS, FUNNEL_NOTE, FUNNEL_QUICK.asi),
    ),
)

EVERY_FRAME_SWITCHED = replace(SWITCHED, **fixed(1, FUNNEL_LANES))
BEFORE = ", 24 of them before the switch"

FUNNEL_SWITCH = Group(
    id=SWITCH,
    title="Funnel board, and the funnels begin to bounce",
    source="Neitz, thesis, §2.3.3; Fig. 2.11",
    rows=(
        make_row(
            f"{SWITCH}/asi",
            "When the details become harder to predict and the outcomes do not, adaptive skips "
            "keep what they have learned.",
            "adaptive skips",
            SWITCHED,
            SWITCH_PAPER,
            AllOf((Above(f"{SWITCH}/fixed-1"), Below(f"{SWITCH}/fixed-1", metric="drop"))),
            AtMost(0.05, metric="drop"),
            steps=SWITCH_STEPS,
            eval_every=FUNNEL_EVERY,
            note=one_model(SWITCH_STEPS, SWITCHED, BEFORE),
            also=SWITCH_ALSO,
            quick_changes=QUICK_SWITCH,
        ),
        make_row(
            f"{SWITCH}/fixed-1",
            "A model of every frame begins to learn the bounces, and loses the outcomes.",
            "every frame",
            EVERY_FRAME_SWITCHED,
            SWITCH_PAPER,
            AllOf((AtLeast(0.02, metric="drop"), Above(f"{SWITCH}/asi", metric="drop"))),
            AllOf((AtLeast(0.02, metric="drop"), Above(f"{SWITCH}/asi", metric="drop"))),
            steps=SWITCH_STEPS,
            eval_every=FUNNEL_EVERY,
            note=one_model(SWITCH_STEPS, EVERY_FRAME_SWITCHED, BEFORE),
            also=SWITCH_ALSO,
            quick_changes=QUICK_SWITCH,
        ),
    ),
)

SKIPPING = System(
    id="asi",
    title="Adaptive skip intervals",
    summary="A model of what happens next that chooses its own time step: it skips what is hard to "
    "predict and does not matter.",
    groups=(
        ROOM_RUNNER,
        SMALL_ROOM_RUNNER,
        FUNNEL_BOARD,
        SMALL_FUNNEL_BOARD,
        FUNNEL_SWITCH,
        SMALL_FUNNEL_SWITCH,
    ),
    demo=(f"{ROOMS}/asi", f"{ROOMS}/fixed-1"),
)
