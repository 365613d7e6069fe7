"""The rows of the preference grid: what is worth what.

The paper prints figures, so the rules are its orderings. A seed draws what the modules like, and
with it the scale of the loss: rows are compared over the same seeds.

The quick variants keep the rooms, and show what a module costs that never occurs in training. They
do not show hypernetworks ahead of ANIL: no setting was found that does. Their rules ask for it all
the same, since that is what the paper says.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from recombine.experiments._row import Chart, Group, Metric, Panel, Paper, Row, Sample, Variant
from recombine.experiments._rules import AllOf, AtMost, Rule
from recombine.experiments.hypernetworks._grid_config import PreferenceConfig
from recombine.experiments.hypernetworks._grid_pictures import (
    ADAPTATION,
    HOTNESS,
    PREFERENCE_FILM,
)
from recombine.experiments.hypernetworks._making_grid_rows import (
    EVERY,
    OOD_RETURN,
    SEEDS,
    TINY,
    make_tiny,
)
from recombine.experiments.hypernetworks._making_hyperteacher_rows import (
    HNETS,
    MONOLITHIC,
    NAMES,
    VALIDATION_LOSS,
    ids_of,
)
from recombine.experiments.hypernetworks._orderings import AboveEach, BelowEach
from recombine.experiments.hypernetworks._pictures import SUPPORT_MASKS

PREFERENCE = "modular/preference"
PREFERENCE_PUBLISHED = {
    "linear-hnet": PreferenceConfig(),
    "deep-hnet": PreferenceConfig(
        learner="deep-hnet", num_hidden=2, adapts_bias=False, clip_norm=2.0
    ),
    "anil": PreferenceConfig(
        learner="anil",
        width=512,
        num_hidden=4,
        inner_steps=100,
        inner_rate=0.01,
        batch_size=64,
        clip_norm=2.0,
    ),
    "maml": PreferenceConfig(
        learner="maml", width=368, inner_rate=0.01, outer_rate=1e-3, clip_norm=2.0
    ),
}
"""As `recombine.methods.hypernetworks.PUBLISHED` has them."""

PREFERENCE_STEPS = 10_000
PREFERENCE_NOTE = f"{PREFERENCE_STEPS:,} meta-steps in place of 100,000, 3 seeds in place of 6"

QUICK_PREFERENCE: dict[str, Any] = {
    "num_modules": 6,  # the fewest from which connected and disconnected pairs leave some out
    "num_types": 6,
    "num_support": 4,
    "num_query": 4,
    "width": 32,
    "num_hidden": 2,
    "num_templates": 16,
    "inner_rate": 0.1,
    "outer_rate": 2e-3,
    "clip_norm": 2.0,
    "num_tasks": 16,
    "num_measured": 512,
    "chunk_size": 64,
}
QUICK_PREFERENCE_OF: dict[str, dict[str, Any]] = {
    "linear-hnet": QUICK_PREFERENCE,
    "deep-hnet": {**QUICK_PREFERENCE, "outer_rate": 1e-3},
    "anil": {
        **QUICK_PREFERENCE,
        "width": 128,
        "inner_steps": 20,
        "inner_rate": 0.003,
        "batch_size": None,
        "outer_rate": 3e-3,
    },
    "maml": {**QUICK_PREFERENCE, "width": 64, "inner_rate": 0.01},
}
QUICK_PREFERENCE_STEPS = 1_500
QUICK_PREFERENCE_NOTE = (
    "six modules and six types in place of eight, 4 episodes to adapt to and 4 queries, 16 tasks "
    "in a step, small networks"
)

TINY_PREFERENCE: dict[str, Any] = {
    **TINY,
    "num_modules": 4,
    "num_types": 3,
    "num_support": 2,
    "num_query": 2,
}

OOD_LOSS = Metric("ood_loss", "loss, unseen combinations", higher_is_better=False, percent=False)
OOD_RELATIVE = Metric(
    "ood_relative", "share of a constant's loss, unseen combinations", higher_is_better=False
)
TEST_RELATIVE = Metric(
    "test_relative", "share of a constant's loss, trained combinations", higher_is_better=False
)
PREFERENCE_CHART = (Panel(OOD_LOSS, floor="ood_constant_loss"), Panel(OOD_RETURN))


def _make_preference(config: PreferenceConfig, steps: int) -> Any:
    from recombine.experiments.hypernetworks._grid_learners import make_preference_learner

    return make_preference_learner(config, steps)


def _sample_preference(config: PreferenceConfig) -> Mapping[str, np.ndarray]:
    from recombine.experiments.hypernetworks._grid_learners import sample_preference

    return sample_preference(config)


def _preference_row(
    support: str,
    learner: str,
    claim: str,
    paper: Paper,
    config: PreferenceConfig,
    rule: Rule,
    quick: Rule | None = None,  # the full one, where the quick variant has none of its own
) -> Row:
    # A random support differs between seeds: it is known once one has run.
    shown = (PREFERENCE_FILM, *(() if config.support == "random" else (SUPPORT_MASKS,)))
    return Row(
        id=f"{PREFERENCE}/{support}/{learner}",
        claim=claim,
        method=f"{NAMES[learner]}, {support}",
        make_learner=_make_preference,
        metric=OOD_LOSS,
        also=(OOD_RELATIVE, TEST_RELATIVE, OOD_RETURN),
        paper=paper,
        full=Variant(config, PREFERENCE_STEPS, EVERY, SEEDS, rule, PREFERENCE_NOTE),
        quick=_quick_preference(config, quick or rule),
        tiny=make_tiny(config, TINY_PREFERENCE),
        pictures=(PREFERENCE_FILM, SUPPORT_MASKS, HOTNESS, ADAPTATION),
        sample=Sample(_sample_preference, shown),
        selection=VALIDATION_LOSS,
    )


def _quick_preference(config: PreferenceConfig, rule: Rule) -> Variant:
    return Variant(
        replace(config, **QUICK_PREFERENCE_OF[config.learner]),
        QUICK_PREFERENCE_STEPS,
        500,
        SEEDS,
        rule,
        QUICK_PREFERENCE_NOTE,
    )


HALF = 0.5
"""Of the loss of one constant for all tasks; an untrained network that adapts its last layer, or an
output bias, comes close to the whole of it."""

LEARNED = AtMost(HALF, metric=TEST_RELATIVE.name)
"""Training worked: on trained combinations it is far better than a constant."""

CLEARLY = 1.25
"""In the quick rows, how many times the loss with compositional support a module costs that never
occurs; also as shares of a constant's loss, for tasks that all have one module differ in scale."""


def _compositional_preference(learner: str) -> Row:
    config = PREFERENCE_PUBLISHED[learner]
    if learner in HNETS:
        rivals = ids_of(f"{PREFERENCE}/compositional", MONOLITHIC)
        rule: Rule = AllOf((BelowEach(rivals), AtMost(HALF, metric=OOD_RELATIVE.name)))
        claim = (
            f"A {NAMES[learner]} that was shown three quarters of all combinations of preferences "
            f"values actions under the others better than networks without modules."
        )
        words = "below ANIL and MAML"
    else:
        rivals = ids_of(f"{PREFERENCE}/compositional", HNETS)
        rule = AllOf((AboveEach(rivals), LEARNED))
        claim = (
            f"{NAMES[learner]}, which has no modules, values actions under unseen combinations of "
            f"preferences worse than hypernetworks do."
        )
        words = "above both hypernetworks"
    return _preference_row(
        "compositional",
        learner,
        claim,
        Paper("Fig. 4, preferences, compositional support", words=f"loss {words}"),
        config,
        rule,
    )


def _noncompositional_preference(learner: str) -> Row:
    there = ids_of(f"{PREFERENCE}/compositional", (learner,))
    clearly = (
        AboveEach(there, factor=CLEARLY),
        AboveEach(there, metric=OOD_RELATIVE.name, factor=CLEARLY),
    )
    return _preference_row(
        "noncompositional",
        learner,
        f"Where one module never occurs in training, {NAMES[learner]} fails on tasks that have it.",
        Paper(
            "Fig. 4, preferences, non-compositional support",
            words="all learners clearly worse than with compositional support",
        ),
        replace(PREFERENCE_PUBLISHED[learner], support="non-compositional"),
        AboveEach(there),
        quick=AllOf(clearly),
    )


def _connected_preference(support: str, learner: str) -> Row:
    is_connected = support == "connected"
    counterpart = "disconnected" if is_connected else "connected"
    other = ids_of(f"{PREFERENCE}/{counterpart}", (learner,))
    return _preference_row(
        support,
        learner,
        "Pairs of modules that link all of them let unseen pairs work better than pairs that stay "
        "within two halves."
        if is_connected
        else "Pairs of modules that stay within two halves are learned, but the halves do not "
        "combine as well.",
        Paper(
            "Fig. 4, preferences, connected and disconnected support",
            words=f"loss {'below' if is_connected else 'above'} that of the "
            f"{'disconnected' if is_connected else 'connected'} support; 24 and 20 masks of full "
            f"rank, the same ten pairs unseen",
        ),
        replace(PREFERENCE_PUBLISHED[learner], support=support, max_active=2),
        BelowEach(other) if is_connected else AllOf((AboveEach(other), LEARNED)),
    )


PREFERENCES = Group(
    id=PREFERENCE,
    title="Preference grid: the values of actions",
    source="Schug et al. (2024), preferences, Fig. 4",
    rows=(
        *(_compositional_preference(learner) for learner in (*HNETS, *MONOLITHIC)),
        *(_noncompositional_preference(learner) for learner in (*HNETS, *MONOLITHIC)),
        *(
            _connected_preference(support, learner)
            for support in ("connected", "disconnected")
            for learner in HNETS
        ),
    ),
    charts=(Chart("unseen combinations against learner and support", PREFERENCE_CHART),),
)
