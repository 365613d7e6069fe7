"""Gradient correlations of random networks (Neitz, thesis, Fig. 3.7)."""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Group, Metric, Paper, Picture, Row, Variant
from recombine.experiments._rules import AllOf, AtLeast, AtMost
from recombine.experiments.agreement._config import CorrelationConfig
from recombine.experiments.agreement._pictures import draw_correlations

SETTING = CorrelationConfig()
FIGURE = Picture(
    "what is in the gradient, from the XOR-mask to the AND-mask",
    draw_correlations,
    ("levels", "mechanism", "shortcut"),
)
NETWORKS = 10
NOTE = (
    "five data sets with ten random networks each; a step is a network. Weights start uniform, as "
    "PyTorch's own do: the thesis prints no start"
)
QUICK_NOTE = "one data set with 512 examples in each environment, and five networks"
TINY = {"num_envs": 4, "num_examples": 16, "num_shortcuts": 4, "hidden_units": 8}
MARGIN = 0.01  # of a correlation that is said to rise or fall

RISES = AllOf(
    (
        AtLeast(MARGIN, metric="change_mechanism_and"),
        AtLeast(MARGIN, metric="change_mechanism_unanimous"),
        AtMost(-MARGIN, metric="change_shortcut_unanimous"),
    )
)
FALLS = AtMost(-MARGIN, metric="change_mechanism_xor")


def _make_learner(config: CorrelationConfig, steps: int) -> Any:
    from recombine.experiments.agreement._correlation_learner import (  # loads JAX
        make_correlation_learner,
    )

    return make_correlation_learner(config, steps)


def _row(name: str, *, claim: str, method: str, judged: str, rule: Any, words: str) -> Row:
    return Row(
        id=f"ilc/gradcorr/{name}",
        claim=claim,
        method=method,
        make_learner=_make_learner,
        metric=Metric(
            f"rho_mechanism_{name}",
            f"correlation with the mechanism's gradient, {judged}",
            higher_is_better=name == "and",
            percent=False,
        ),
        also=(
            Metric("rho_mechanism", "the same without a mask", percent=False),
            Metric(
                f"rho_shortcut_{name}", "correlation with the shortcuts' gradient", percent=False
            ),
        ),
        paper=Paper(source="§3.3.1 and Fig. 3.7", words=words),
        full=Variant(
            SETTING, steps=NETWORKS, eval_every=NETWORKS, num_seeds=5, rule=rule, note=NOTE
        ),
        quick=Variant(
            replace(SETTING, num_examples=512),
            steps=5,
            eval_every=5,
            num_seeds=1,
            rule=rule,
            note=QUICK_NOTE,
        ),
        tiny=Variant(
            replace(SETTING, **TINY),
            steps=2,
            eval_every=1,
            num_seeds=2,
            rule=AtLeast(-1.0),
            note="for tests: too small to show anything",
        ),
        pictures=(FIGURE,) if name == "and" else (),
    )


CORRELATIONS = Group(
    id="ilc/gradcorr",
    title="What is in the gradient",
    source="Neitz, thesis, Fig. 3.7",
    rows=(
        _row(
            "and",
            claim="The more agreement is asked for, the more of what is left of the gradient comes "
            "from the mechanism.",
            method="AND-mask",
            judged="threshold 0.75",
            rule=RISES,
            words="about 0.4 without a mask, rising with the threshold, while the correlation with "
            "the shortcuts falls towards a threshold of 1",
        ),
        _row(
            "xor",
            claim="Of the components that environments dispute, less comes from the mechanism.",
            method="XOR-mask",
            judged="strength 0.75",
            rule=FALLS,
            words="a sharper decrease of the correlation with the mechanism",
        ),
    ),
)
"""The two sides of the figure; the first row draws both."""
