"""Cloning an expert with Adam and with the temporal AND-mask (Neitz, thesis, §3.3.3, Fig. 3.12).

A substitute: the thesis clones an expert of CoinRun, which is no part of this library.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from recombine.experiments._row import Group, Metric, Paper, Picture, Row, Sample, Variant
from recombine.experiments._rules import AtLeast, AtMost, Below, Rule
from recombine.experiments.agreement._cloning_config import CloningConfig
from recombine.experiments.agreement._cloning_pictures import draw_levels, draw_trials

ADAM = "ilc/cloning/adam"
GUESS = 0.41  # the loss of the best answer that does not look at the state

TOP = Metric(
    "top_test_kl",
    "lowest test KL, mean of the best trials",
    higher_is_better=False,
    percent=False,
)
NOW = Metric(
    "top_test_kl_now", "test KL of the best trials so far", higher_is_better=False, percent=False
)
TRAIN = Metric(
    "top_train_kl_now",
    "training KL of the best trials so far",
    higher_is_better=False,
    percent=False,
)
MEDIAN = Metric(
    "median_test_kl", "lowest test KL, median of all trials", higher_is_better=False, percent=False
)
TRIALS = Picture(
    "every trial of the search",
    draw_trials,
    ("trial_lowest_test_kl", "trial_last_train_kl", "trial_diverged"),
)
STATES = Picture("states of four levels, one in each row", draw_levels, ("states",))

QUICK: dict[str, Any] = {"hidden_units": 64, "batch_size": 128, "num_trials": 64}
TINY: dict[str, Any] = {
    **{"num_levels": 3, "num_states": 8, "num_test": 10, "hidden_units": 4, "hidden_layers": 1},
    **{"batch_size": 4, "num_trials": 3, "num_best": 2},
}
EPOCHS, QUICK_EPOCHS = 120, 40
SUBSTITUTE = (
    "a game of our own in the place of CoinRun, with a scripted expert, pictures of 16 x 16 and a "
    "small network; random settings in the place of 1,024 that a search proposes. The best trials, "
    "and the best moment of each, are chosen by the test states themselves, as in the thesis"
)


def _make_learner(config: CloningConfig, steps: int) -> Any:
    from recombine.experiments.agreement._cloning_learner import make_cloning_learner  # loads JAX

    return make_cloning_learner(config, steps)


def _sample(config: CloningConfig) -> Mapping[str, np.ndarray]:
    from recombine.experiments.agreement._cloning_learner import sample_levels  # loads JAX

    return sample_levels(config)


def _note(config: CloningConfig, epochs: int) -> str:
    return (
        f"{SUBSTITUTE}. {config.num_trials} trials of {epochs} epochs; a step is an epoch of all "
        f"trials, and the mean is that of the {config.num_best} best"
    )


def _row(config: CloningConfig, *, claim: str, method: str, rule: Rule, words: str) -> Row:
    quick = replace(config, **QUICK)
    return Row(
        id=f"ilc/cloning/{config.method}",
        claim=claim,
        method=method,
        make_learner=_make_learner,
        metric=TOP,
        also=(NOW, TRAIN, MEDIAN),
        paper=Paper(source="§3.3.3, Fig. 3.12 and Table B.3, on CoinRun", words=words),
        full=Variant(
            config,
            steps=EPOCHS,
            eval_every=10,
            num_seeds=1,
            rule=rule,
            note=_note(config, EPOCHS),
        ),
        quick=Variant(
            quick,
            steps=QUICK_EPOCHS,
            eval_every=5,
            num_seeds=1,
            rule=rule,
            note=_note(quick, QUICK_EPOCHS),
        ),
        tiny=Variant(
            replace(config, **TINY),
            steps=4,
            eval_every=2,
            num_seeds=1,
            rule=AtLeast(0.0),
            note="for tests: too small to show anything",
        ),
        pictures=(TRIALS,),
        sample=Sample(_sample, (STATES,)),
    )


CLONING = Group(
    id="ilc/cloning",
    title="Cloning an expert on levels: a substitute for CoinRun",
    source="Neitz, thesis, §3.3.3 and App. B.2.6, Fig. 3.12, with another game",
    rows=(
        _row(
            CloningConfig(method="temporal-and-mask"),
            claim="An optimizer that follows only gradients whose sign lasts from level to level "
            "clones the expert better in unseen levels than Adam with as many settings.",
            method="Adam with the temporal AND-mask",
            rule=Below(ADAM),
            words="on CoinRun, a test KL of 1.66e-2 (mean of the five best of 1,024 runs that the "
            "table prints), below Adam's. Its numbers say nothing about our game",
        ),
        _row(
            CloningConfig(method="adam"),
            claim="Adam clones the expert, in unseen levels too: its loss is at most half of that "
            "of the best guess that does not look.",
            method="Adam",
            rule=AtMost(GUESS / 2),
            words="on CoinRun, a test KL above that of the mask; its height stands only in the "
            "figure. Its numbers say nothing about our game",
        ),
    ),
)
"""Both methods draw the same rates and decays, and train on the same levels and batches."""
