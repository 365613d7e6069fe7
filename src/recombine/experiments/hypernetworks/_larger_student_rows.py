"""The rows of the theory with students that are larger than their teacher."""

from typing import Any

from recombine.experiments._row import Chart, Group, Panel, Paper, Row
from recombine.experiments._rules import AllOf, AtLeast, Below, Rule
from recombine.experiments.hypernetworks._config import TheoryConfig
from recombine.experiments.hypernetworks._making_theory_rows import (
    CORRECTED,
    INFERRED,
    THEORY,
    UNSEEN_LOSS,
    make_theory_row,
)
from recombine.experiments.hypernetworks._orderings import AboveEach, Lead

OVERPARAM = f"{THEORY}/overparam"
SUPPORT = "onehot+pairs-ring"
FACTORS = ((8, 2), (32, 2), (2, 8), (2, 32), (32, 32))
LARGER_STEPS = 4_000, 1_000, 3
LARGER_NOTE = (
    f"{LARGER_STEPS[0]:,} outer steps at a rate of 0.005 in place of 60,000 at 0.001, and "
    f"{INFERRED}"
)
FEWER: dict[int, tuple[dict[str, Any], str]] = {
    0: ({"chunk_size": 64}, LARGER_NOTE),
    1: ({"chunk_size": 64, "num_tasks": 16}, f"{LARGER_NOTE}; 16 tasks in place of 64"),
    2: (
        {"chunk_size": 16, "num_tasks": 8, "num_rows": 128},
        f"{LARGER_NOTE}; 8 tasks of 128 examples in place of 64 of 256",
    ),
}
"""What a step has less of, by how many of the factors are 32: the slopes of an example are as many
numbers as latents times units."""
DISCRETE_PAPER = Paper(
    "Fig. 2 and appendix",
    words="alignment and unseen combinations suffer when the student is much larger",
)
CONTINUOUS_PAPER = Paper("Fig. 2 and appendix", words="a weak effect, or none")


def _base_id(latents: str) -> str:
    return f"{OVERPARAM}/{latents}/h2-m2"


def _larger(latents: str, width: int, length: int) -> Row:
    base, name = _base_id(latents), f"h{width}-m{length}"
    sizes, note = FEWER[(width, length).count(32)]
    rules: list[Rule] = []
    if latents == "discrete":
        rules.append(Below(base, metric=CORRECTED.name))
    else:  # the drop is smaller than the discrete one: the lead over the base is larger
        other = f"{OVERPARAM}/discrete/{name}"
        rules.append(
            Lead((base,), other, (_base_id("discrete"),), larger=True, metric=CORRECTED.name)
        )
    return make_theory_row(
        f"{OVERPARAM}/{latents}/{name}",
        f"A student with {width} times the units and {length} times the latents "
        + (
            "fits discrete combinations without finding the modules."
            if latents == "discrete"
            else "loses less with continuous combinations than with discrete ones."
        ),
        f"{width} x the width, {length} x the latent, {latents}",
        TheoryConfig(
            support=SUPPORT,
            latents=latents,  # pyright: ignore[reportArgumentType]
            width_factor=float(width),
            latent_factor=float(length),
            **sizes,
        ),
        DISCRETE_PAPER if latents == "discrete" else CONTINUOUS_PAPER,
        AllOf(tuple(rules)),
        None,
        metric=CORRECTED,
        higher_is_better=latents == "continuous",
        length=LARGER_STEPS,
        note=note,
    )


def _base(latents: str) -> Row:
    return make_theory_row(
        _base_id(latents),
        "The student of twice the teacher's size, with which larger ones are compared.",
        f"2 x the width, 2 x the latent, {latents}",
        TheoryConfig(support=SUPPORT, latents=latents),  # pyright: ignore[reportArgumentType]
        Paper("Fig. 2 and appendix", words="modules are identified"),
        AtLeast(0.5),
        None,
        metric=CORRECTED,
        length=LARGER_STEPS,
        note=LARGER_NOTE,
    )


SAME_SIZE = make_theory_row(
    f"{OVERPARAM}/continuous/pairs-split-h1-m1",
    "A student of the teacher's own size has no units to keep disconnected groups apart, and the "
    "shared readout ties its units to the teacher's.",
    "1 x the width, 1 x the latent, continuous, pairs-split",
    TheoryConfig(support="pairs-split", width_factor=1.0, latent_factor=1.0),
    Paper(
        "not in the paper",
        words="our own question: whether disconnected supports need a wider student to fail",
    ),
    AboveEach((f"{THEORY}/continuous/pairs-split",), metric="joint_alignment"),
    None,
    metric=CORRECTED,
)

OVERPARAMETERIZED = Group(
    id=OVERPARAM,
    title="Students larger than their teacher",
    source="Schug et al. (2024), multi-task teacher-student, Fig. 2 and appendix",
    rows=(
        _base("discrete"),
        *(_larger("discrete", *factors) for factors in FACTORS),
        _base("continuous"),
        *(_larger("continuous", *factors) for factors in FACTORS),
        SAME_SIZE,
    ),
    charts=(
        Chart(
            "alignment and loss against the student's size",
            (Panel(CORRECTED), Panel(UNSEEN_LOSS, log=True, floor="train_loss")),
        ),
    ),
)
