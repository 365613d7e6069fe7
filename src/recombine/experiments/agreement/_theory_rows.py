"""Rows that check the theory: examples with known answers and a linear toy.

The group has the rows of the propositions, too.
"""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Group, Metric, Paper, Row, Variant
from recombine.experiments._rules import AllOf, AtLeast, AtMost
from recombine.experiments.agreement._known_values import KnownValues
from recombine.experiments.agreement._making_theory_rows import QUICK_NOTE, make_tiny, number
from recombine.experiments.agreement._proposition_rows import (
    DESCENT_ROW,
    HESSIAN_ROWS,
    RANDOM_ROW,
)
from recombine.experiments.agreement._theory_config import (
    LandscapeConfig,
    LinearToyConfig,
    PatchworkConfig,
)
from recombine.experiments.agreement._theory_pictures import LANDSCAPES, PATCHES, WEIGHTS


def _landscape(config: LandscapeConfig, steps: int) -> Any:
    from recombine.experiments.agreement._theory_learners import make_landscape_learner

    return make_landscape_learner(config)


def _patchwork(config: PatchworkConfig, steps: int) -> Any:
    from recombine.experiments.agreement._theory_learners import make_patchwork_learner

    return make_patchwork_learner(config)


def _linear_toy(config: LinearToyConfig, steps: int) -> Any:
    from recombine.experiments.agreement._theory_learners import make_linear_toy_learner

    return make_linear_toy_learner(config)


# --- the two-parameter landscapes -------------------------------------------------------------

LANDSCAPE_RULE = AllOf(
    (
        AtLeast(0.9, "min", "patchwork_score"),  # at epsilon 0.01; the losses end at 1
        AtMost(0.0105, "max", "shared_score"),
        AtMost(0.005, "max", "reached_by_a"),
        AtMost(0.005, "max", "reached_by_b"),
        AtLeast(0.4, "min", "reached_by_mean"),
    )
)
LANDSCAPE_NOTE = "the figure prints no formula: these landscapes are ours, made to its description"
LANDSCAPE_ROW = Row(
    id="ilc/theory/landscape",
    claim="Of two minima with the same loss, one is shared by both environments and the other "
    "made by their mean: only the inconsistency score tells them apart.",
    method="two landscapes",
    make_learner=_landscape,
    metric=number("patchwork_score", "inconsistency of the patchwork minimum"),
    also=(
        number("shared_score", "inconsistency of the shared minimum"),
        Metric("reached_by_mean", "starts that reach the patchwork minimum"),
        Metric("reached_by_a", "starts that reach it in A alone"),
        Metric("reached_by_mask", "starts that reach it with the AND-mask"),
        number("learning_consistency", "learning consistency of descent", higher_is_better=True),
    ),
    paper=Paper(
        source="§3.1, §3.2.1 and Fig. 3.1",
        words="near the bottom-left minimizer the landscape is consistent across environments, at "
        "the top-right one it is not; in one environment alone the probability of finding the "
        "latter is zero",
    ),
    full=Variant(
        LandscapeConfig(),
        steps=400,
        eval_every=100,
        num_seeds=5,
        rule=LANDSCAPE_RULE,
        note=LANDSCAPE_NOTE,
    ),
    quick=Variant(
        LandscapeConfig(),
        steps=100,
        eval_every=50,
        num_seeds=2,
        rule=LANDSCAPE_RULE,
        note=f"{LANDSCAPE_NOTE}; {QUICK_NOTE}",
    ),
    tiny=make_tiny(replace(LandscapeConfig(), descent_steps=20, walk_steps=4), "reached_by_mean"),
    pictures=(LANDSCAPES,),
)

# --- the patchwork network --------------------------------------------------------------------

PRINTED_LOSSES = (0.0460934, 0.00705553, 0.0460934, 1.0622666)
CENTRED_LOSSES = (0.00319214, 0.00319304, 0.00319214, 1.0584042)
LOSS_NAMES = ("loss_a", "loss_b", "loss_a_varied", "loss_b_varied")
LOSS_LABELS = ("loss in A", "loss in B", "loss in A, varied", "loss in B, varied")


def _patchwork_rule(losses: tuple[float, ...]) -> AllOf:
    """The losses are the integrals, and what is found is at least the printed variation."""
    known = [(name, value, 1e-4 * value) for name, value in zip(LOSS_NAMES, losses, strict=True)]
    return AllOf((KnownValues(tuple(known)), AtLeast(abs(losses[3] - losses[0]), "min", "score")))


def _patchwork_row(
    name: str, method: str, config: PatchworkConfig, losses: tuple[float, ...], note: str
) -> Row:
    return Row(
        id=f"ilc/theory/{name}",
        claim="A network that fits two environments by patches can be varied so that one "
        "environment notices nothing while the loss of the other rises above 1.",
        method=method,
        make_learner=_patchwork,
        metric=number("score", "inconsistency found within a distance of 1.5"),
        also=(
            number("printed_variation", "difference at the printed variation"),
            *(number(*names) for names in zip(LOSS_NAMES, LOSS_LABELS, strict=True)),
        ),
        paper=Paper(
            source="App. B.1.1 and Fig. B.1",
            words="a variation of one weight leaves A's loss as it is and makes B's much larger; "
            "the score is a large number. The inequality is printed the wrong way round",
        ),
        full=Variant(
            config,
            steps=8,
            eval_every=4,
            num_seeds=3,
            rule=_patchwork_rule(losses),
            note=f"{note}; the losses must be the integrals to a relative error of 1e-4",
        ),
        quick=Variant(
            config,
            steps=2,
            eval_every=1,
            num_seeds=1,
            rule=_patchwork_rule(losses),
            note=f"{note}; {QUICK_NOTE}",
        ),
        tiny=make_tiny(replace(config, walk_steps=4, num_points=32), "score"),
        pictures=(PATCHES,),
    )


PATCHWORK_ROWS = (
    _patchwork_row(
        "patchwork",
        "sigmoid patches, as printed",
        PatchworkConfig(),
        PRINTED_LOSSES,
        "parameters as printed, with which the loss in A is 0.046, and not small beside 0.007",
    ),
    _patchwork_row(
        "patchwork-centred",
        "sigmoid patches, first step on the ramp",
        PatchworkConfig(offset=-45.0),
        CENTRED_LOSSES,
        "the second parameter is -45 where -50 is printed: then both losses are small, as said",
    ),
)

THEORY = Group(
    id="ilc/theory",
    title="Consistency in theory",
    source="Neitz, thesis, §3.2 and App. B.1",
    rows=(LANDSCAPE_ROW, *PATCHWORK_ROWS, DESCENT_ROW, RANDOM_ROW, *HESSIAN_ROWS),
)

# --- the linear toy ---------------------------------------------------------------------------

MEMORISED = {
    "own_weight": 0.31915,
    "own_spread": 0.0,
    "shared_weight": 0.12766,
    "seen_weight": 0.32609,
    "unseen_weight": 0.0,
    "shared_weight_of_seen": 0.06522,
    "held_out_loss": 0.4806,
}
CARRIED_OVER = {
    "own_weight": 0.0,
    "own_spread": 0.0,
    "shared_weight": 2.9994,
    "seen_weight": 0.0,
    "unseen_weight": 0.0,
    "shared_weight_of_seen": 2.9994,
    "held_out_loss": 0.00502,
}


def _linear_row(name: str, method: str, claim: str, expected: dict[str, float]) -> Row:
    config = LinearToyConfig(rule=name)  # pyright: ignore[reportArgumentType]
    rule = KnownValues(tuple((metric, value, 1e-4) for metric, value in expected.items()))
    return Row(
        id=f"ilc/linreg/{name}",
        claim=claim,
        method=method,
        make_learner=_linear_toy,
        metric=number("held_out_loss", "loss in environments not seen"),
        also=(
            number("own_weight", "weight of an environment's own input"),
            number("shared_weight", "weight of the shared input", higher_is_better=True),
        ),
        paper=Paper(
            source="the notebook of the authors' code",
            words=f"its settings have no chance in them; from weights of zero they end at a "
            f"held-out loss of {expected['held_out_loss']}",
        ),
        full=Variant(
            config,
            steps=1001,
            eval_every=143,
            num_seeds=1,
            rule=rule,
            note="all weights and the loss must be right to 1e-4",
        ),
        quick=Variant(
            config, steps=1001, eval_every=1001, num_seeds=1, rule=rule, note="the full run"
        ),
        tiny=make_tiny(config, "held_out_loss"),
        pictures=(WEIGHTS,),
    )


LINREG = Group(
    id="ilc/linreg",
    title="A weight for each, and one for all",
    source="the notebook of the authors' code",
    rows=(
        _linear_row(
            "arithmetic",
            "plain mean of gradients",
            "The plain mean learns a weight for each environment, which is of no use in another.",
            MEMORISED,
        ),
        _linear_row(
            "and-mask",
            "AND-mask, unanimity",
            "The AND-mask learns the weight that all environments share, and does well in those "
            "that were not seen.",
            CARRIED_OVER,
        ),
        _linear_row(
            "geometric",
            "geometric mean of gradients",
            "The geometric mean, too, learns only the weight that all environments share.",
            CARRIED_OVER,
        ),
    ),
)
