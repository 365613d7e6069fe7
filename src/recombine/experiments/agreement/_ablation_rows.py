"""The AND-mask of the synthetic rows without its parts; ablations of ours, not in the thesis."""

from dataclasses import replace

from recombine.experiments._row import Group, Paper, Row
from recombine.experiments._rules import AtMost, Rule
from recombine.experiments.agreement._config import RegularizedConfig, SyntheticConfig
from recombine.experiments.agreement._synthetic_rows import (
    BOUNDARY,
    CANONICAL,
    KEPT,
    LOW_TEST,
    MEMORISES,
    TRAIN,
    make_full,
    make_learner,
    make_tiny,
)

ABLATED = Paper(
    source="not in the thesis",
    words="an ablation of ours: which parts the AND-mask needs to train at all",
)


def _ablation(
    name: str, config: SyntheticConfig, *, claim: str, method: str, rule: Rule, note: str = ""
) -> Row:
    return Row(
        id=f"ilc/synthetic/ablate/{name}",
        claim=claim,
        method=method,
        make_learner=make_learner,
        metric=LOW_TEST,
        also=(TRAIN,),
        paper=ABLATED,
        full=make_full(config, rule, note=note),
        quick=None,
        tiny=make_tiny(config),
        pictures=(BOUNDARY, KEPT),
    )


ABLATIONS = Group(
    id="ilc/synthetic/ablate",
    title="The AND-mask without its parts",
    source="Ablations of the first row above; not in the thesis",
    rows=(
        _ablation(
            "no-reg",
            replace(CANONICAL, l2=0.0),
            claim="Without a regularizer the masked weights stay as they started, and nothing is "
            "learned.",
            method="AND-mask, no regularizer",
            rule=AtMost(0.65),
        ),
        _ablation(
            "decoupled",
            RegularizedConfig(l2=1e-2, decoupled=True),
            claim="Decay that does not pass through Adam is too weak to erase the masked weights.",
            method="AND-mask, decoupled decay",
            rule=AtMost(0.65),
            note="strength 1e-2, a hundred times that of the coupled decay",
        ),
        _ablation(
            "no-rescale",
            replace(CANONICAL, rescale=None),
            claim="Without rescaling what is left of the gradient is too small beside the "
            "regularizer.",
            method="AND-mask, no rescaling",
            rule=AtMost(0.65),
        ),
        _ablation(
            "tau-0.5",
            replace(CANONICAL, threshold=0.5),
            claim="A threshold of 0.5 lets the shortcuts through.",
            method="AND-mask, threshold 0.5",
            rule=AtMost(0.60),
        ),
        _ablation(
            "tau-0",
            replace(CANONICAL, threshold=0.0),
            claim="A threshold of 0 is the plain mean.",
            method="AND-mask, threshold 0",
            rule=MEMORISES,
        ),
    ),
)
"""Which parts the method needs."""
