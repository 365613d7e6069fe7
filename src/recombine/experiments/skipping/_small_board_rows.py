"""Rows of images that two CPU cores can train: Funnel board with two rows of funnels.

Three columns in place of five, and 46 frames in place of 120. Drawing, physics, hidden bounces and
trace are those of the published boards, so that a ball may fade here, and a run may collapse when
funnels begin to bounce.
"""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Group, Metric, Paper, Row
from recombine.experiments._rules import Above, AllOf, AtLeast, Below, Rule
from recombine.experiments.skipping._config import SkipConfig
from recombine.experiments.skipping._making_rows import (
    BY_EVALUATIONS,
    DEPTH,
    HARD,
    SEEDS,
    SKIP,
    SWITCH_ALSO,
    SWITCH_PAPER,
    fewer_calls,
    figure,
    fixed,
    make_row,
)

BOARDS = "asi/funnel-board-small"
SWITCH = "asi/funnel-board-switch-small"
STEPS, EVERY = 750, 125  # 6 epochs
SMALL = SkipConfig(
    task="funnel-board",
    board_rows=2,
    board_columns=3,
    longest_skip=12,
    start="copy",
    kernels=16,
    batch_size=4,
    learning_rate=2e-3,
    schedule_steps=STEPS,
    exploration_steps=150,
    sampling_steps=8_000,
    decay_every=500,
    longest_gradient=4.0,
    num_validation=200,
    num_watched=100,
    chunk=4,
)
# A model of every frame, which is the slower learner, must have something to lose at the switch.
STEPS_BEFORE, SWITCH_STEPS = 3 * STEPS // 2, 2 * STEPS
SWITCHED = replace(
    SMALL,
    task="funnel-board-switch",
    switch_share=STEPS_BEFORE / SWITCH_STEPS,
    schedule_steps=SWITCH_STEPS,
    decay_every=900,
)
NOTE = (
    "boards of two rows and three columns, and a horizon of 12; 16 kernels, batches of 4, 6 "
    "epochs; the model starts as a copy of its input; gradients are kept to four times their usual "
    "length"
)
SWITCH_NOTE = NOTE.replace("6 epochs", "9 epochs before the switch and 3 after it")


def _small_row(
    row_id: str,
    claim: str,
    method: str,
    config: SkipConfig,
    paper: Paper,
    rule: Rule,
    *,
    steps: int = STEPS,
    note: str = NOTE,
    also: tuple[Metric, ...] = (BY_EVALUATIONS, HARD, SKIP, DEPTH),
) -> Row:
    return make_row(
        row_id,
        claim,
        method,
        config,
        paper,
        rule,
        None,
        steps=steps,
        num_seeds=SEEDS,
        eval_every=EVERY,
        note=note,
        also=also,
    )


NO_EXPLORATION: dict[str, Any] = {"exploration_steps": 0}

SMALL_FUNNEL_BOARD = Group(
    id=BOARDS,
    title="Funnel board with two rows of funnels, for two cores",
    source="after Neitz, thesis, §2.3; Fig. 2.9 and 2.10",
    rows=(
        _small_row(
            f"{BOARDS}/asi",
            "On boards of two rows, too, a model that may skip what happens inside a funnel "
            "foresees better where the ball falls.",
            "adaptive skips",
            SMALL,
            figure("above the same without exploration, which is above all fixed steps"),
            AllOf(
                (
                    Above(f"{BOARDS}/asi-no-exploration"),
                    Above(f"{BOARDS}/fixed-1", 0.05),
                    Above(f"{BOARDS}/fixed-2", 0.05),
                    Above(f"{BOARDS}/fixed-3", 0.05),
                    fewer_calls(f"{BOARDS}/fixed-1"),
                )
            ),
        ),
        _small_row(
            f"{BOARDS}/asi-no-exploration",
            "Matching alone already helps; exploration adds to it.",
            "adaptive skips, no exploration",
            replace(SMALL, **NO_EXPLORATION),
            figure("above all fixed steps, below the full method"),
            AllOf(
                (
                    Above(f"{BOARDS}/fixed-1"),
                    Above(f"{BOARDS}/fixed-2"),
                    Above(f"{BOARDS}/fixed-3"),
                    Below(f"{BOARDS}/asi"),
                )
            ),
        ),
        *(
            _small_row(
                f"{BOARDS}/fixed-{skip}",
                claim,
                method,
                replace(SMALL, **fixed(skip)),
                figure("below adaptive skips; some baselines decline after an early gain"),
                AllOf((Below(f"{BOARDS}/asi", 0.05), Below(f"{BOARDS}/asi-no-exploration"))),
            )
            for skip, method, claim in (
                (1, "every frame", "A model of every frame must also foresee every bounce."),
                (2, "every 2nd frame", "So must a model of every second frame."),
                (3, "every 3rd frame", "And one of every third."),
            )
        ),
    ),
)

SMALL_FUNNEL_SWITCH = Group(
    id=SWITCH,
    title="Funnel board with two rows, and the funnels begin to bounce, for two cores",
    source="after Neitz, thesis, §2.3.3; Fig. 2.11",
    rows=tuple(
        _small_row(
            f"{SWITCH}/{name}",
            claim,
            method,
            replace(SWITCHED, **changes),
            SWITCH_PAPER,
            rule,
            steps=SWITCH_STEPS,
            note=SWITCH_NOTE,
            also=SWITCH_ALSO,
        )
        for name, method, changes, rule, claim in (
            (
                "asi",
                "adaptive skips",
                {},
                AllOf(
                    (Above(f"{SWITCH}/fixed-1", 0.05), Below(f"{SWITCH}/fixed-1", metric="drop"))
                ),
                "When the details become harder to predict and the outcomes do not, adaptive "
                "skips keep what they have learned.",
            ),
            (
                "fixed-1",
                "every frame",
                fixed(1),
                AllOf((AtLeast(0.02, metric="drop"), Above(f"{SWITCH}/asi", metric="drop"))),
                "A model of every frame begins to learn the bounces, and loses the outcomes.",
            ),
        )
    ),
)
