"""What `recombine tune` may search of these rows: the ranges of appendix C.

The thesis chooses by the lowest error, or the highest accuracy, that a run ever has on its test
examples, and so do these searches. `--metric` chooses by another metric of the row.
"""

from recombine.experiments._metric import Metric
from recombine.experiments._search import (
    Choice,
    LogUniform,
    Range,
    Search,
    Space,
    Uniform,
    Whole,
)
from recombine.experiments.distillation._config import ControlConfig, LifeConfig

SIZES = ("batch_size", "num_maps", "inner_steps")
"""What the quick variants keep: each value is a program of its own."""

OF_STUDENTS: dict[str, Range] = {
    "learning_rate": Choice((1e-3, 1e-2)),
    "weight_decay": Choice((0.0, 1e-5, 1e-4)),
}
CONTROL_SPACES: dict[str, tuple[dict[str, Range], str]] = {
    "model-free": ({**OF_STUDENTS, "batch_size": Choice((8, 16, 32))}, "the grid of Table C.2"),
    "auxiliary": (
        {**OF_STUDENTS, "teaching_weight": Choice((1.0, 2.0, 4.0))},
        "the grid of Table C.3",
    ),
    "ldt": (
        {
            "meta_beta1": Choice((0.0, 0.9)),
            "inner_rate": Choice((1e-3, 5e-3, 1e-2)),
            "teaching_weight": Choice((10**2.0, 10**2.5, 10**3.0)),
            "validation_share": Choice((0.3, 0.5, 0.7)),
        },
        "the grid of Table C.4",
    ),
}

LIFE_STUDENT: dict[str, Range] = {
    "learning_rate": LogUniform(1e-4, 1e-2, points=3),
    "weight_decay": LogUniform(1e-8, 1e-3, points=3),
    "batch_size": Choice((16, 32, 64, 128)),
    "num_maps": Choice((8, 16, 32)),
}
COEFFICIENT: dict[str, Range] = {
    "teaching_weights": Choice(tuple((10.0**exponent,) for exponent in range(-1, 5)))
}
FIRST_LOGITS: dict[str, Range] = {"attention_scale": LogUniform(1e-3, 1e-1, points=3)}
LEARNED: dict[str, Range] = {
    "inner_steps": Whole(16, 32, step=4),
    "meta_rate": LogUniform(1e-2, 10.0, points=4),
    "meta_momentum": Uniform(0.0, 0.99, points=2),
    "validation_share": LogUniform(1e-2, 0.9, points=2),
}
LIFE_SPACES: dict[str, dict[str, Range]] = {
    "none": LIFE_STUDENT,
    "fixed-random": {**LIFE_STUDENT, **COEFFICIENT, **FIRST_LOGITS},
    "fixed-oracle": {**LIFE_STUDENT, **COEFFICIENT},
    "ldt": {**LIFE_STUDENT, **COEFFICIENT, **LEARNED},
}
LIFE_NOTE = (
    "the table of App. C.3; ends of ranges that did not survive are ours. The teacher's rate is "
    "that of its logits, 10,000 times the table's"
)


def control_search(config: ControlConfig, metric: Metric) -> Search | None:
    """Returns the grid of the method's table; an untrained teacher has none."""
    if config.method not in CONTROL_SPACES:
        return None
    return _search(*CONTROL_SPACES[config.method], metric)


def life_search(config: LifeConfig, metric: Metric) -> Search:
    """Returns the ranges that the method has; one coefficient for each trial of the search."""
    return _search(LIFE_SPACES[config.method], LIFE_NOTE, metric)


def _search(space: dict[str, Range], note: str, metric: Metric) -> Search:
    numbers = {name: range_ for name, range_ in space.items() if name not in SIZES}
    return Search(space, metric=metric, by_test=True, note=note, quick=Space(numbers))
