"""The rows of the goal grid: what to do where.

The paper prints figures, so the rules are its orderings. What is learned first, by all learners
alike, is how to move; what sets them apart comes later. The quick variants have mazes so small that
it comes within minutes on two cores.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from recombine.experiments._row import Chart, Group, Metric, Panel, Paper, Row, Sample, Variant
from recombine.experiments._rules import AllOf, AtLeast, Rule
from recombine.experiments.hypernetworks._grid_config import GoalConfig, SmallGoalConfig
from recombine.experiments.hypernetworks._grid_pictures import ADAPTATION, GOAL_FILM
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

GOALS = "modular/goals"
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

GOALS_STEPS = 10_000
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
    "mazes of 5 x 5 cells, no goal hidden by a distractor, 16 tasks in a step, small networks"
)

OOD_ACCURACY = Metric("ood_accuracy", "accuracy, unseen combinations")
TEST_ACCURACY = Metric("test_accuracy", "accuracy, trained combinations")
ALL_CORRECT = Metric("ood_all_correct", "whole demonstrations right, unseen combinations")
GOALS_CHART = (Panel(OOD_ACCURACY, floor="test_accuracy"), Panel(OOD_RETURN))


def _make_goal(config: GoalConfig, steps: int) -> Any:
    from recombine.experiments.hypernetworks._grid_learners import make_goal_learner

    return make_goal_learner(config, steps)


def _sample_goal(config: GoalConfig) -> Mapping[str, np.ndarray]:
    from recombine.experiments.hypernetworks._grid_learners import sample_goal

    return sample_goal(config)


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
        tiny=make_tiny(config, {**TINY, "num_mazes": 5}),
        pictures=(GOAL_FILM, ADAPTATION),
        sample=Sample(_sample_goal, (GOAL_FILM,)),
        selection=VALIDATION_LOSS,
    )


def _quick_goals(config: GoalConfig, rule: Rule) -> Variant:
    settings = {**asdict(config), **QUICK_GOALS_OF[config.learner]}
    small = SmallGoalConfig(**settings)
    return Variant(small, QUICK_GOALS_STEPS, 1_000, SEEDS, rule, QUICK_GOALS_NOTE)


CHANCE = 1 / 6


def _compositional_goal(learner: str) -> Row:
    if learner in HNETS:
        rivals = ids_of(f"{GOALS}/compositional", MONOLITHIC)
        quick: Rule = AboveEach(rivals)
        rule: Rule = AllOf((quick, AboveEach(rivals, metric=ALL_CORRECT.name)))
        claim = (
            f"A {NAMES[learner]} imitates what one demonstration showed, in tasks whose "
            f"combination of goal, maze, quadrant and interaction is new, better than networks "
            f"without modules."
        )
        words = "above ANIL and MAML"
    else:
        rivals = ids_of(f"{GOALS}/compositional", HNETS)
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
    there = ids_of(f"{GOALS}/compositional", (learner,))
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
