"""What the rows of the hyperteacher have in common: learners, sizes, and how a row is made."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from recombine.experiments._row import Metric, Panel, Paper, Row, Sample, Variant
from recombine.experiments._rules import AtLeast, Rule
from recombine.experiments._search import LogUniform, Search
from recombine.experiments.hypernetworks._config import HyperteacherConfig
from recombine.experiments.hypernetworks._pictures import DECODED, TRAINED_TOGETHER

HYPERTEACHER = "modular/hyperteacher"
COMPOSITIONAL = f"{HYPERTEACHER}/compositional"
HNETS, MONOLITHIC = ("linear-hnet", "deep-hnet"), ("anil", "maml")
NAMES = {
    "linear-hnet": "linear hypernetwork",
    "deep-hnet": "nonlinear hypernetwork",
    "anil": "ANIL",
    "maml": "MAML",
}
PUBLISHED = {
    "linear-hnet": HyperteacherConfig(),
    "deep-hnet": HyperteacherConfig(learner="deep-hnet", adapts_bias=False, outer_rate=3e-3),
    "anil": HyperteacherConfig(
        learner="anil",
        width=512,
        inner_steps=100,
        inner_rate=0.03,
        batch_size=64,
        weight_decay=1e-4,
        clip_norm=2.0,
    ),
    "maml": HyperteacherConfig(
        learner="maml", width=384, inner_rate=0.01, weight_decay=1e-4, clip_norm=2.0
    ),
}
"""As `recombine.methods.hypernetworks.PUBLISHED` has them, for eight modules."""

PUBLISHED_STEPS = 200_000
STEPS, EVERY, SEEDS = 16_000, 2_000, 3
TASKS = 16
NOTE = (
    f"{STEPS:,} meta-steps of {TASKS} tasks in place of {PUBLISHED_STEPS:,} of 128; each task's "
    f"gradient is shortened to 1 before their mean"
)
RATE_FACTORS = {"linear-hnet": 1.0, "deep-hnet": 2.0, "anil": 2.0, "maml": 2.0}
"""Where the falling outer rate starts, in published rates; twice, and it is the same on average. At
twice the published one the linear hypernetwork comes apart after some thousand steps."""
EPS_ROOTS = {"linear-hnet": 1e-3, "deep-hnet": 1e-3, "anil": 1e-4, "maml": 1e-4}
"""Under the root of the inner optimizer. Chosen by the validation loss, that is on trained
combinations, after 1,500 to 5,000 steps of one seed; every learner is better off than with the
published one."""
HALF_NOTE = "networks in float16"

# One generated layer, sixteen examples to adapt to: too few for networks without modules.
QUICK: dict[str, Any] = {
    "num_modules": 6,
    "max_active": 3,
    "teacher_hidden": 1,
    "teacher_width": 16,
    "num_outputs": 4,
    "num_support": 16,
    "num_query": 64,
    "num_hidden": 1,
    "width": 32,
    "num_templates": 24,
    "outer_rate": 1e-2,
    "outer_decays": True,  # as in full rows; without it a late step may undo much
    "weight_decay": 1e-4,
    "clip_norm": 2.0,
    "num_tasks": 16,
    "num_measured": 256,
    "chunk_size": 64,
}
QUICK_OF: dict[str, dict[str, Any]] = {
    "linear-hnet": QUICK,
    "deep-hnet": {**QUICK, "outer_rate": 3e-3},
    "anil": {
        **QUICK,
        "width": 64,
        "num_hidden": 2,
        "inner_steps": 20,
        "batch_size": None,
        "outer_rate": 2e-3,
    },
    "maml": {**QUICK, "width": 64, "outer_rate": 2e-3},
}
QUICK_STEPS, QUICK_SEEDS = 2_000, 3


def note_of_quick(
    modules: str = "six modules",
    examples: str = "16 examples",
    seeds: int = QUICK_SEEDS,
    more: str = "",
) -> str:
    """Says what the small teachers and networks of quick rows are like."""
    return (
        f"a teacher with one hidden layer, 16 units, {modules} and four classes, {examples} to "
        f"adapt to, 16 tasks in a step, small networks, {seeds} seeds{more}"
    )


QUICK_NOTE = note_of_quick()
TINY: dict[str, Any] = {
    "num_modules": 4,
    "max_active": 2,
    "teacher_hidden": 3,
    "teacher_width": 3,
    "num_inputs": 3,
    "num_outputs": 3,
    "num_support": 4,
    "num_query": 5,
    "num_hidden": 2,
    "width": 4,
    "num_templates": 3,
    "encoder_width": 4,
    "num_tasks": 2,
    "num_measured": 8,
    "chunk_size": 8,
}
TINY_NOTE = "for tests: too small to show anything"

OOD = Metric("ood_accuracy", "accuracy, unseen combinations")
TEST = Metric("test_accuracy", "accuracy, trained combinations")
OOD_LOSS = Metric(
    "ood_loss", "divergence, unseen combinations", higher_is_better=False, percent=False
)
R_SQUARED = Metric("decoded_mean", "R² of the decoded modules, unseen", percent=False)
VALIDATION = Metric("valid_accuracy", "validation accuracy")
VALIDATION_LOSS = Metric("valid_loss", "the validation loss", higher_is_better=False, percent=False)
SEARCH = Search(
    {
        "inner_rate": LogUniform(1e-2, 1.0, points=5),
        "outer_rate": LogUniform(3e-4, 3e-2, points=5),
        "weight_decay": LogUniform(1e-4, 1e-2, points=3),
    },
    metric=VALIDATION,
    note="around the published settings of the four learners; the paper prints no search of them. "
    "Chosen by tasks of trained combinations, never by unseen ones",
)
FLOOR = 0.25  # what the best answer without adapting gets right with eight modules
CHARTED = (Panel(OOD, floor="test_accuracy"), Panel(R_SQUARED, low=-1.0))


def _make_learner(config: HyperteacherConfig, steps: int) -> Any:
    from recombine.experiments.hypernetworks._hyperteacher_learner import make_hyperteacher_learner

    return make_hyperteacher_learner(config, steps)


def _sample(config: HyperteacherConfig) -> Mapping[str, np.ndarray]:
    from recombine.experiments.hypernetworks._hyperteacher_learner import sample_hyperteacher

    return sample_hyperteacher(config)


def _shorter(config: HyperteacherConfig, note: str) -> tuple[HyperteacherConfig, str]:
    """Returns what is run in full, and what is to be said of it."""
    factor, eps_root = RATE_FACTORS[config.learner], EPS_ROOTS[config.learner]
    config = replace(
        config,
        num_tasks=TASKS,
        outer_rate=factor * config.outer_rate,
        outer_decays=True,
        inner_eps_root=eps_root,
        clip_tasks=1.0,  # a few tasks of sixteen are most of their mean otherwise
    )
    start = "twice the published one" if factor == 2 else "the published one"
    note += (
        f"; the rate starts at {start} and falls along a cosine; {eps_root:g} under the root of "
        f"the inner optimizer in place of 1.2e-07"
    )
    if config.learner == "anil":  # with so few tasks it takes no less time in 16 bits
        return config, note
    return replace(config, precision="float16"), f"{note}; {HALF_NOTE}"


def make_row(
    row_id: str,
    claim: str,
    method: str,
    config: HyperteacherConfig,
    paper: Paper,
    rule: Rule,
    *,
    quick: Rule | None = None,
    quick_settings: dict[str, Any] | None = None,
    quick_note: str = QUICK_NOTE,
    quick_seeds: int = QUICK_SEEDS,
    note: str = NOTE,
    higher_is_better: bool = True,
) -> Row:
    """Makes a row with its three variants; without a quick rule there is no quick one."""
    shorter, note = _shorter(config, note)
    small = {**QUICK_OF[config.learner], **(quick_settings or {})}
    tiny = {**TINY, "inner_steps": min(config.inner_steps, 2)}
    if config.batch_size is not None:
        tiny["batch_size"] = 2
    if "connected" in config.support:  # which needs six modules to hold something out
        tiny["num_modules"] = 6
    return Row(
        id=row_id,
        claim=claim,
        method=method,
        make_learner=_make_learner,
        metric=replace(OOD, higher_is_better=higher_is_better),
        also=(TEST, OOD_LOSS),
        paper=paper,
        full=Variant(shorter, STEPS, EVERY, SEEDS, rule, note),
        quick=None
        if quick is None
        else Variant(replace(config, **small), QUICK_STEPS, 500, quick_seeds, quick, quick_note),
        tiny=Variant(replace(config, **tiny), 2, 2, 1, AtLeast(0.0), TINY_NOTE),
        pictures=(TRAINED_TOGETHER, DECODED),
        search=SEARCH,
        selection=VALIDATION_LOSS,
        # A random support is another one for every seed.
        sample=None if config.support == "random" else Sample(_sample, (TRAINED_TOGETHER,)),
    )


def ids_of(group: str, learners: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the ids of a group's rows, one for each learner."""
    return tuple(f"{group}/{learner}" for learner in learners)
