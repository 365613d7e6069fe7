"""The rows of the Game of Life: figure 4.6.

The figure's numbers and its training sizes are not in the text; it says that a student without a
teacher learns nothing at any size, and that a learned teacher is better than a fixed one. There is
no search here but for the teaching coefficient, of which all methods have two trials.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from recombine.experiments._row import Chart, Group, Metric, Panel, Paper, Row, Sample, Variant
from recombine.experiments._rules import Above, AllOf, AtLeast, AtMost, Below, Rule
from recombine.experiments.distillation._config import LifeConfig
from recombine.experiments.distillation._judging import SomewhereAbove
from recombine.experiments.distillation._pictures import ATTENTION, BOARDS, BY_SIZE
from recombine.experiments.distillation._spaces import life_search

LIFE = "ldt/life"
SIZES = (512, 2048, 8192)
MAJORITY = 0.72  # always saying dead is right 69.9 % of the time; more is learning

ACCURACY = Metric("accuracy", "best test accuracy, mean over training sizes")
HONEST = Metric("chosen_accuracy", "the same, chosen by other examples")
AT_MOST_DATA = Metric("best_accuracy/8192", "best test accuracy, 8,192 examples")

STEPS, EVERY, SEEDS = 24, 2, 3
NOTE = (
    "600 iterations; the better of two teaching coefficients in place of a search; training sizes "
    "of our own; at most 512 examples judge the teacher; the teacher's learning rate is that of "
    "its logits"
)
QUICK: dict[str, Any] = {
    "sizes": (2048,),
    "teaching_weights": (10.0,),
    "meta_rate": 3.0,
    "board": 5,
    "num_steps": 2,
    "inner_steps": 16,
    "most_validation": 256,
    "num_test": 2000,
}
QUICK_STEPS = 16
QUICK_NOTE = (
    "two steps of the automaton on boards of 5 x 5, which is all that the middle cell depends on; "
    "8 maps, 2,048 examples, 400 iterations"
)
TINY: dict[str, Any] = {
    "sizes": (12, 16),
    "board": 3,
    "num_steps": 2,
    "num_maps": 2,
    "batch_size": 4,
    "student_steps": 2,
    "inner_steps": 2,
    "iterations": 1,
    "num_test": 10,
    "num_selection": 10,
}
SOURCE = "Fig. 4.6, whose numbers could not be read"


def _make_learner(config: LifeConfig, steps: int) -> Any:
    from recombine.experiments.distillation._life_learner import make_life_learner

    return make_life_learner(config, steps)


def _sample(config: LifeConfig) -> Mapping[str, np.ndarray]:
    from recombine.experiments.distillation._life_learner import sample_life

    return sample_life(config)


def _row(
    name: str,
    claim: str,
    method: str,
    config: LifeConfig,
    words: str,
    rule: Rule,
    quick: Rule | None,
    *,
    source: str = SOURCE,
    higher_is_better: bool = True,
) -> Row:
    return Row(
        id=f"{LIFE}/{name}",
        claim=claim,
        method=method,
        make_learner=_make_learner,
        metric=replace(ACCURACY, higher_is_better=higher_is_better),
        also=(HONEST,),
        paper=Paper(source, words=words),
        full=Variant(config, STEPS, EVERY, SEEDS, rule, NOTE),
        quick=None
        if quick is None
        else Variant(replace(config, **QUICK), QUICK_STEPS, 2, 2, quick, QUICK_NOTE),
        tiny=Variant(
            replace(config, **TINY), 2, 1, 1, AtLeast(0.0), "for tests: too small to show anything"
        ),
        pictures=(BY_SIZE,) if config.method == "none" else (BY_SIZE, ATTENTION),
        sample=Sample(_sample, (BOARDS,)),
        search=life_search(config, ACCURACY),
    )


def _each(rule: Any) -> tuple[Rule, ...]:
    return tuple(rule(f"best_accuracy/{size}") for size in SIZES)


LIFE_GROUP = Group(
    id=LIFE,
    title="Game of Life: is the middle cell alive after three steps?",
    source="Neitz, thesis, §4.4.2 and App. C.3, Fig. 4.6",
    rows=(
        _row(
            "ldt",
            "A teacher that learns which frame belongs to which layer makes its student learn from "
            "a scrambled future what labels alone do not teach it.",
            "learned teacher",
            LifeConfig(),
            "above the fixed teacher; learns from the scrambled trajectory",
            AllOf(
                tuple(
                    SomewhereAbove(
                        f"{LIFE}/{rival}", tuple(f"best_accuracy/{n}" for n in SIZES), 0.05
                    )
                    for rival in ("fixed-random", "none")
                )
            ),
            Above(f"{LIFE}/none", 0.05),
        ),
        _row(
            "none",
            "From labels alone a student learns nothing at these sizes.",
            "no teacher",
            LifeConfig(method="none"),
            "cannot learn anything from training sets of these sizes",
            AllOf(_each(lambda name: AtMost(MAJORITY, metric=name))),
            AtMost(MAJORITY),
            higher_is_better=False,
        ),
        _row(
            "fixed-random",
            "A teacher that mixes the frames at random helps less than one that learns.",
            "fixed random teacher",
            LifeConfig(method="fixed-random"),
            "below the learned teacher",
            Below(f"{LIFE}/ldt"),
            Below(f"{LIFE}/ldt"),
        ),
        _row(
            "fixed-oracle",
            "A teacher that knows the true order shows how much there is to be had.",
            "fixed oracle",
            LifeConfig(method="fixed-oracle"),
            "where it stands is only on the figure",
            Above(f"{LIFE}/none"),
            Above(f"{LIFE}/none", 0.05),
        ),
        _row(
            "ldt-in-order",
            "A learned teacher does as well with a scrambled future as with one in order.",
            "learned teacher, true order",
            LifeConfig(in_order=True),
            "no claim; the text says that it copes with the scrambled order",
            Above(f"{LIFE}/none"),
            None,
            source="beside Fig. 4.6",
        ),
        _row(
            "oracle-misled",
            "A fixed teacher that takes the scrambled order for the true one teaches less.",
            "oracle that is not told the order",
            LifeConfig(method="fixed-oracle", oracle_is_told=False),
            "no claim",
            Below(f"{LIFE}/fixed-oracle"),
            None,
            source="beside Fig. 4.6",
        ),
    ),
    charts=(
        Chart(
            "accuracy by teacher",
            (Panel(ACCURACY, floor="chosen_accuracy"), Panel(AT_MOST_DATA)),
        ),
    ),
)
