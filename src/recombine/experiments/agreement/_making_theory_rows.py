"""What the rows of the theory have in common."""

from typing import Any

from recombine.experiments._row import Metric, Variant
from recombine.experiments._rules import AtLeast

TINY_NOTE = "for tests: too small to show anything"
QUICK_NOTE = "fewer cases than the full run"


def number(name: str, label: str, *, higher_is_better: bool = False) -> Metric:
    """Returns a metric that is no share."""
    return Metric(name, label, higher_is_better=higher_is_better, percent=False)


def make_tiny(config: Any, metric: str) -> Variant:
    """Returns the variant for tests."""
    return Variant(
        config,
        steps=4,
        eval_every=2,
        num_seeds=2,
        rule=AtLeast(-1e9, metric=metric),
        note=TINY_NOTE,
    )
