"""Random searches inside the thesis' ranges (Tables B.1 and B.2), 100 trials or more each."""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Group, Metric, Paper, Picture, Row, Variant
from recombine.experiments._rules import AtLeast, AtMost, Below, Rule
from recombine.experiments.agreement._config import SearchConfig, UnevenSearchConfig
from recombine.experiments.agreement._pictures import draw_search
from recombine.experiments.agreement._spaces import TABLE_B2

BEST = Metric("best_test_accuracy", "test accuracy of the best trial")
LOW_BEST = Metric("best_test_accuracy", "test accuracy of the best trial", higher_is_better=False)
MEDIAN = Metric("median_test_accuracy", "median test accuracy of the trials")
MEMORISED = Metric("memorised", "trials that memorise (training above 97%, test below 60%)")
TRIALS = Picture(
    "every trial of the search",
    draw_search,
    ("trial_test_accuracy", "trial_train_accuracy", "trial_diverged"),
)
EPOCHS = 93
MASKED = "ilc/synthetic/search/and-mask"
FEW_NORMS = (
    ". Six of them have batch normalisation, all with three layers, where the table gives it even "
    "chances"
)
TINY = {
    "num_envs": 4,
    "num_examples": 32,
    "num_shortcuts": 4,
    "num_test": 64,
    "hidden_units": (8,),
    "hidden_layers": (2,),
    "batch_sizes": (16,),
    "rounds": 2,
}
TINY_UNEVEN = {**TINY, "norm_hidden_layers": (2,)}


def _make_learner(config: SearchConfig, steps: int) -> Any:
    from recombine.experiments.agreement._search_learner import make_search_learner  # loads JAX

    return make_search_learner(config, steps)


def _row(
    config: SearchConfig, *, claim: str, method: str, metric: Metric, rule: Rule, words: str
) -> Row:
    return Row(
        id=f"ilc/synthetic/search/{config.method}",
        claim=claim,
        method=method,
        make_learner=_make_learner,
        metric=metric,
        also=(MEDIAN, MEMORISED),
        paper=Paper(source="App. B", words=words),
        full=Variant(
            config,
            steps=EPOCHS,
            eval_every=31,
            num_seeds=1,
            rule=rule,
            note=f"{config.num_trials} trials; a step is an epoch of all trials. No trial is "
            "stopped early, and the best is chosen by test accuracy, as in the thesis"
            + (FEW_NORMS if isinstance(config, UnevenSearchConfig) else ""),
        ),
        quick=None,
        tiny=Variant(
            replace(config, **(TINY_UNEVEN if isinstance(config, UnevenSearchConfig) else TINY)),
            steps=4,
            eval_every=2,
            num_seeds=1,
            rule=AtLeast(0.0),
            note="for tests: too small to show anything",
        ),
        pictures=(TRIALS,),
    )


SEARCHES = Group(
    id="ilc/synthetic/search",
    title="Random searches",
    source="Neitz, thesis, App. B, Tables B.1 and B.2",
    rows=(
        _row(
            # With batch normalisation every environment takes a backward pass over all of them.
            UnevenSearchConfig(method="and-mask", rounds=8, norm_rounds=1),
            claim="Among random settings some make the AND-mask find the spirals.",
            method="AND-mask, random settings",
            metric=BEST,
            rule=AtLeast(0.95),
            words="the best run has perfect test accuracy; ranges of Table B.1. The range of "
            "thresholds is not printed: ours is 0.2, 0.4, …, 1",
        ),
        _row(
            SearchConfig(method="standard"),
            claim="No mix of the standard regularizers is better than chance.",
            method="standard regularizers, random settings",
            metric=LOW_BEST,
            rule=AtMost(0.65),
            words="nothing produced results significantly better than chance",
        ),
        _row(
            TABLE_B2,
            claim="No setting of invariant risk minimization reaches the best AND-mask.",
            method="IRM, random settings",
            metric=LOW_BEST,
            rule=Below(MASKED),
            words="below the AND-mask; its level stands only in the figure",
        ),
        _row(
            # Its three parts have two layers each, whatever the table says of layers.
            SearchConfig(method="dann", hidden_layers=(2,), rounds=9),
            claim="No setting of domain-adversarial training is better than chance.",
            method="DANN, random settings",
            metric=LOW_BEST,
            rule=AtMost(0.65),
            words="100 models, none significantly better than chance. The range of the reversal's "
            "coefficient is not printed: ours is 10 to the power of U(-2, 2)",
        ),
    ),
)
"""All of them search by test accuracy, as the thesis does."""
