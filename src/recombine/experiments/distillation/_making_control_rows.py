"""What the rows of the control tasks have in common: metrics, lengths, and how a row is made."""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Metric, Paper, Row, Variant
from recombine.experiments._rules import AtLeast, Rule
from recombine.experiments.distillation._config import ControlConfig
from recombine.experiments.distillation._pictures import GATES
from recombine.experiments.distillation._spaces import control_search

MUJOCO = "ldt/mujoco"

ERROR = Metric(
    "best_test_squared_error", "lowest test error", higher_is_better=False, percent=False
)
NOW = Metric("test_squared_error", "test error", higher_is_better=False, percent=False)
HONEST = Metric(
    "chosen_test_squared_error",
    "test error, chosen by other examples",
    higher_is_better=False,
    percent=False,
)
GAP = Metric(
    "best_gap_squared_error", "test less training error", higher_is_better=False, percent=False
)

TOGETHER = 5  # iterations between two measurements, one step of a run
BASELINE_ITERATIONS = 800  # cheap: without meta-steps
SEEDS = 8
NOTE = (
    "Gymnasium's v4 environments in place of v2; the number of iterations is ours: the thesis does "
    "not state it. The best moment is chosen by the test examples, as published"
)
QUICK: dict[str, Any] = {
    "teacher_maps": (32, 32, 32, 64),
    "teacher_hidden": 128,
    "inner_steps": 48,
}
QUICK_ITERATIONS = 200
QUICK_NOTE = (
    "a smaller teacher, 48 inner steps, 200 iterations, one seed; needs the extra `mujoco`, or its "
    "data in the cache folder"
)
TINY: dict[str, Any] = {
    "data": "random",
    "num_train": 24,
    "num_selection": 8,
    "num_test": 8,
    "hidden": (4, 3),
    "batch_size": 4,
    "student_steps": 2,
    "teacher_maps": (3,),
    "teacher_hidden": 4,
    "inner_steps": 2,
    "iterations": 1,
}
TINY_NOTE = "for tests: random numbers, too small to show anything"


def _make_learner(config: ControlConfig, steps: int) -> Any:
    from recombine.experiments.distillation._control_learners import make_control_learner

    return make_control_learner(config, steps)


def control_row(
    row_id: str,
    claim: str,
    method: str,
    config: ControlConfig,
    paper: Paper,
    rule: Rule,
    *,
    iterations: int,
    quick: Rule | None = None,
    note: str = NOTE,
) -> Row:
    """Makes a row with its three variants; a step of a run is several iterations."""
    steps = iterations // TOGETHER
    small = replace(config, **QUICK)
    if config.method == "ldt" and config.longest_meta_gradient is not None:
        note = (
            f"{note}. Meta-steps with a gradient longer than {config.longest_meta_gradient:g} are "
            "left out: one such step keeps a teacher from learning"
        )
    return Row(
        id=row_id,
        claim=claim,
        method=method,
        make_learner=_make_learner,
        metric=ERROR,
        also=(NOW, HONEST, GAP),
        paper=paper,
        full=Variant(config, steps, steps // 20, SEEDS, rule, note),
        quick=None
        if quick is None
        else Variant(
            small,
            (QUICK_ITERATIONS if config.method == "ldt" else BASELINE_ITERATIONS) // TOGETHER,
            5,
            1,
            quick,
            QUICK_NOTE,
        ),
        tiny=Variant(replace(config, **TINY), 2, 1, 1, AtLeast(0.0), TINY_NOTE),
        pictures=(GATES,) if config.method in ("ldt", "untrained") else (),
        search=control_search(config, ERROR),
    )
