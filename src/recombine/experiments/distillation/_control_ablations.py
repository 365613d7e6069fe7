"""The ablations of a learned teacher (Neitz, thesis, §4.4.4, Fig. 4.9).

Hopper and Swimmer have all of them. The other two tasks have those that come out otherwise than the
thesis says on these two. The thesis draws a validation part anew (AR) and finds it harmful. The
authors' script for the toy tasks, when it draws anew, also leaves the training part in the order of
the data; its first batches are all that the student meets, about 820 of 4,000 examples with a share
of 0.3. AR therefore has two rows, shuffled and in that order.
"""

from dataclasses import replace

from recombine.experiments._row import Paper, Row
from recombine.experiments._rules import AllOf, Below, Rule
from recombine.experiments.distillation._config import ControlConfig
from recombine.experiments.distillation._control_table import TABLE
from recombine.experiments.distillation._judging import RatioTo, Rising
from recombine.experiments.distillation._making_control_rows import (
    BASELINE_ITERATIONS,
    MUJOCO,
    control_row,
)

ABLATED = ("hopper", "swimmer")  # with all ablations
NOISY = (4, 8, 12, 16)


def ablations(task: str) -> tuple[Row, ...]:
    """Returns the ablations of one task; what they are compared with has the same settings."""
    known, here = TABLE[task], f"{MUJOCO}/{task}"
    teaching, whole = known.teaching, f"{here}/ldt"
    if known.published_teaching is not None:  # what is taken away is taken from what was published
        teaching, whole = known.published_teaching, f"{here}/ldt-published"
    learned = ControlConfig(task=task, method="ldt", **teaching)  # pyright: ignore[reportArgumentType]
    free = f"{here}/model-free"

    def row(
        name: str,
        claim: str,
        method: str,
        config: ControlConfig,
        words: str,
        rule: Rule,
        iterations: int = known.iterations,
    ) -> Row:
        return control_row(
            f"{here}/{name}",
            claim,
            method,
            config,
            Paper("Fig. 4.9, a picture; §4.4.4", words=words),
            rule,
            iterations=iterations,
        )

    only_noise: Rule = RatioTo(free, 0.95, 1.4)
    if task in ABLATED:
        fewer = tuple(f"{here}/noisy-{before}" for before in NOISY[:-1])
        only_noise = AllOf((only_noise, Rising(fewer)))
    noisy = [
        row(
            f"noisy-{count}",
            f"With noise in place of the last {count} frames there is less to teach."
            if count < 16
            else "With noise in place of the whole future there is nothing to teach.",
            f"learned teacher, {count} noisy frames (RT-{count})",
            replace(learned, noisy_frames=count),
            "errors grow with the number of noisy frames; RT-16 slightly worse than model-free",
            RatioTo(whole, low=0.95) if count < 16 else only_noise,
        )
        for count in NOISY
    ]
    rows = (
        row(
            "untrained",
            "A teacher that stays as it was drawn does not help.",
            "untrained teacher (FT)",
            replace(learned, method="untrained"),
            "the student essentially fails",
            RatioTo(free, low=1.3),
            BASELINE_ITERATIONS,
        ),
        row(
            "permuted",
            "The order of the frames hardly matters.",
            "learned teacher, permuted frames (PT)",
            replace(learned, permuted=True),
            "only slightly worse than with frames in order",
            AllOf((RatioTo(whole, low=0.95), Below(free))),
        ),
        *noisy,
        row(
            "resampled",
            "A validation part that is drawn anew in every iteration makes it worse than labels "
            "alone.",
            "learned teacher, validation drawn anew (AR)",
            replace(learned, resample=True),
            "slightly worse than model-free",
            RatioTo(free, low=0.95),
        ),
        row(
            "resampled-ascending",
            "Drawn anew and left in the stored order, as in the authors' script for the toys, the "
            "training part shows the student few examples, and makes it worse than labels alone.",
            "learned teacher, validation drawn anew, stored order (AR, as scripted)",
            replace(learned, resample=True, ascending=True),
            "slightly worse than model-free",
            RatioTo(free, low=0.95),
        ),
    )
    if task in ABLATED:
        return rows
    in_doubt = ("untrained", "noisy-16", "resampled", "resampled-ascending")
    return tuple(row for row in rows if row.id.removeprefix(f"{here}/") in in_doubt)
