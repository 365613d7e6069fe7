"""Rows beside the paper's: an encoder that learns from what gradient descent infers."""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Chart, Group, Paper, Row
from recombine.experiments._rules import Above, AllOf, AtLeast, Below, Rule
from recombine.experiments.hypernetworks._control_config import DistilledConfig
from recombine.experiments.hypernetworks._making_hyperteacher_rows import (
    CHARTED,
    FLOOR,
    HYPERTEACHER,
    make_row,
    note_of_quick,
)

DISTILLED = f"{HYPERTEACHER}/distilled"
BY_ITSELF, TAUGHT = f"{DISTILLED}/by-itself", f"{DISTILLED}/taught"
PAPER = Paper(
    "discussion, open question",
    words="the discussion asks for it; the paper has no such experiment",
)
ENCODER = DistilledConfig(encoder="deep-set", adapts_bias=False, inner_steps=0)
WEIGHT = 10.0

# The rate of other quick rows is too high for an encoder.
QUICK: dict[str, Any] = {"outer_rate": 3e-3}


def _make_learner(config: DistilledConfig, steps: int) -> Any:
    from recombine.experiments.hypernetworks._distilled_learner import make_distilled_learner

    return make_distilled_learner(config, steps)


def _row(
    row_id: str, claim: str, method: str, config: DistilledConfig, rule: Rule, quick: Rule
) -> Row:
    row = make_row(
        *(row_id, claim, method, config, PAPER, rule),
        quick=quick,
        quick_settings=QUICK,
        quick_note=note_of_quick(more=", an outer rate of 0.003"),
    )
    tiny = replace(row.tiny, config=replace(row.tiny.config, descent_steps=2))
    return replace(row, make_learner=_make_learner, tiny=tiny)


DISTILLATION = Group(
    id=DISTILLED,
    title="Hyperteacher: inference in one pass, taught by gradient descent",
    source="asked for in the discussion of Schug et al. (2024)",
    rows=(
        _row(
            TAUGHT,
            "An encoder that is drawn, in training, to the embeddings that gradient descent finds "
            "does better on unseen combinations, in one pass, than one that is not.",
            "linear hypernetwork, deep set, taught by 10 gradient steps",
            replace(ENCODER, distilled=WEIGHT),
            AllOf((Above(BY_ITSELF), AtLeast(FLOOR))),
            Above(BY_ITSELF),
        ),
        _row(
            BY_ITSELF,
            "An encoder that learns from the loss of its answers alone does worse on unseen "
            "combinations than one that is taught.",
            "linear hypernetwork, deep set, not taught",
            ENCODER,
            Below(TAUGHT),
            Below(TAUGHT),
        ),
    ),
    charts=(Chart("unseen combinations against how the encoder learns", CHARTED),),
)
