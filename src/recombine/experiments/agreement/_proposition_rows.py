"""Rows that check the propositions of the theory, each by many random cases."""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Metric, Paper, Picture, Row, Variant
from recombine.experiments._rules import AllOf, AtLeast, AtMost
from recombine.experiments.agreement._making_theory_rows import QUICK_NOTE, make_tiny, number
from recombine.experiments.agreement._theory_config import (
    HessianPairsConfig,
    MaskedDescentConfig,
    RandomGradientsConfig,
)
from recombine.experiments.agreement._theory_pictures import ELLIPSES, SHRINKING


def _masked_descent(config: MaskedDescentConfig, steps: int) -> Any:
    from recombine.experiments.agreement._proposition_learners import make_masked_descent_learner

    return make_masked_descent_learner(config)


def _random_gradients(config: RandomGradientsConfig, steps: int) -> Any:
    from recombine.experiments.agreement._proposition_learners import make_random_gradients_learner

    return make_random_gradients_learner(config)


def _hessian_pairs(config: HessianPairsConfig, steps: int) -> Any:
    from recombine.experiments.agreement._proposition_learners import make_hessian_pairs_learner

    return make_hessian_pairs_learner(config)


DESCENT_RULE = AllOf((AtMost(0.0, "max"), AtMost(1.0, "max", "share_of_bound")))
DESCENT_ROW = Row(
    id="ilc/theory/prop1",
    claim="Every AND-masked step lowers the loss by at least half the learning rate times the "
    "squared norm of the masked gradient, so that the smallest one falls like one over steps.",
    method="AND-masked descent, proposition 1",
    make_learner=_masked_descent,
    metric=number("violations", "steps that break the inequality"),
    also=(
        number("smallest_norm", "smallest squared masked gradient"),
        number("bound", "its bound"),
        number("share_of_bound", "the one over the other"),
    ),
    paper=Paper(source="proposition 1, proof in App. B.1.3", mean=0.0, words="it always holds"),
    full=Variant(MaskedDescentConfig(), steps=1000, eval_every=50, num_seeds=20, rule=DESCENT_RULE),
    quick=Variant(
        MaskedDescentConfig(),
        steps=200,
        eval_every=50,
        num_seeds=3,
        rule=DESCENT_RULE,
        note=QUICK_NOTE,
    ),
    tiny=make_tiny(MaskedDescentConfig(num_envs=3, num_params=4), "violations"),
)

RANDOM_ROW = Row(
    id="ilc/theory/prop2",
    claim="Of random gradients the plain mean leaves one part in the number of environments, the "
    "AND-mask exponentially less, and beyond 100 environments nothing.",
    method="AND-mask on random gradients, proposition 2",
    make_learner=_random_gradients,
    metric=number("left_beyond_100", "squared norm left beyond 100 environments"),
    also=(
        number("standard_errors", "standard errors from the exact norms, at most"),
        number("compared", "numbers of environments compared", higher_is_better=True),
    ),
    paper=Paper(
        source="proposition 2 and Fig. 3.4",
        mean=0.0,
        words="for more than 100 examples the masked gradients were always zero",
    ),
    full=Variant(
        RandomGradientsConfig(),
        steps=100,
        eval_every=20,
        num_seeds=5,
        rule=AllOf(
            (
                AtMost(0.0, "max"),
                AtMost(5.0, "max", "standard_errors"),
                AtLeast(4, "min", "compared"),
            )
        ),
        note="the norms up to 30 environments must be within 5 standard errors of the exact sums; "
        "beyond, too little survives to compare",
    ),
    quick=Variant(
        RandomGradientsConfig(),
        steps=20,
        eval_every=10,
        num_seeds=2,
        rule=AllOf(
            (
                AtMost(0.0, "max"),
                AtMost(5.0, "max", "standard_errors"),
                AtLeast(3, "min", "compared"),
            )
        ),
        note=QUICK_NOTE,
    ),
    tiny=make_tiny(RandomGradientsConfig(num_envs=(5, 10, 120), num_params=40), "left_beyond_100"),
    pictures=(SHRINKING,),
)


def _hessian_row(
    name: str,
    constant: float,
    claim: str,
    paper: Paper,
    full: AllOf,
    note: str,
    *,
    has_quick: bool = True,
    pictures: tuple[Picture, ...] = (),
) -> Row:
    config = HessianPairsConfig(constant=constant)
    quick = Variant(
        config, steps=20, eval_every=10, num_seeds=1, rule=full, note=f"{note}; {QUICK_NOTE}"
    )
    return Row(
        id=f"ilc/theory/{name}",
        claim=claim,
        method=f"means of Hessians, constant {constant:.0f}",
        make_learner=_hessian_pairs,
        metric=Metric("violations", "pairs that break the bound", higher_is_better=False),
        also=(number("score_over_bound", "score over its bound, at most"),),
        paper=paper,
        full=Variant(config, steps=100, eval_every=20, num_seeds=5, rule=full, note=note),
        quick=quick if has_quick else None,
        tiny=make_tiny(replace(config, num_pairs=10), "violations"),
        pictures=pictures,
    )


HESSIAN_ROWS = (
    _hessian_row(
        "prop3",
        4.0,
        "Four times epsilon times the squared ratio of the determinants of arithmetic and "
        "geometric mean bounds the score, and no smaller constant does.",
        Paper(
            source="proposition 3, proof in App. B.1.2",
            mean=0.0,
            words="the proof gives this constant, where the proposition prints 2",
        ),
        AllOf((AtMost(0.0, "max"), AtLeast(0.99, "max", "score_over_bound"))),
        "the constant that the proof gives; random pairs of one to three curvatures from 0.01 "
        "to 100",
        pictures=(ELLIPSES,),
    ),
    _hessian_row(
        "prop3-printed",
        2.0,
        "The bound with the constant 2, as the proposition prints it.",
        Paper(
            source="proposition 3 and Eq. 3.3",
            mean=0.0,
            words="the bound holds; it does not: curvatures of 1 and 10 score 10 epsilon, and the "
            "printed bound is 6.05 epsilon",
        ),
        AllOf((AtMost(0.0, "max"),)),
        "as printed; judged by what is printed, so this row is bound to miss",
        has_quick=False,
    ),
)
