"""The rows of the two toy tasks: figures 4.3 and 4.4.

The thesis draws the validation part once; the authors' script for these tasks draws it anew in
every iteration, and only so are the figures reached. Rows called `ldt-fixed` keep to the text.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from recombine.experiments._row import Chart, Group, Metric, Panel, Paper, Row, Sample, Variant
from recombine.experiments._rules import (
    Above,
    AllOf,
    AtLeast,
    AtMost,
    Below,
    NearPaper,
    Rule,
)
from recombine.experiments.distillation._config import HiddenXorConfig, NoisyLabelsConfig
from recombine.experiments.distillation._figure_values import (
    DIMENSIONS,
    DISTILLED,
    NO_TEACHER,
    READ_SIZES,
    mean_of,
)
from recombine.experiments.distillation._judging import NearTable, RatioTo
from recombine.experiments.distillation._pictures import HIDDEN, TAUGHT_GRID, UNTAUGHT_GRID

TOY_A, TOY_B = "ldt/toy-a", "ldt/toy-b"
SEEDS = 5
TINY_NOTE = "for tests: too small to show anything"

# --- task A ------------------------------------------------------------------------------------

ACCURACY = Metric("accuracy", "best test accuracy, mean over the grid")
HONEST = Metric("chosen_accuracy", "the same, chosen by other examples")
ITERATIONS = 200
A_NOTE = (
    "200 iterations in place of 50, after which accuracies still rise; widths and validation share "
    "of the thesis, all else of the authors' script; training sets of one seed contain the smaller "
    "ones"
)
A_CONFIG = HiddenXorConfig(judged_sizes=READ_SIZES)
A_QUICK: dict[str, Any] = {"dimensions": (64,), "sizes": (256,), "judged_sizes": ()}
A_TINY: dict[str, Any] = {
    "dimensions": (4, 6),
    "sizes": (16, 24),
    "judged_sizes": (24,),
    "bottleneck": 3,
    "hidden": 4,
    "teacher_hidden": (4,),
    "batch_size": 4,
    "inner_steps": 2,
    "num_test": 10,
    "num_selection": 10,
}
A_SOURCE = "Fig. 4.3b; mean of the 36 cells that could be read off the picture"
CLEAR_CELLS = ((64, 256), (128, 446), (256, 588), (512, 891))
SOLVED_CELLS = ((64, 388), (128, 588), (256, 776))


def _cell(dimension: int, size: int) -> str:
    return f"best_accuracy/{dimension}/{size}"


def _table(values: Mapping[int, tuple[float, ...]]) -> tuple[tuple[str, float], ...]:
    return tuple(
        (_cell(dimension, size), value)
        for size, row in values.items()
        for dimension, value in zip(DIMENSIONS, row, strict=True)
    )


def _make_xor(config: HiddenXorConfig, steps: int) -> Any:
    from recombine.experiments.distillation._toy_learners import make_hidden_xor_learner

    return make_hidden_xor_learner(config, steps)


def _sample_xor(config: HiddenXorConfig) -> Mapping[str, np.ndarray]:
    from recombine.experiments.distillation._toy_learners import sample_hidden_xor

    return sample_hidden_xor(config)


def _xor_row(
    name: str,
    claim: str,
    method: str,
    config: HiddenXorConfig,
    paper: Paper,
    rule: Rule,
    quick: Rule,
    *,
    note: str = A_NOTE,
) -> Row:
    return Row(
        id=f"{TOY_A}/{name}",
        claim=claim,
        method=method,
        make_learner=_make_xor,
        metric=replace(ACCURACY, higher_is_better=config.method == "ldt"),
        also=(HONEST,),
        paper=paper,
        full=Variant(config, ITERATIONS, 20, SEEDS, rule, note),
        quick=Variant(
            replace(config, **A_QUICK),
            150,
            15,
            2,
            quick,
            "one cell of the grid, 64 inputs and 256 examples, 150 iterations",
        ),
        tiny=Variant(replace(config, **A_TINY), 2, 1, 1, AtLeast(0.0), TINY_NOTE),
        pictures=(UNTAUGHT_GRID if config.method == "none" else TAUGHT_GRID,),
        sample=Sample(_sample_xor, (HIDDEN,)),
    )


TOY_A_GROUP = Group(
    id=TOY_A,
    title="Task A: the privileged data explain the label, and cannot be predicted",
    source="Neitz, thesis, §4.4.1 and App. C.2.1, Fig. 4.3",
    rows=(
        _xor_row(
            "ldt",
            "A teacher that learns what to teach makes its student find the hidden XOR with far "
            "fewer examples than labels alone do.",
            "learned teacher",
            A_CONFIG,
            Paper(A_SOURCE, mean=mean_of(DISTILLED), n=5),
            AllOf(
                (
                    *(Above(f"{TOY_A}/none", 0.2, _cell(*cell)) for cell in CLEAR_CELLS),
                    *(AtLeast(0.93, metric=_cell(*cell)) for cell in SOLVED_CELLS),
                )
            ),
            AllOf((AtLeast(0.8), Above(f"{TOY_A}/none", 0.2))),
        ),
        _xor_row(
            "none",
            "From labels alone a student needs many times as many examples.",
            "no teacher",
            replace(A_CONFIG, method="none"),
            Paper(A_SOURCE, mean=mean_of(NO_TEACHER), n=5),
            NearTable(_table(NO_TEACHER), 0.05),
            AllOf((AtMost(0.65), Below(f"{TOY_A}/ldt", 0.2))),
            note="200 epochs in place of 50, as many as the learned teacher has iterations; "
            "training sets of one seed contain the smaller ones",
        ),
        _xor_row(
            "ldt-fixed",
            "With a validation part that is drawn once, as the text has it, the teacher still "
            "helps, but less.",
            "learned teacher, fixed validation part",
            replace(A_CONFIG, split="fixed"),
            Paper(
                "beside Fig. 4.3b: the procedure of the text, §4.3.4",
                words="no number: the authors' script, which made the figure, draws the part anew",
            ),
            Above(f"{TOY_A}/none", 0.05, _cell(256, 512)),
            Above(f"{TOY_A}/none"),
        ),
    ),
    charts=(Chart("accuracy, mean over the grid", (Panel(ACCURACY), Panel(HONEST))),),
)

# --- task B ------------------------------------------------------------------------------------

LAST = Metric("test_divergence", "divergence at the end", higher_is_better=False, percent=False)
BEST = Metric("best_test_divergence", "lowest divergence", higher_is_better=False, percent=False)
CHOSEN = Metric(
    "chosen_test_divergence",
    "divergence, chosen by other examples",
    higher_is_better=False,
    percent=False,
)
EPOCHS = 16
B_STEPS = {"ldt": 2 * EPOCHS, "none": 3 * EPOCHS}  # of 256 examples each, remainders dropped
B_NOTE = "as published; 2 iterations of the learned teacher, or 3 without one, are an epoch"
B_QUICK_NOTE = "two seeds in place of five"
B_TINY: dict[str, Any] = {
    "num_inputs": 6,
    "num_train": 24,
    "num_test": 10,
    "hidden": (4,),
    "teacher_hidden": (4,),
    "batch_size": 4,
    "student_steps": 2,
    "inner_steps": 2,
}
ENDS = {0.0: 1.12, 0.1: 0.94, 1.0: 0.29, 10.0: 0.465}
MINIMA = {0.0: 0.23, 0.1: 0.23, 1.0: 0.233, 10.0: 0.465}
BASELINES = {weight: f"{TOY_B}/none-{weight:g}" for weight in ENDS}


def _make_noisy(config: NoisyLabelsConfig, steps: int) -> Any:
    from recombine.experiments.distillation._toy_learners import make_noisy_labels_learner

    return make_noisy_labels_learner(config, steps)


def _noisy_row(
    name: str,
    claim: str,
    method: str,
    config: NoisyLabelsConfig,
    paper: Paper,
    rule: Rule,
    quick: Rule | None,
    *,
    metric: Metric = BEST,
    note: str = B_NOTE,
) -> Row:
    steps = B_STEPS[config.method]
    return Row(
        id=f"{TOY_B}/{name}",
        claim=claim,
        method=method,
        make_learner=_make_noisy,
        metric=metric,
        also=(LAST, CHOSEN) if metric is BEST else (BEST, CHOSEN),
        paper=paper,
        full=Variant(config, steps, 1, SEEDS, rule, note),
        quick=None if quick is None else Variant(config, steps, 1, 2, quick, B_QUICK_NOTE),
        tiny=Variant(replace(config, **B_TINY), 2, 1, 1, AtLeast(0.0), TINY_NOTE),
    )


def _baseline(weight: float) -> Row:
    claim = (
        "A student that learns from labels drawn by chance soon becomes too sure of them."
        if weight == 0
        else f"A reward of {weight:g} for doubt does not bring a student nearer to the truth than "
        f"a teacher does."
    )
    return _noisy_row(
        f"none-{weight:g}",
        claim,
        "no teacher" if weight == 0 else f"no teacher, entropy times {weight:g}",
        NoisyLabelsConfig(method="none", entropy_weight=weight),
        Paper(
            "Fig. 4.4b, at epoch 16, read off the picture",
            mean=ENDS[weight],
            n=5,
            words=f"lowest on the way {MINIMA[weight]:g}",
        ),
        NearPaper(ENDS[weight], floor=0.12 * ENDS[weight]),
        Above(f"{TOY_B}/ldt", 0.05, BEST.name),
        metric=LAST,
    )


TOY_B_GROUP = Group(
    id=TOY_B,
    title="Task B: labels drawn by chance, and privileged data that show the chances",
    source="Neitz, thesis, §4.4.1 and App. C.2.1, Fig. 4.4 and Table C.1",
    rows=(
        _noisy_row(
            "ldt",
            "A learned teacher brings its student nearer to the true chances than any weight of an "
            "entropy regularizer does.",
            "learned teacher",
            NoisyLabelsConfig(),
            Paper(
                "Fig. 4.4b, lowest value, read off the picture",
                mean=0.063,
                n=5,
                words="0.069 at epoch 16",
            ),
            AllOf(
                (
                    AtMost(0.12),
                    *(RatioTo(row, high=0.5, metric=BEST.name) for row in BASELINES.values()),
                )
            ),
            AllOf((AtMost(0.16), Below(BASELINES[0.0], 0.05, BEST.name))),
            note=f"{B_NOTE}; the validation part is drawn anew in every iteration",
        ),
        _noisy_row(
            "ldt-ascending",
            "The same in the order of the authors' script, which leaves the training part as it "
            "is stored.",
            "learned teacher, stored order",
            NoisyLabelsConfig(split="ascending"),
            Paper("Fig. 4.4b, lowest value, read off the picture", mean=0.063, n=5),
            AllOf(
                (
                    AtMost(0.12),
                    *(RatioTo(row, high=0.5, metric=BEST.name) for row in BASELINES.values()),
                )
            ),
            None,
            note=f"{B_NOTE}; the validation part is drawn anew in every iteration",
        ),
        _noisy_row(
            "ldt-fixed",
            "With a validation part that is drawn once, as the text has it, the teacher still "
            "helps, but less.",
            "learned teacher, fixed validation part",
            NoisyLabelsConfig(split="fixed"),
            Paper(
                "beside Fig. 4.4b: the procedure of the text, §4.3.4",
                words="no number: the authors' script, which made the figure, draws the part anew",
            ),
            AllOf(tuple(Below(row, metric=BEST.name) for row in BASELINES.values())),
            None,
        ),
        *(_baseline(weight) for weight in BASELINES),
    ),
    charts=(Chart("divergence from the true chances", (Panel(BEST), Panel(LAST, log=True))),),
)
