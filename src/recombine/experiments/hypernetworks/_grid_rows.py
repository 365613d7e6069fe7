"""The rows of the grid worlds: what is worth what, and what to do where.

The paper prints figures, so the rules are its orderings. In the preference grid a seed draws what
the modules like, and with it the scale of the loss: rows are compared over the same seeds.

What is learned first, by all learners alike, is how to move; what sets them apart comes later. The
quick variants of the goal grid have mazes so small that it comes within minutes on two cores. Those
of the preference grid keep its rooms, and show what a module costs that never occurs in training.
They do not show hypernetworks ahead of ANIL: no setting was found that does. Their rules ask for it
all the same, since that is what the paper says.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from recombine.experiments._row import Chart, Group, Metric, Panel, Paper, Row, Sample, Variant
from recombine.experiments._rules import AllOf, AtLeast, AtMost, Rule
from recombine.experiments.hypernetworks._grid_config import (
    GoalConfig,
    GridConfig,
    PreferenceConfig,
    SmallGoalConfig,
)
from recombine.experiments.hypernetworks._grid_pictures import (
    ADAPTATION,
    GOAL_FILM,
    HOTNESS,
    PREFERENCE_FILM,
)
from recombine.experiments.hypernetworks._orderings import AboveEach, BelowEach
from recombine.experiments.hypernetworks._pictures import SUPPORT_MASKS

PREFERENCE, GOALS = "modular/preference", "modular/goals"
HNETS, MONOLITHIC = ("linear-hnet", "deep-hnet"), ("anil", "maml")
NAMES = {
    "linear-hnet": "linear hypernetwork",
    "deep-hnet": "nonlinear hypernetwork",
    "anil": "ANIL",
    "maml": "MAML",
}

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
GOALS_PUBLISHED = {
    "linear-hnet": GoalConfig(),
    "deep-hnet": GoalConfig(
        learner="deep-hnet", adapts_bias=False, inner_rate=0.1, outer_rate=1e-3
    ),
    "anil": GoalConfig(
        learner="anil", width=512, inner_steps=100, inner_rate=0.01, outer_rate=1e-3
    ),
    "maml": GoalConfig(learner="maml", width=384, inner_rate=0.01, outer_rate=1e-3, clip_norm=1.0),
}
"""As `recombine.methods.hypernetworks.PUBLISHED` has them."""

PREFERENCE_STEPS, GOALS_STEPS = 10_000, 10_000
EVERY, SEEDS = 1_000, 3
PREFERENCE_NOTE = f"{PREFERENCE_STEPS:,} meta-steps in place of 100,000, 3 seeds in place of 6"
GOALS_NOTE = f"{GOALS_STEPS:,} meta-steps in place of 200,000"

# Mazes so small that moving is learned in minutes, and then what is asked.
QUICK_GOALS: dict[str, Any] = {
    "size": 5,
    "nearest_start": 4,
    "num_rows": 17,
    "num_mazes": 20,
    "exclude_goal_cell": True,
    "inner_rate": 0.1,
    "outer_rate": 3e-3,
    "clip_norm": 2.0,
    "num_tasks": 16,
    "num_measured": 512,
    "chunk_size": 64,
}
QUICK_GOALS_OF: dict[str, dict[str, Any]] = {
    "linear-hnet": QUICK_GOALS,
    "deep-hnet": QUICK_GOALS,
    "anil": {**QUICK_GOALS, "width": 128, "inner_steps": 20, "inner_rate": 0.01},
    "maml": {**QUICK_GOALS, "width": 64, "inner_rate": 0.01, "outer_rate": 2e-3},
}
QUICK_GOALS_STEPS = 5_000
QUICK_GOALS_NOTE = (
    "mazes of 5 x 5 cells, no goal hidden by a distractor, 16 tasks in a step, small networks, "
    "one seed"
)

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
QUICK_PREFERENCE_STEPS, QUICK_PREFERENCE_SEEDS = 1_500, 2
QUICK_PREFERENCE_NOTE = (
    "six modules and six types in place of eight, 4 episodes to adapt to and 4 queries, 16 tasks "
    "in a step, small networks, two seeds"
)

TINY: dict[str, Any] = {
    "width": 4,
    "num_hidden": 2,
    "num_templates": 3,
    "num_tasks": 2,
    "num_measured": 4,
    "chunk_size": 4,
    "num_played": 2,
}
TINY_PREFERENCE: dict[str, Any] = {
    **TINY,
    "num_modules": 4,
    "num_types": 3,
    "num_support": 2,
    "num_query": 2,
}
TINY_NOTE = "for tests: too small to show anything"

OOD_LOSS = Metric("ood_loss", "loss, unseen combinations", higher_is_better=False, percent=False)
OOD_RELATIVE = Metric(
    "ood_relative", "share of a constant's loss, unseen combinations", higher_is_better=False
)
TEST_RELATIVE = Metric(
    "test_relative", "share of a constant's loss, trained combinations", higher_is_better=False
)
OOD_ACCURACY = Metric("ood_accuracy", "accuracy, unseen combinations")
TEST_ACCURACY = Metric("test_accuracy", "accuracy, trained combinations")
ALL_CORRECT = Metric("ood_all_correct", "whole demonstrations right, unseen combinations")
OOD_RETURN = Metric("ood_return", "share of the expert's return, unseen combinations")

PREFERENCE_CHART = (Panel(OOD_LOSS, floor="ood_constant_loss"), Panel(OOD_RETURN))
GOALS_CHART = (Panel(OOD_ACCURACY, floor="test_accuracy"), Panel(OOD_RETURN))


def _make_preference(config: PreferenceConfig, steps: int) -> Any:
    from recombine.experiments.hypernetworks._grid_learners import make_preference_learner

    return make_preference_learner(config, steps)


def _make_goal(config: GoalConfig, steps: int) -> Any:
    from recombine.experiments.hypernetworks._grid_learners import make_goal_learner

    return make_goal_learner(config, steps)


def _sample_preference(config: PreferenceConfig) -> Mapping[str, np.ndarray]:
    from recombine.experiments.hypernetworks._grid_learners import sample_preference

    return sample_preference(config)


def _sample_goal(config: GoalConfig) -> Mapping[str, np.ndarray]:
    from recombine.experiments.hypernetworks._grid_learners import sample_goal

    return sample_goal(config)


def _tiny(config: GridConfig, changes: dict[str, Any]) -> Variant:
    few = {**changes, "inner_steps": min(config.inner_steps, 2)}
    if config.batch_size is not None:
        few["batch_size"] = 4
    if "connected" in str(getattr(config, "support", "")):  # six modules hold something out
        few["num_modules"] = 6
    return Variant(replace(config, **few), 2, 2, 1, AtLeast(0.0), TINY_NOTE)


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
        tiny=_tiny(config, TINY_PREFERENCE),
        pictures=(PREFERENCE_FILM, SUPPORT_MASKS, HOTNESS, ADAPTATION),
        sample=Sample(_sample_preference, shown),
    )


def _quick_preference(config: PreferenceConfig, rule: Rule) -> Variant:
    return Variant(
        replace(config, **QUICK_PREFERENCE_OF[config.learner]),
        QUICK_PREFERENCE_STEPS,
        500,
        QUICK_PREFERENCE_SEEDS,
        rule,
        QUICK_PREFERENCE_NOTE,
    )


def _goal_row(
    support: str,
    learner: str,
    claim: str,
    paper: Paper,
    config: GoalConfig,
    rule: Rule,
    quick: Rule | None = None,
) -> Row:
    return Row(
        id=f"{GOALS}/{support}/{learner}",
        claim=claim,
        method=f"{NAMES[learner]}, {support}",
        make_learner=_make_goal,
        metric=OOD_ACCURACY,
        also=(TEST_ACCURACY, ALL_CORRECT, OOD_RETURN),
        paper=paper,
        full=Variant(config, GOALS_STEPS, EVERY, SEEDS, rule, GOALS_NOTE),
        quick=None if quick is None else _quick_goals(config, quick),
        tiny=_tiny(config, {**TINY, "num_mazes": 5}),
        pictures=(GOAL_FILM, ADAPTATION),
        sample=Sample(_sample_goal, (GOAL_FILM,)),
    )


def _quick_goals(config: GoalConfig, rule: Rule) -> Variant:
    settings = {**asdict(config), **QUICK_GOALS_OF[config.learner]}
    return Variant(SmallGoalConfig(**settings), QUICK_GOALS_STEPS, 1_000, 1, rule, QUICK_GOALS_NOTE)


def _rows(experiment: str, support: str, learners: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{experiment}/{support}/{learner}" for learner in learners)


# --- preferences -------------------------------------------------------------------------------

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
        rivals = _rows(PREFERENCE, "compositional", MONOLITHIC)
        rule: Rule = AllOf((BelowEach(rivals), AtMost(HALF, metric=OOD_RELATIVE.name)))
        claim = (
            f"A {NAMES[learner]} that was shown three quarters of all combinations of preferences "
            f"values actions under the others better than networks without modules."
        )
        words = "below ANIL and MAML"
    else:
        rivals = _rows(PREFERENCE, "compositional", HNETS)
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
    there = _rows(PREFERENCE, "compositional", (learner,))
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
    other = _rows(PREFERENCE, "disconnected" if is_connected else "connected", (learner,))
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

# --- goals -------------------------------------------------------------------------------------

CHANCE = 1 / 6


def _compositional_goal(learner: str) -> Row:
    if learner in HNETS:
        rivals = _rows(GOALS, "compositional", MONOLITHIC)
        quick: Rule = AboveEach(rivals)
        rule: Rule = AllOf((quick, AboveEach(rivals, metric=ALL_CORRECT.name)))
        claim = (
            f"A {NAMES[learner]} imitates what one demonstration showed, in tasks whose "
            f"combination of goal, maze, quadrant and interaction is new, better than networks "
            f"without modules."
        )
        words = "above ANIL and MAML"
    else:
        rivals = _rows(GOALS, "compositional", HNETS)
        learned = AtLeast(CHANCE, metric=TEST_ACCURACY.name)
        quick = AllOf((BelowEach(rivals), learned))
        rule = AllOf((BelowEach(rivals), BelowEach(rivals, metric=ALL_CORRECT.name), learned))
        claim = f"{NAMES[learner]}, which has no modules, imitates new combinations less well."
        words = "below both hypernetworks"
    return _goal_row(
        "compositional",
        learner,
        claim,
        Paper("Fig. 5, goals, compositional support", words=f"accuracy {words}"),
        GOALS_PUBLISHED[learner],
        rule,
        quick=quick,
    )


def _noncompositional_goal(learner: str) -> Row:
    there = _rows(GOALS, "compositional", (learner,))
    return _goal_row(
        "noncompositional",
        learner,
        f"Where no goal was ever in the last quadrant, {NAMES[learner]} does not find those there "
        f"as well.",
        Paper("Fig. 5, goals, non-compositional support", words="accuracy drops for all learners"),
        replace(GOALS_PUBLISHED[learner], support="non-compositional"),
        BelowEach(there),
        quick=BelowEach(there),
    )


GOAL_TASKS = Group(
    id=GOALS,
    title="Goal grid: the actions of an expert",
    source="Schug et al. (2024), goals, Fig. 5",
    rows=(
        *(_compositional_goal(learner) for learner in (*HNETS, *MONOLITHIC)),
        *(_noncompositional_goal(learner) for learner in (*HNETS, *MONOLITHIC)),
    ),
    charts=(Chart("unseen combinations against learner and support", GOALS_CHART),),
)
