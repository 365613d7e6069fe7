"""Rows beside the paper's: what its numbers on the hyperteacher are worth.

Oracles are told which modules a task has; controls show how far one gets without modules, without
combining them, or without adapting at all. All see teachers and tasks of the compositional rows.
"""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Chart, Group, Panel, Paper, Row
from recombine.experiments._rules import Above, AllOf, Below, Rule
from recombine.experiments.hypernetworks._control_config import ControlConfig, ControlName
from recombine.experiments.hypernetworks._making_hyperteacher_rows import (
    COMPOSITIONAL,
    HYPERTEACHER,
    OOD,
    PUBLISHED,
    make_row,
)
from recombine.experiments.hypernetworks._pictures import TRAINED_TOGETHER

CONTROLS = f"{HYPERTEACHER}/controls"
MODULAR = f"{COMPOSITIONAL}/linear-hnet"
PAPER = Paper("beside Fig. 3, hyperteacher", words="not in the paper, which has no such comparison")


def _make_learner(config: ControlConfig, steps: int) -> Any:
    from recombine.experiments.hypernetworks._control_learners import make_control_learner

    return make_control_learner(config, steps)


def _control(
    name: ControlName,
    claim: str,
    method: str,
    rule: Rule,
    *,
    like: str = "anil",
    settings: dict[str, Any] | None = None,
    quick: dict[str, Any] | None = None,
    higher_is_better: bool = False,
) -> Row:
    """Makes a row; `like` names the learner that it has its sizes and rates from."""
    published = {
        field: getattr(PUBLISHED[like], field) for field in PUBLISHED[like].__dataclass_fields__
    }
    changes = {"inner_steps": 0, "batch_size": None, **(settings or {})}
    row = make_row(
        f"{CONTROLS}/{name}",
        claim,
        method,
        ControlConfig(**{**published, **changes}, control=name),
        PAPER,
        rule,
        quick=rule,
        quick_settings={"inner_steps": 0, **(quick or {})},
        higher_is_better=higher_is_better,
    )
    # Nothing is decoded: a task's own parameters are told, or none.
    return replace(row, make_learner=_make_learner, pictures=(TRAINED_TOGETHER,), search=None)


def _untrained(row: Row) -> Row:
    """One step, in which nothing is learned."""
    assert row.quick is not None
    note = "nothing is trained"
    return replace(
        row,
        selection=None,
        full=replace(row.full, steps=1, eval_every=1, note=note),
        quick=replace(row.quick, steps=1, eval_every=1, note=f"{note}; {row.quick.note}"),
    )


CONTROL = Group(
    id=CONTROLS,
    title="Hyperteacher: oracles and controls",
    source="beside Schug et al. (2024), hyperteacher, Fig. 3",
    rows=(
        _control(
            "told-student",
            "A student of the teacher's form that is told which modules a task has does better on "
            "unseen combinations than a hypernetwork that must infer it.",
            "oracle: the teacher's form, told the modules",
            Above(MODULAR),
            like="linear-hnet",
            # Twice the teacher's width. Its weights have the teacher's scale, about 1.
            settings={"width": 64, "adapts_bias": False, "outer_rate": 1e-2, "weight_decay": 0.0},
            quick={"width": 32, "outer_rate": 3e-2, "weight_decay": 0.0},
            higher_is_better=True,
        ),
        _control(
            "told-mlp",
            "A network without modules that is told which modules a task has still combines them "
            "less well than a student of the teacher's form.",
            "oracle: network without modules, told the modules",
            Below(f"{CONTROLS}/told-student"),
        ),
        _control(
            "ridge-head",
            "A network without modules whose last layer is solved for adapts worse to unseen "
            "combinations than a hypernetwork: it is not descent that ANIL lacks.",
            "ANIL with a head in closed form",
            Below(MODULAR),
        ),
        _control(
            "in-context",
            "A transformer whose queries look at the support, without an embedding or modules "
            "between them, adapts worse to unseen combinations than a hypernetwork.",
            "transformer, support in context",
            Below(MODULAR),
            settings={"encoder_width": 128},
            quick={"encoder_width": 32},
        ),
        _untrained(
            _control(
                "nearest-task",
                "Knowing every trained task perfectly, and picking the one that is nearest, is "
                "worse on unseen combinations than a hypernetwork.",
                "nearest trained task",
                Below(MODULAR),
            )
        ),
        _control(
            "pooled",
            "One network for all tasks, which does not adapt, is worse on unseen combinations than "
            "every learner that adapts.",
            "one network for all tasks",
            AllOf((Below(MODULAR), Below(f"{COMPOSITIONAL}/anil"), Below(f"{COMPOSITIONAL}/maml"))),
            settings={"width": 256, "outer_rate": 3e-4},
        ),
    ),
    charts=(
        Chart("unseen combinations: oracles and controls", (Panel(OOD, floor="test_accuracy"),)),
    ),
)
