import numpy as np
import pytest

from recombine.experiments import Above, AllOf, AtLeast, AtMost, Below, NearPaper

FINALS = {"acc": np.array([0.9, 1.0, 0.2]), "train": np.array([1.0, 1.0, 1.0])}
OTHERS = {
    "worse": {"acc": np.array([0.1, 0.3])},
    "easier": {"train": np.array([0.5])},
    "other metric": {"x": np.array([0.0])},
}


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        (AtLeast(0.69), True),
        (AtLeast(0.9, "median"), True),
        (AtLeast(0.91, "median"), False),
        (AtLeast(0.5, "min"), False),
        (AtLeast(1.0, "min", "train"), True),
        (AtLeast(0.5, metric="missing"), None),
        (AtMost(0.71), True),
        (AtMost(0.69), False),
        (NearPaper(0.72, sd=0.01), True),
        (NearPaper(0.75, sd=0.01), False),
        (NearPaper(0.75, floor=0.06), True),
        (Above("worse"), True),
        (Above("worse", 0.6), False),
        (Below("worse"), False),
        (Above("worse", metric="train"), None),
        (Below("worse", metric="missing"), None),
        (Above("easier", metric="train"), True),
        (Below("easier", metric="train"), False),
        (Above("never run"), None),
        (Above("other metric"), None),
        (AllOf((AtLeast(0.5), Above("worse"))), True),
        (AllOf((AtLeast(0.99), Above("never run"))), False),
        (AllOf((AtLeast(0.5), Above("never run"))), None),
    ],
)
def test_rules_judge_as_they_say(rule, holds):
    judgement = rule.judge("acc", FINALS, OTHERS.get)
    assert judgement.holds is holds
    assert judgement.reason
