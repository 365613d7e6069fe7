"""Rows of images that two CPU cores can train: Room runner on maps of a few rooms.

The frames are drawn as in the thesis, 4 pixels to a cell, and the runner moves as it does there;
maps have 8 x 8 cells in place of 16 x 16. So what the vectors of the quick rows leave out is here:
a background that a model must keep, and a runner that it may forget.
"""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Group, Row
from recombine.experiments._rules import Above, AllOf, Below, Rule
from recombine.experiments.skipping._config import SkipConfig
from recombine.experiments.skipping._making_rows import fewer_calls, figure, fixed, make_row

SMALL_ROOMS = "asi/room-runner-small"
STEPS, EVERY = 1_500, 125
SMALL = SkipConfig(
    task="room-runner",
    cells=8,
    longest_skip=10,
    start="copy",
    kernels=16,
    batch_size=8,
    learning_rate=2e-3,
    schedule_steps=STEPS,
    exploration_steps=600,
    sampling_steps=8_000,
    decay_every=1_000,
    num_validation=200,
    num_watched=100,
    chunk=4,
)
NOTE = (
    "maps of 8 x 8 cells in place of 16 x 16, drawn as in the thesis, and a horizon of 10; 16 "
    "kernels, batches of 8, 24 epochs; the model starts as a copy of its input"
)


LONG_STEPS = 3 * STEPS
LONG: dict[str, Any] = {
    "schedule_steps": LONG_STEPS,
    "decay_every": 3_000,
}  # after as large a share
LONG_NOTE = NOTE.replace("24 epochs", "72 epochs")


def _small_row(
    name: str,
    claim: str,
    method: str,
    changes: dict[str, Any],
    rule: Rule,
    *,
    steps: int = STEPS,
    note: str = NOTE,
) -> Row:
    return make_row(
        f"{SMALL_ROOMS}/{name}",
        claim,
        method,
        replace(SMALL, **changes),
        figure("the same order on maps of full size"),
        rule,
        None,
        steps=steps,
        eval_every=EVERY,
        note=note,
    )


SMALL_ROOM_RUNNER = Group(
    id=SMALL_ROOMS,
    title="Room runner on small maps, for two cores",
    source="after Neitz, thesis, §2.3; Fig. 2.9 and 2.10",
    rows=(
        _small_row(
            "asi",
            "On maps of a few rooms, too, a model that chooses its own steps foresees where the "
            "runner ends better than one that is told which frame to predict.",
            "adaptive skips",
            {},
            AllOf(
                (
                    Above(f"{SMALL_ROOMS}/asi-no-exploration", 0.05),
                    Above(f"{SMALL_ROOMS}/fixed-1", 0.05),
                    Above(f"{SMALL_ROOMS}/fixed-2", 0.05),
                    fewer_calls(f"{SMALL_ROOMS}/fixed-1"),
                )
            ),
        ),
        _small_row(
            "asi-no-exploration",
            "Without exploration a model of images settles for short skips, which copy its input.",
            "adaptive skips, no exploration",
            {"exploration_steps": 0},
            Below(f"{SMALL_ROOMS}/asi", 0.05),
        ),
        *(
            _small_row(
                f"fixed-{skip}",
                claim,
                method,
                fixed(skip),
                Below(f"{SMALL_ROOMS}/asi", 0.05),
            )
            for skip, method, claim in (
                (1, "every frame", "A mean of two possible next frames fades, and is fed back."),
                (2, "every 2nd frame", "So does one of every second frame."),
            )
        ),
        _small_row(
            "asi-72-epochs",
            "Trained three times as long, adaptive skips still foresee more than fixed steps do.",
            "adaptive skips, 72 epochs",
            LONG,
            AllOf(
                (
                    Above(f"{SMALL_ROOMS}/fixed-1-72-epochs", 0.05),
                    fewer_calls(f"{SMALL_ROOMS}/fixed-1-72-epochs"),
                )
            ),
            steps=LONG_STEPS,
            note=LONG_NOTE,
        ),
        _small_row(
            "fixed-1-72-epochs",
            "More training does not mend a chain of predictions whose errors add up.",
            "every frame, 72 epochs",
            LONG | fixed(1),
            Below(f"{SMALL_ROOMS}/asi-72-epochs", 0.05),
            steps=LONG_STEPS,
            note=LONG_NOTE,
        ),
    ),
)
